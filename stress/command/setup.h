// Shared by the commands that run a program of ops.
#pragma once

#include <string>
#include <vector>

#include "command/arguments.h"
#include "engine/run/options.h"
#include "program/program.h"

namespace stress {

// The engine's options for this program.
Options options_of(const Program &program, const std::string &allocator, std::optional<bool> strict);

// By default, only our own libraries are judged strictly.
bool strict_default(const std::string &allocator);

// The malloc's name as recorded programs have it: hakmem, validate, system or a full path.
std::string allocator_named(const std::string &allocator);

// How a child ended: empty if it passed, otherwise its exit status or signal, such as "exit 3" or "SIGABRT".
std::string ending_text(int wait_status);

// Starts this program again with other arguments; -1 if the system refuses. `quiet`: discards its output.
pid_t spawn_self(const char *program_name, const std::vector<std::string> &arguments, bool quiet);

// Waits for the child and returns its wait status.
int wait_for(pid_t child);

}  // namespace stress

// What the commands that run a program have in common.
#pragma once

#include <string>
#include <vector>

#include "command/arguments.h"
#include "engine/run/options.h"
#include "program/program.h"

namespace stress {

// The options that the engine runs it with.
Options options_of(const Program &program, const std::string &allocator, std::optional<bool> strict);

// Our own libraries are judged strictly unless told otherwise.
bool strict_default(const std::string &allocator);

// As a recorded program names it: hakmem, validate, system or a full path.
std::string allocator_named(const std::string &allocator);

// How a child ended: empty when it passed, else exit status or signal as "SIGABRT", "exit 3".
std::string ending_text(int wait_status);

// Starts this program again with other arguments; -1 when the system refuses. `quiet`: without output.
pid_t spawn_self(const char *program_name, const std::vector<std::string> &arguments, bool quiet);

// Waits for it. Returns the wait status.
int wait_for(pid_t child);

}  // namespace stress

// Runs a helper program (a debugger, a symbolizer) and reads what it prints. It never runs on the malloc under test.
#pragma once

#include <string>
#include <vector>

namespace stress {

// The first of these programs in PATH, with its directory; empty if there is none.
std::string program_find(const std::vector<std::string> &names);

// Runs the program words[0] without a shell, since the words may name any path, and returns what it printed on stdout.
// Its environment has no LD_PRELOAD, no HAKMEM_* and no DEBUGINFOD_*. Kills it after `seconds_max`; the result is then
// empty.
std::string program_output(const std::vector<std::string> &words, int seconds_max);

// The environment of this process as such a program gets it. The pointers are those of `environ`; the last is null.
std::vector<char *> program_environment();

}  // namespace stress

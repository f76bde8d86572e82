// The stacks of another process, read from outside by gdb. The harness needs nothing of the malloc under test for them:
// gdb runs without it, unwinds by the libraries' own tables, and names functions, arguments and lines where a library
// has debug information.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace stress {

// One line for each thread and frame, the given thread first (0: none) and without the frames of its signal handler.
// If there is no gdb, or it may not attach, one line that says so. The process is stopped meanwhile.
std::vector<std::string> stack_lines(pid_t process, pid_t first_thread);

// gdb's words for the stacks of a process; empty if there is no gdb.
std::vector<std::string> stack_words(pid_t process);

// From gdb's output to the lines above.
std::vector<std::string> stack_read(const std::string &output, pid_t first_thread);

} // namespace stress

// The stacks of this very process, for a handler that runs while the malloc under test is broken: gdb attaches to it as
// a child. Nothing here calls the malloc under test.
#pragma once

#include <sys/types.h>

namespace stress {

// Finds gdb and makes everything ready. Call it before the run, and again in a process that a fork made.
void self_stack_prepare();

// Writes a line for each thread and frame, the given thread first and without its signal handler (0: none), indented.
// False: there is no gdb, or it could not attach; then it has written one line that says so. May run in a signal
// handler. Takes about a second.
bool self_stack_write(int fd, pid_t first_thread);

} // namespace stress

// The stacks of this very process or of its child, for a handler that runs while the malloc under test is broken: gdb
// attaches from outside, as a process of its own. Nothing here calls the malloc under test.
#pragma once

#include <sys/types.h>

namespace stress {

// Finds gdb and makes everything ready. Call it once, before the run. If system calls will be trapped (`filtered`), a
// process without the trap is started now, which becomes gdb when it is asked: gdb could not run with the trap.
void self_stack_prepare(bool filtered);

// Writes a heading, then a line for each thread and frame of the process, indented; the given thread first and without
// its signal handler (0: none). False: there is no gdb, or it could not attach; then it has written one line that says
// so. False and no line: nothing was prepared. May run in a signal handler. Takes about a second.
bool self_stack_write(int fd, const char *heading, pid_t process, pid_t first_thread);

// Whether self_stack_write is at work. The process is then stopped now and then, which is no hang.
bool self_stack_writing();

// Ends the process that self_stack_prepare started, if any.
void self_stack_end();

} // namespace stress

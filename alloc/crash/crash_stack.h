/* crash_stack.h: alternate signal stacks, so that the handler can run after a thread's own stack has overflowed. */
#pragma once

#include <stdbool.h>

/* begins: gives the calling thread an alternate stack if it has none. Otherwise takes back the one that it got here.
 * The stacks are mapped apart from the heap. If the system has no memory for one, the thread has none. Keeps errno. For
 * thread_watch. */
void crash_stack(bool begins);

/* Whether threads that begin get one. At first they do not. */
void crash_stack_want(bool wanted);

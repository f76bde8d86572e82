/* crash_stack.h: alternate signal stacks, so that the handler runs when a thread's own stack is used up. */
#pragma once

#include <stdbool.h>

/* Gives the calling thread one, if it has none; or takes the one that it got from here. Mapped apart from the heap.
 * Where the system has no memory for it the thread goes without. Keeps errno. Has the type thread_watch wants. */
void crash_stack(bool begins);

/* Whether threads that begin are to get one. At first they are not. */
void crash_stack_want(bool wanted);

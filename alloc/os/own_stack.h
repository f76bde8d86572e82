/* own_stack.h: a stack of the library's own, for work that needs more than a slow path may take of the program's. It is static
 * memory, so it is there from the start, costs nothing until it is used, and nobody can refuse it. */
#pragma once

#include <stddef.h>

#include "base/policy.h"

enum { OWN_STACK_BYTES = 64 * 1024 };

typedef void own_stack_fn(void *argument);

/* Calls the function on that stack. One thread at a time: the caller holds a lock, and has blocked the signals whose handlers
 * the program may leave by a jump. The function must not allocate while blocks are sampled (profile/stacks.h reads the stack).
 * Where threads are coroutines, and under a sanitizer, whose runtime knows each stack, it runs on the caller's. */
void own_stack_call(own_stack_fn *function, void *argument);

extern HAK_HIDDEN char own_stack[OWN_STACK_BYTES]; /* tests look how much of it was used */

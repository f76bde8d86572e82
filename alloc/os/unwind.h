/* unwind.h: the calling thread's stack, and where on the stack each return address lies. Any thread; not
 * async-signal-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { OS_UNWIND_FRAMES_MAX = 80 }; /* of one call */

/* A function that has not returned yet. */
struct os_frame {
    uintptr_t return_address; /* where it continues */
    /* The stack pointer there, so that the return address lies in the word below; 0 where the unwinder does not tell.
     * Only x86-64 has both it and the frame pointer. */
    uintptr_t stack_pointer;
    uintptr_t frame_pointer; /* what the register holds there */
};

/* Finds the unwinder, which may allocate: once, before the first call of os_unwind. */
void os_unwind_start(void);

/* Writes this function's caller and its callers, the innermost first; at most count_max of them, which is at most
 * OS_UNWIND_FRAMES_MAX. Returns how many. May fault where the stack is broken. */
size_t os_unwind(struct os_frame *frames, size_t count_max);

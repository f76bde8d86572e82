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

/* The functions that walk a stack; NULL: the unwinder is not known. */
struct os_unwinder {
    void *walk, *ip, *cfa, *reg;
};

/* Finds the unwinder, which may allocate, and takes libc's locks: call it under no lock. */
struct os_unwinder os_unwind_find(void);

/* The first one that is known is used from now on. A lock of the caller's orders its calls, and all that calls os_unwind
 * comes after one. */
void os_unwind_start(const struct os_unwinder *found);

/* Writes this function's caller and its callers, the innermost first; at most count_max of them, which is at most
 * OS_UNWIND_FRAMES_MAX. Returns how many. May fault where the stack is broken. */
size_t os_unwind(struct os_frame *frames, size_t count_max);

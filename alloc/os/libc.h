/* libc.h: what glibc offers and other C libraries do not, under names of ours. With glibc these are glibc's own, at no
 * cost; elsewhere this file and libc.c have the rest. Any thread may call; only what says so may allocate. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h> /* says which libc it is */
#include <string.h>

#include "base/policy.h"

#ifdef __GLIBC__
#include <execinfo.h>
#include <malloc.h>

/* Return addresses of the calling function and of its callers, at most count_max; returns how many. The first call in
 * a process may allocate. May fault where the stack is broken. */
HAK_INLINE int os_backtrace(void **frames, int count_max)
{
    return backtrace(frames, count_max);
}

/* "ENOSPC", or NULL where the number has no name, or names are not known; and "No space left on device", or NULL. */
static inline const char *os_error_name(int error)
{
    return strerrorname_np(error);
}
static inline const char *os_error_text(int error)
{
    return strerrordesc_np(error);
}

/* "SEGV", or NULL. Elsewhere than with glibc of those alone that a crash record is written for. */
static inline const char *os_signal_name(int signal)
{
    return sigabbrev_np(signal);
}

/* The upper end of the first thread's stack, or somewhat below. */
static inline uintptr_t os_first_stack_end(void)
{
    extern void *__libc_stack_end; /* of the dynamic linker */
    return (uintptr_t)__libc_stack_end;
}

#else

int os_backtrace(void **frames, int count_max);
static inline const char *os_error_name(int error)
{
    (void)error;
    return NULL;
}
static inline const char *os_error_text(int error)
{
    return strerror(error);
}
const char *os_signal_name(int signal);
uintptr_t os_first_stack_end(void);

/* As glibc's <malloc.h> has them. */
struct mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

#endif

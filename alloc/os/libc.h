/* libc.h: functions that glibc has and other C libraries lack, under our own names. With glibc they call glibc's, at no
 * cost; elsewhere this file and libc.c implement them. Any thread may call them. A function may allocate only where its
 * comment says so. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h> /* defines __GLIBC__ where libc is glibc */
#include <string.h>

#include "base/policy.h"

#ifdef __GLIBC__
#include <execinfo.h>
#include <malloc.h>

/* Writes the return addresses of the calling function and of its callers, at most count_max; returns how many. The
 * first call in a process may allocate. May fault where the stack is broken. */
HAK_INLINE int os_backtrace(void **frames, int count_max)
{
    return backtrace(frames, count_max);
}

/* The name of an error, "ENOSPC" say, and its text, "No space left on device". NULL where it has none, or where this
 * libc cannot tell. */
static inline const char *os_error_name(int error)
{
    return strerrorname_np(error);
}
static inline const char *os_error_text(int error)
{
    return strerrordesc_np(error);
}

/* The name of a signal, "SEGV" say, or NULL. Without glibc only the signals that crash records are written for have
 * names. */
static inline const char *os_signal_name(int signal)
{
    return sigabbrev_np(signal);
}

/* The upper end of the first thread's stack, or somewhat below. */
static inline uintptr_t os_first_stack_end(void)
{
    extern void *__libc_stack_end; /* defined by the dynamic linker */
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

/* The same members as in glibc's <malloc.h>. */
struct mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

#endif

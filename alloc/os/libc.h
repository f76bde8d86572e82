/* libc.h: functions that glibc has and other C libraries lack, under our own names. With glibc they call glibc's, at no
 * cost; elsewhere this file and libc.c implement them. Any thread may call them. A function may allocate only where its
 * comment says so. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h> /* defines __GLIBC__ where libc is glibc */
#include <string.h>

#include "base/policy.h"

/* What older releases of glibc lack: names of errors and signals, and mallinfo2. */
#ifdef __GLIBC__
#define LIBC_UNLOADS 1 /* dlclose may unload a file; musl keeps all */
#define LIBC_HAS_NAMES __GLIBC_PREREQ(2, 32)
#define LIBC_HAS_MALLINFO2 __GLIBC_PREREQ(2, 33)
/* Declares __libc_NAME, which is the function NAME of the same file. Elsewhere only NAME again, as libc has no such name or
 * keeps it to itself. */
#define LIBC_OTHER_NAME(result, name, ...) \
    result __libc_##name(__VA_ARGS__) __attribute__((alias(#name) LIBC_LIKE(name)))
#if __has_attribute(copy) /* gcc warns of an alias that promises less */
#define LIBC_LIKE(name) , copy(name)
#else
#define LIBC_LIKE(name)
#endif
#else
#define LIBC_OTHER_NAME(result, name, ...) result name(__VA_ARGS__)
#define LIBC_UNLOADS 0
#define LIBC_HAS_NAMES 0
#define LIBC_HAS_MALLINFO2 0
#endif

#ifdef __GLIBC__
#include <execinfo.h>
#if LIBC_HAS_MALLINFO2
#include <malloc.h>
#else
/* zig compiles for older releases of glibc with a newer one's header. */
#define mallinfo2 libc_newer_mallinfo2
#include <malloc.h>
#undef mallinfo2
#endif

/* Writes the return addresses of the calling function and of its callers, at most count_max; returns how many. The
 * first call in a process may allocate. May fault where the stack is broken. */
HAK_INLINE int os_backtrace(void **frames, int count_max)
{
    return backtrace(frames, count_max);
}

/* The upper end of the first thread's stack, or somewhat below. */
static inline uintptr_t os_first_stack_end(void)
{
    extern void *__libc_stack_end; /* defined by the dynamic linker */
    return (uintptr_t)__libc_stack_end;
}

#else

int os_backtrace(void **frames, int count_max);
uintptr_t os_first_stack_end(void);

/* The same members as in glibc's <malloc.h>. */
struct mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

#endif

#if !LIBC_HAS_MALLINFO2
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif

/* The name of an error, "ENOSPC" say, and its text, "No space left on device". NULL where it has none, or where this
 * libc cannot tell. */
static inline const char *os_error_name(int error)
{
#if LIBC_HAS_NAMES
    return strerrorname_np(error);
#else
    (void)error;
    return NULL;
#endif
}
static inline const char *os_error_text(int error)
{
#if LIBC_HAS_NAMES
    return strerrordesc_np(error);
#elif defined(__GLIBC__)
    (void)error; /* its strerror translates, which may allocate */
    return NULL;
#else
    return strerror(error);
#endif
}

/* The name of a signal, "SEGV" say, or NULL. Where libc has no names, only the signals that crash records are written for
 * have one. */
#if LIBC_HAS_NAMES
static inline const char *os_signal_name(int signal)
{
    return sigabbrev_np(signal);
}
#else
const char *os_signal_name(int signal);
#endif

/* own_libc.h: what libc and the kernel keep for each kernel thread, given to each coroutine instead. Also a memset and
 * memcpy that do not make untouched memory resident for long runs of zeros. Included first of all (-include) into the
 * sources whose code runs in coroutines. */
#pragma once

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* In fiber.cc: errno, and those system calls that distinguish threads. Other calls go to the system. */
#ifdef __cplusplus
extern "C" {
#endif
int *stress_fiber_errno(void);
long stress_fiber_syscall(long number, ...);
/* In fiber.cc: where a scenario wants that, what goes to standard error is counted instead of written. */
ssize_t stress_fiber_write(int file, const void *bytes, size_t size_bytes);
/* arena.h */
void *stress_fiber_memset(void *to, int value, size_t size_bytes);
void *stress_fiber_memcpy(void *to, const void *from, size_t size_bytes);
#ifdef __cplusplus
}
#endif

#undef errno
#define errno (*stress_fiber_errno())
#define syscall stress_fiber_syscall
#ifndef __cplusplus
#define memset stress_fiber_memset
#define write(file, bytes, size_bytes) stress_fiber_write(file, bytes, size_bytes)
#define memcpy stress_fiber_memcpy
#endif

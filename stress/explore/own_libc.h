/* own_libc.h: what libc and the kernel keep for a kernel thread, which all coroutines are: here each coroutine has its
 * own. And a memset and memcpy that give no memory to what is long and zero. Included before all else into the sources
 * whose code runs in coroutines (-include). */
#pragma once

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* fiber.cc: errno; and of the system's calls those that tell threads apart, the rest as they are. */
#ifdef __cplusplus
extern "C" {
#endif
int *stress_fiber_errno(void);
long stress_fiber_syscall(long number, ...);
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
#define memcpy stress_fiber_memcpy
#endif

/* call.h: the system calls of the allocator. It makes them itself, since libc's functions have two faults inside of malloc:
 *
 *   - A program may define mmap, open or another of these names, to watch its own memory or files. It may take a lock in
 *     there that the caller of malloc holds, or call malloc.
 *   - open, read, write, close and some others are cancellation points, and all set errno.
 *
 * libc's syscall() is one more name that a program may define, and sets errno too, so call.c has the instruction for each
 * processor. Sanitizers watch libc's functions, and the explorer replaces some: in their builds (OWN_CALLS) call.c calls
 * those. Three kinds of libc functions stay: sigaction, since only libc has the code that returns from a handler; what asks
 * the system nothing and is not called by malloc (sysconf); threads (pthread_create, pthread_sigmask). A program may
 * define those too, and allocate in them: none is called within a change of the heap (programs/interpose).
 *
 * Each function returns what the system does: a number of at least 0, or an errno value, negated. None sets errno, none
 * tries again after EINTR. Any thread may call them, also in a signal's handler. ci/lint/release_surface
 * rejects a library that takes libc's. */
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "base/policy.h"

/* Makes the call with this number. Calls of less than six arguments ignore the rest. */
intptr_t call_system(long number, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f);

/* Whether the result of a call that returns an address is an error. */
static inline bool call_failed(intptr_t result)
{
    return (uintptr_t)result >= (uintptr_t)-4095;
}

/* --- memory -------------------------------------------------------------------------------------------------- */

/* A mapping of no file. Returns its address, or see call_failed. */
static inline intptr_t call_mmap(void *at, size_t size_bytes, int protection, int flags)
{
    return call_system(SYS_mmap, (intptr_t)at, (intptr_t)size_bytes, protection, flags, -1, 0);
}

static inline int call_munmap(void *start, size_t size_bytes)
{
    return (int)call_system(SYS_munmap, (intptr_t)start, (intptr_t)size_bytes, 0, 0, 0, 0);
}

/* Returns the address, or see call_failed. */
static inline intptr_t call_mremap(void *start, size_t old_bytes, size_t new_bytes, int flags, void *target)
{
    return call_system(SYS_mremap, (intptr_t)start, (intptr_t)old_bytes, (intptr_t)new_bytes, flags, (intptr_t)target,
                       0);
}

static inline int call_mprotect(void *start, size_t size_bytes, int protection)
{
    return (int)call_system(SYS_mprotect, (intptr_t)start, (intptr_t)size_bytes, protection, 0, 0, 0);
}

static inline int call_madvise(void *start, size_t size_bytes, int advice)
{
    return (int)call_system(SYS_madvise, (intptr_t)start, (intptr_t)size_bytes, advice, 0, 0, 0);
}

static inline int call_mlockall(int flags)
{
    return (int)call_system(SYS_mlockall, flags, 0, 0, 0, 0, 0);
}

static inline int call_mincore(void *start, size_t size_bytes, unsigned char *resident)
{
    return (int)call_system(SYS_mincore, (intptr_t)start, (intptr_t)size_bytes, (intptr_t)resident, 0, 0, 0);
}

static inline intptr_t call_process_vm_readv(int process, const struct iovec *local, const struct iovec *remote)
{
    return call_system(SYS_process_vm_readv, process, (intptr_t)local, 1, (intptr_t)remote, 1, 0);
}

/* --- files --------------------------------------------------------------------------------------------------- */

static inline int call_open(const char *path, int flags, int mode)
{
    return (int)call_system(SYS_openat, AT_FDCWD, (intptr_t)path, flags, mode, 0, 0);
}

static inline intptr_t call_read(int fd, void *bytes, size_t size_bytes)
{
    return call_system(SYS_read, fd, (intptr_t)bytes, (intptr_t)size_bytes, 0, 0, 0);
}

static inline intptr_t call_write(int fd, const void *bytes, size_t size_bytes)
{
    return call_system(SYS_write, fd, (intptr_t)bytes, (intptr_t)size_bytes, 0, 0, 0);
}

/* The descriptor is closed also after an error. */
static inline int call_close(int fd)
{
    return (int)call_system(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* For commands that take a number. */
static inline int call_fcntl(int fd, int command, intptr_t argument)
{
    return (int)call_system(SYS_fcntl, fd, command, argument, 0, 0, 0);
}

static inline int call_fstat(int fd, struct stat *status)
{
    return (int)call_system(SYS_fstat, fd, (intptr_t)status, 0, 0, 0, 0);
}

static inline int call_stat(const char *path, struct stat *status)
{
    return (int)call_system(SYS_newfstatat, AT_FDCWD, (intptr_t)path, (intptr_t)status, 0, 0, 0);
}

static inline int call_access(const char *path, int mode)
{
    return (int)call_system(SYS_faccessat, AT_FDCWD, (intptr_t)path, mode, 0, 0, 0);
}

static inline int call_unlink(const char *path)
{
    return (int)call_system(SYS_unlinkat, AT_FDCWD, (intptr_t)path, 0, 0, 0, 0);
}

static inline int call_rename(const char *path, const char *new_path)
{
    return (int)call_system(SYS_renameat2, AT_FDCWD, (intptr_t)path, AT_FDCWD, (intptr_t)new_path, 0, 0);
}

/* Returns the length, which has no zero byte behind it. */
static inline intptr_t call_readlink(const char *path, char *target, size_t size_bytes)
{
    return call_system(SYS_readlinkat, AT_FDCWD, (intptr_t)path, (intptr_t)target, (intptr_t)size_bytes, 0, 0);
}

/* Returns the length with the zero byte. */
static inline intptr_t call_getcwd(char *path, size_t size_bytes)
{
    return call_system(SYS_getcwd, (intptr_t)path, (intptr_t)size_bytes, 0, 0, 0, 0);
}

static inline int call_pipe2(int ends[2], int flags)
{
    return (int)call_system(SYS_pipe2, (intptr_t)ends, flags, 0, 0, 0, 0);
}

/* --- the process and its threads ------------------------------------------------------------------------------- */

static inline int call_getpid(void)
{
    return (int)call_system(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* A copy of the process with the calling thread alone, as fork() makes one, but without handlers, and the parent gets no
 * signal when it ends. Returns 0 in the copy, its number in the parent. */
static inline int call_clone(void)
{
    return (int)call_system(SYS_clone, 0, 0, 0, 0, 0, 0);
}

static inline int call_wait4(int process, int options)
{
    return (int)call_system(SYS_wait4, process, 0, options, 0, 0, 0);
}

static inline int call_kill(int process, int signal)
{
    return (int)call_system(SYS_kill, process, signal, 0, 0, 0, 0);
}

static inline void call_exit_group(int status)
{
    call_system(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

/* The kernel's number of this thread. */
static inline int call_gettid(void)
{
    return (int)call_system(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

static inline int call_tgkill(int process, int thread, int signal)
{
    return (int)call_system(SYS_tgkill, process, thread, signal, 0, 0, 0);
}

static inline int call_rt_tgsigqueueinfo(int process, int thread, int signal, const siginfo_t *info)
{
    return (int)call_system(SYS_rt_tgsigqueueinfo, process, thread, signal, (intptr_t)info, 0, 0);
}

/* Sets of signals as the kernel has them: bit n - 1 is signal n. */
static inline int call_rt_sigprocmask(int how, const uint64_t *set, uint64_t *before)
{
    return (int)call_system(SYS_rt_sigprocmask, how, (intptr_t)set, (intptr_t)before, sizeof *set, 0, 0);
}

static inline int call_rt_sigpending(uint64_t *set)
{
    return (int)call_system(SYS_rt_sigpending, (intptr_t)set, sizeof *set, 0, 0, 0, 0);
}

static inline int call_rt_sigtimedwait(const uint64_t *set, const struct timespec *time)
{
    return (int)call_system(SYS_rt_sigtimedwait, (intptr_t)set, 0, (intptr_t)time, sizeof *set, 0, 0);
}

static inline int call_sigaltstack(const stack_t *stack, stack_t *before)
{
    return (int)call_system(SYS_sigaltstack, (intptr_t)stack, (intptr_t)before, 0, 0, 0, 0);
}

static inline int call_prctl(int what, intptr_t a, intptr_t b, intptr_t c, intptr_t d)
{
    return (int)call_system(SYS_prctl, what, a, b, c, d, 0);
}

/* Of this process and its threads. */
static inline int call_getrusage(struct rusage *usage)
{
    return (int)call_system(SYS_getrusage, RUSAGE_SELF, (intptr_t)usage, 0, 0, 0, 0);
}

static inline int call_getrlimit(int which, struct rlimit *limit)
{
    return (int)call_system(SYS_prlimit64, 0, which, 0, (intptr_t)limit, 0, 0);
}

/* Whether the calling thread has a capability, by its number in linux/capability.h, which musl's compiler does not find;
 * false if that is not known. */
enum { CALL_CAP_IPC_LOCK = 14 };
static inline bool call_has_capability(uint32_t number)
{
    struct {
        uint32_t version;
        int pid; /* 0: the calling thread */
    } header = {.version = 0x20080522};
    struct {
        uint32_t effective, permitted, inheritable;
    } sets[2];
    if (call_system(SYS_capget, (intptr_t)&header, (intptr_t)sets, 0, 0, 0, 0) != 0) return false;
    return (sets[number / 32].effective >> number % 32 & 1) != 0;
}

static inline int call_clock_gettime(clockid_t clock, struct timespec *now)
{
    return (int)call_system(SYS_clock_gettime, clock, (intptr_t)now, 0, 0, 0, 0);
}

/* time: NULL, or at most how long. */
static inline int call_futex(uint32_t *word, int operation, uint32_t value, const struct timespec *time)
{
    return (int)call_system(SYS_futex, (intptr_t)word, operation, (intptr_t)value, (intptr_t)time, 0, 0);
}

static inline void call_sched_yield(void)
{
    call_system(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

static inline void call_nanosleep(const struct timespec *time)
{
    call_system(SYS_nanosleep, (intptr_t)time, 0, 0, 0, 0, 0);
}

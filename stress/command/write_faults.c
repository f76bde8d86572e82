// A library for LD_PRELOAD that makes one call fail: the Nth, over all processes of a command, of those that write its
// results (open for writing, write, fsync, close, rename). write_faults_test says where results are, and which N.
//
//   WRITE_FAULT_UNDER    the directory of the results; those of children of a campaign (/proc/self/fd/3) count too
//   WRITE_FAULT_COUNTER  a file of 8 bytes: how many such calls there were
//   WRITE_FAULT_AT       N; 0: none fails
//   WRITE_FAULT_FULL     a file: while it is there, statvfs says that no disk has room
//   WRITE_FAULT_KIND     fail: the call fails, as on a full or broken disk; interrupt: SIGINT arrives before the call
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES_MAX 1024

static _Atomic uint64_t *counter;
static uint64_t fail_at;
static bool interrupts;
static const char *under;
static enum { NONE, WRITTEN, FOLDER } tracked[FILES_MAX]; // by descriptor: what is there of the results

__attribute__((constructor)) static void begin(void)
{
    const char *file = getenv("WRITE_FAULT_COUNTER"), *at = getenv("WRITE_FAULT_AT"),
               *kind = getenv("WRITE_FAULT_KIND");
    under = getenv("WRITE_FAULT_UNDER");
    if (file == NULL || at == NULL || under == NULL) return;
    fail_at = strtoull(at, NULL, 10);
    interrupts = kind != NULL && strcmp(kind, "interrupt") == 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0);
    void *shared = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared != MAP_FAILED) counter = shared;
    syscall(SYS_close, fd);
}

static bool is_result(const char *path)
{
    size_t length = strlen(path);
    if (length > 5 && strcmp(path + length - 5, "/lock") == 0) return false; // of a report's directory
    return counter != NULL && (strncmp(path, under, strlen(under)) == 0 || strcmp(path, "/proc/self/fd/3") == 0);
}

// Counts a call. True: it must fail.
static bool due(void)
{
    if (atomic_fetch_add(counter, 1) + 1 != fail_at) return false;
    if (!interrupts) return true;
    kill(getpid(), SIGINT);
    return false;
}

static long fail(int error)
{
    errno = error;
    return -1;
}

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    bool writes = is_result(path) && (flags & O_ACCMODE) != O_RDONLY;
    bool folder = is_result(path) && (flags & O_DIRECTORY) != 0; // to be synced, or only listed
    if (writes && due()) return (int)fail(EIO);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && fd < FILES_MAX) tracked[fd] = writes ? WRITTEN : folder ? FOLDER : NONE;
    return fd;
}

static bool fails(int fd)
{
    return fd >= 0 && fd < FILES_MAX && tracked[fd] == WRITTEN && due();
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    return fails(fd) ? fail(ENOSPC) : syscall(SYS_write, fd, bytes, count);
}

int fsync(int fd)
{
    bool failing = fails(fd) || (fd >= 0 && fd < FILES_MAX && tracked[fd] == FOLDER && due());
    return (int)(failing ? fail(EIO) : syscall(SYS_fsync, fd));
}

int close(int fd)
{
    bool failing = fails(fd);
    if (fd >= 0 && fd < FILES_MAX) tracked[fd] = NONE;
    long result = syscall(SYS_close, fd);
    return (int)(failing ? fail(EIO) : result);
}

int rename(const char *from, const char *to)
{
    return (int)(is_result(to) && due() ? fail(EIO) : syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int statvfs(const char *path, struct statvfs *disk)
{
    int (*real)(const char *, struct statvfs *);
    *(void **)&real = dlsym(RTLD_NEXT, "statvfs");
    const char *full = getenv("WRITE_FAULT_FULL");
    int result = real(path, disk);
    if (result == 0 && full != NULL && access(full, F_OK) == 0) disk->f_bavail = 0;
    return result;
}

/* Sits between a malloc and libc: functions that a malloc may call, each of which allocates first, as libc's own may
 * do. A malloc that calls them with a lock held, or before it can handle calls itself, never returns. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;
long __sysconf(int name); /* libc's own name for it */

static __thread int depth __attribute__((tls_model("initial-exec")));

static void allocate(void)
{
    if (depth > 0) return; /* malloc may call this function again from here; once is enough */
    depth++;
    for (size_t size = 16; size <= 200000; size *= 8) {
        char *block = malloc(size);
        if (block != NULL) block[0] = block[size - 1] = 1;
        free(block);
    }
    depth--;
}

long sysconf(int name)
{
    allocate();
    return __sysconf(name);
}

static char *find(const char *name)
{
    size_t length = strlen(name);
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
    return NULL;
}

char *getenv(const char *name)
{
    allocate();
    return find(name);
}

char *secure_getenv(const char *name)
{
    allocate();
    return find(name);
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int mode = va_arg(arguments, int);
    va_end(arguments);
    allocate();
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t read(int fd, void *buffer, size_t size)
{
    allocate();
    return syscall(SYS_read, fd, buffer, size);
}

int close(int fd)
{
    allocate();
    return (int)syscall(SYS_close, fd);
}

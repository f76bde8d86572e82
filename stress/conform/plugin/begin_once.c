/* Sits between a malloc and libc, as a library that watches files does: its first call allocates, under a lock. If malloc
 * calls it at its own start, it waits for that lock. sysconf(_SC_PHYS_PAGES) opens a file in some versions of glibc;
 * sysconf(_SC_PAGESIZE) does not. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

long __sysconf(int name); /* libc's own name for it */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ready;

static void begin_once(void)
{
    pthread_mutex_lock(&lock);
    if (!ready) {
        char *path = malloc(4096);
        if (path != NULL) path[0] = path[4095] = 1;
        free(path);
        ready = true;
    }
    pthread_mutex_unlock(&lock);
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int mode = va_arg(arguments, int);
    va_end(arguments);
    begin_once();
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

long sysconf(int name)
{
    if (name == _SC_PHYS_PAGES || name == _SC_AVPHYS_PAGES) begin_once();
    return __sysconf(name);
}

/* Before the malloc's own constructor. */
__attribute__((constructor)) static void use_first(void)
{
    close(open("/dev/null", O_RDONLY));
}

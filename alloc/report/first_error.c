/* first_error.c: see first_error.h. */
#include "report/first_error.h"

#include <stdbool.h>
#include <unistd.h>

#include "os/call.h"

enum { SECOND_FD_LEAST = 100 };

static int second_fd = -1;
static struct stat first;
static bool is_kept, is_known;

/* files: at the start */
void first_error_keep(void)
{
    is_kept = true;
    is_known = call_fstat(STDERR_FILENO, &first) == 0;
    if (!is_known) return;
    int fd = call_fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, SECOND_FD_LEAST);
    second_fd = fd >= 0 ? fd : -1; /* a low limit on descriptors: then as long as the program keeps its own */
}

/* files: in the child after fork, and of first_error_fd */
static bool is_first(int fd)
{
    struct stat now;
    return fd >= 0 && call_fstat(fd, &now) == 0 && now.st_dev == first.st_dev && now.st_ino == first.st_ino;
}

/* gate: fork calls it, and malloc only names the handler that does */
/* files: in the child after fork */
void first_error_after_fork(void)
{
    /* Without FD_CLOEXEC the number is the program's, which made it the same file. */
    if (is_first(second_fd) && call_fcntl(second_fd, F_GETFD, 0) == FD_CLOEXEC) call_close(second_fd);
    second_fd = -1;
}

int first_error_fd(void)
{
    if (!is_kept) return STDERR_FILENO;
    if (!is_known) return -1;
    return is_first(STDERR_FILENO) ? STDERR_FILENO : is_first(second_fd) ? second_fd : -1;
}

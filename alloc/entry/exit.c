/* exit.c: libhakmem-exit.so, which hakmem-run --stats preloads besides: a program that ends by _exit, as dash does, and
 * Python's os._exit, runs no destructor, so it would print no figures. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of libhakmem.so; NULL without it. See control/stats_write.h. */
extern void hak_private_stats_end(void) __attribute__((weak));

__attribute__((visibility("default"), noreturn)) void _exit(int status)
{
    if (hak_private_stats_end != NULL) hak_private_stats_end();
    for (;;) syscall(SYS_exit_group, status);
}

__attribute__((visibility("default"), noreturn)) void _Exit(int status)
{
    _exit(status);
}

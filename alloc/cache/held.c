/* held.c: see held.h. */
#include "cache/held.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "cache/tcache.h"
#include "report/failfast.h"
#include "report/settings.h"

void held_check(struct tcache *tcache)
{
    if (failfast_level() == LEVEL_NONE) return;
    /* By system calls: what libc has cached is in thread-local storage too. */
    int32_t thread = (int32_t)syscall(SYS_gettid);
    if (thread == tcache->kernel_thread) return;
    int32_t process = (int32_t)syscall(SYS_getpid);
    /* In another process the caller is a child after fork or vfork, and alone with what it sees. */
    if (process == tcache->kernel_process)
        failfast(FAILFAST_heap_not_held, tcache->heap, "of a thread cache that another kernel thread has used");
    tcache->kernel_thread = thread;
    tcache->kernel_process = process;
}

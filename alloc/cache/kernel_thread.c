/* kernel_thread.c: see kernel_thread.h. */
#include "cache/kernel_thread.h"

#include "cache/tcache.h"
#include "os/call.h"
#include "report/failfast.h"
#include "report/settings.h"

void kernel_thread_check(struct tcache *tcache)
{
    if (failfast_level() == LEVEL_NONE) return;
    /* Plain system calls: libc's cached ids are in thread-local storage, which the two threads may share. */
    int32_t thread = call_gettid();
    if (thread == tcache->kernel_thread) return;
    int32_t process = call_getpid();
    /* If the process differs, the caller is a child after fork or vfork, and no other thread of its process uses
     * this. */
    if (process == tcache->kernel_process)
        failfast(FAILFAST_heap_not_held, tcache->heap, "of a thread cache that another kernel thread has used");
    tcache->kernel_thread = thread;
    tcache->kernel_process = process;
}

/* kernel_thread.h: checks that only one kernel thread uses a heap. Not a part of the release library. */
#pragma once

struct tcache;

/* Called on slow paths. Ends the process if another kernel thread has used this thread cache. That happens when a raw
 * clone makes a thread that shares its creator's thread-local storage. */
void kernel_thread_check(struct tcache *tcache);

/* thread.h: the birth and end of a thread, as the heap sees them.
 *
 * A thread takes a heap at its first slow path: an orphan if there is one, else a new one. At its
 * end (a pthread key's destructor) it gives back all it has cached and makes the heap an orphan.
 * Destructors that run later, and libc's own last frees, still work: such a thread is ENDED, posts
 * its frees one by one, and borrows a heap for each allocation, which it returns before the
 * allocation is done. So nothing is left behind, but by a thread whose first allocation falls into
 * the last round of destructors: nobody tells of a later moment. */
#pragma once

#include "cache/tcache.h"

/* Makes the process ready: page map, key, fork handler. True when it is. Any thread; cheap when done. */
bool thread_process_start(void);

/* Gives the calling thread a heap. On return of true tcache->heap is set; if tcache->state is
 * THREAD_ENDED then, the caller must thread_leave() when its operation is done. False when the
 * system has no memory. */
HAK_COLD bool thread_start(struct tcache *tcache);

/* Empties a thread's cache and makes its heap an orphan. */
void thread_leave(struct tcache *tcache);

/* Gives back what the orphans hold and nobody uses. Returns how many there were. */
uint32_t thread_flush_orphans(void);

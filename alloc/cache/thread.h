/* thread.h: the birth and end of a thread, as the heap sees them.
 *
 * A thread takes a heap at its first slow path: an orphan if there is one, and best its predecessor's,
 * whose blocks it frees (or soon after, see thread_succeed); else a new one. At its
 * end (a pthread key's destructor) it makes the heap an orphan, with what it had cached, for the next
 * thread; where none comes within two rounds of the tick, that goes back to the slabs.
 * Destructors that run later, and libc's own last frees, still work: such a thread is ENDED, posts
 * its frees one by one, and borrows a heap for each allocation, which it returns before the
 * allocation is done. So nothing is left behind, but by a thread whose first allocation falls into
 * the last round of destructors: nobody tells of a later moment. */
#pragma once

#include "base/hooks.h"
#include "cache/tcache.h"

/* Makes the process ready: page map, key, fork handler. True when it is. Any thread; cheap when done. */
bool thread_process_start(void);

/* Gives the calling thread a heap. On return of true tcache->heap is set; if tcache->state is
 * THREAD_ENDED then, the caller must thread_leave() when its operation is done. False when the
 * system has no memory. */
HAK_COLD bool thread_start(struct tcache *tcache);

/* What happens when a thread ends, called in it: its heap becomes an orphan, and later operations borrow one. The key's
 * destructor; and for coroutines, of which no key knows the end. */
void thread_end(void *value);

/* Makes a thread's heap an orphan. */
void thread_leave(struct tcache *tcache);

/* The thread frees many blocks of this owner, and allocates too. If the owner is an orphan with more in use than the
 * thread's own heap (which is young, as a rule), the thread is its successor: it changes heaps, and the blocks are
 * local. */
HAK_COLD void thread_succeed(struct tcache *tcache, struct owner *owner);

/* Called in every thread that begins from now on, and at its end (base/hooks.h). NULL: none. */
void thread_watch(thread_watch_fn *new_watch);

/* A round of the tick: gives back what orphans have cached since before the last round. */
void thread_tick(void);
bool thread_any_warm(void);

/* In the child after fork: the number of orphans that have something cached, anew. */
void thread_recount_warm(void);

/* Gives back what the orphans hold and nobody uses. Returns how many there were. */
uint32_t thread_flush_orphans(void);

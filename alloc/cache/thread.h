/* thread.h: how a thread takes a heap when it starts and gives it up when it ends.
 *
 * A thread takes a heap at its first slow path: an orphan if there is one, preferably its predecessor's, whose blocks
 * it frees; otherwise a new heap. It may still change to its predecessor's soon after (thread_succeed). At its end (in
 * a pthread key's destructor) the thread makes the heap an orphan, which keeps what the thread had cached for the next
 * thread. If no thread adopts it within two rounds of the tick, the cached blocks go back to their slabs. Destructors
 * that run later, and libc's own last frees, still work: the thread is ENDED then, posts its frees one by one, and
 * borrows a heap for the length of each allocation. So no heap is lost, with one exception: a thread whose first
 * allocation comes in the last round of destructors, after which nothing tells the allocator of its end. */
#pragma once

#include "base/hooks.h"
#include "cache/tcache.h"

enum {
    /* A heap that has given out more at its thread's end gives back at once what it has cached. */
    ORPHAN_USED_BYTES_MAX = 16 << 20,
};

/* Prepares the process: page map, key, fork handler. False when the system has no memory. Any thread; cheap once
 * done. */
bool thread_process_start(void);

/* Gives the calling thread a heap: sets tcache->heap and returns true. Unless tcache->state is THREAD_LIVE then, the
 * caller must call thread_abandon_heap() after its operation. False when the system has no memory. */
HAK_COLD bool thread_start(struct tcache *tcache);

/* Ends the calling thread: its heap becomes an orphan, and later operations borrow one. This is the key's destructor;
 * for coroutines, which have no such destructor, the scheduler calls it. The value is not used. */
void thread_end(void *value);

/* For cache/ended.h: takes an orphan, or a new heap, and gives it back. Its parked lists stay for the next thread, as at
 * a thread's end. NULL: the system has no memory. */
struct heap *thread_borrow(struct tcache *tcache);
void thread_return(struct heap *heap);

/* Makes the thread's heap an orphan. */
void thread_abandon_heap(struct tcache *tcache);

/* Called when the thread frees many blocks of this owner, and allocates too. If the owner is an orphan with more in use
 * than the thread's own heap (which usually is young), the thread is its successor: it gives up its own heap and takes
 * this one, so that these frees are local. */
HAK_COLD void thread_succeed(struct tcache *tcache, struct owner *owner);

/* Sets the function that every thread calls from now on when it begins and when it ends (base/hooks.h). NULL: none. */
void thread_watch(thread_watch_fn *new_watch);

/* In each round of the tick, which `begins` with a call, every orphan is looked at once, and those that have rested since before
 * the last round are flushed: one in a call. Returns whether the round has more to flush, perhaps. thread_tick_whole is for a
 * thread that nobody waits for. thread_any_warm says whether any orphan has something cached. */
bool thread_tick(bool begins);
void thread_tick_whole(void);
bool thread_any_warm(void);

/* The warm orphans, as they are counted while they come and go, and counted again. */
uint32_t thread_warm_count(void);
uint32_t thread_count_warm(void);

/* In the child after fork. thread_leave makes an orphan of the heap of a thread that the child lacks, with the thread's
 * cache. It walks nothing and touches no block, so its cost is that of a few writes to the heap: what that thread had
 * cached, staged and not drained is looked at when the heap is adopted, or by the tick. If the system has no memory for the
 * cache's list heads, the child leaves the heap alone, as one that was being changed. thread_recount_warm counts the
 * orphans that have something cached again. thread_is_alone notes that the process has one thread, and whether it has a
 * heap. */
void thread_leave(struct tcache *dead);
struct block *left_list(const struct left *left, uint32_t class_index); /* NULL: the bin had none */
void thread_recount_warm(void);
void thread_is_alone(bool has_heap);

/* For inspection: makes warm orphans of all heaps that were left. */
void thread_settle_left(void);

/* Flushes every orphan. Returns how many there were. */
uint32_t thread_flush_orphans(void);

/* Calls hooks.cache_watch. */
void tcache_watch(struct tcache *tcache, bool begins);

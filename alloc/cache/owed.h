/* owed.h: what a heap owes when it has shrunk or idled, or grows: parked lists to give back, slabs to trim. It is paid in steps, on
 * slow paths and in visits, so that no malloc or free does work that grows with the heap. Only the thread that holds the heap, or
 * visits it, may call these functions. */
#pragma once

#include "cache/tcache.h"
#include "superslab/limit.h"

enum {
    /* A heap empties its caches and trims its slabs each time that the process's memory reaches a new peak, which is an eighth
     * (1 << GROWTH_LOG2) and GROWTH_BYTES_MIN above the last one. */
    GROWTH_LOG2 = 3,
    GROWTH_BYTES_MIN = 8 << 20,
    FLUSH_STEP_BLOCKS =
        256, /* a heap that has shrunk gives back this many parked blocks in a slow path, and a list's rest */
};

/* Whether the heap has put off work: parked lists to give back or slabs to trim, which may be all that its thread does; or slabs
 * to drain, which wait for slow paths as they come. */
static inline bool heap_owes_soon(const struct heap *heap)
{
    return (heap->flush_class | heap->owner.trim_class) != 0;
}

static inline bool heap_owes(const struct heap *heap)
{
    return heap_owes_soon(heap) || heap->owner.owes_drain;
}

/* As heap_magazines_give_back, in steps: heap_flush_begin starts it, and each heap_flush_step gives back FLUSH_STEP_BLOCKS blocks, and the rest of
 * the last list. The step behind the last list releases the slabs without a block in use. */
void heap_flush_begin(struct heap *heap);
void heap_flush_step(struct heap *heap);

/* The same with the bins' lists, which are parked first. While a flush is under way the bins are short (CREDIT_OWING) and stay, so
 * that a class has at most one list more than MAGAZINES_MAX. The caller is busy. */
void tcache_flush_begin(struct tcache *tcache);

/* A step of the work that heap_owes, if there is any left: a visit may have ended it. Slow paths call it while tcache->owes. */
HAK_COLD void tcache_pay(struct tcache *tcache);

/* Called when the thread has been on no slow path for pause_ms, or when a trim is put off. After a long pause, what lies free in
 * its heap is idle: trims the slabs, if more lies there than the last trim left. So does a trim whose wait is over. */
HAK_COLD void tcache_trim_idle(struct tcache *tcache, uint64_t now_ms, uint64_t pause_ms);

/* Blocks came back to slabs. If much is idle, each slow path reads the clock from now on, so that a pause shows. If the heap
 * owes work, each slow path does a part of it. */
void tcache_watch_idle(struct tcache *tcache);

/* The heap is about to take pages for a slab, or has taken some for a larger block. When the process has reached a new
 * peak, an eighth and GROWTH_BYTES_MIN above the last one, begins to empty the heap's caches and to trim its slabs: memory at the peak holds little that was kept for sizes that the
 * program uses no more. A swing below the peak costs nothing, and growth costs O(log of the peak) times. */
HAK_COLD void tcache_grown(struct tcache *tcache);
static inline void tcache_note_growth(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    if (heap != NULL && HAK_UNLIKELY(limit_committed_peak_bytes() >= heap->growth_bytes)) tcache_grown(tcache);
}

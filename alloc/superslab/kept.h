/* kept.h: the run that a thread freed last, at hand for its next malloc of as many pages. For heap/large.c, which puts runs
 * there and takes them, and for the pool and the purge, which count them and give them back.
 *
 * Threads share KEPT_LANES lanes, and a lane holds one run. The pages of a kept run are not free in
 * their superslab and have no tag. The thread that takes the run from its lane owns it. To all others the pages are free pages with
 * memory: purge.h counts them so, each round of the purge begins by giving them back to the pool, and no superslab is made
 * before that. Nothing is kept at HAKMEM_PURGE_DELAY_MS=0, under a limit, or beyond the soft one. */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "superslab/superslab.h"

enum {
    KEPT_LANES = 8, /* runs freed last that are kept at hand, one for each thread of as many */
    KEPT_TICK_PERIOD = 64, /* one in this number of mallocs that look for such a run makes the tick */
};

struct kept_lane {
    alignas(CACHE_LINE_BYTES) _Atomic(uintptr_t) run; /* the run's descriptor + its page_count; 0: none */
    _Atomic(uint32_t) pages_max; /* of the runs that were put here since they were given back last */
    _Atomic(uint32_t) asked; /* how often kept_tick_is_due was called here; threads may lose each other's calls */
};

extern struct kept_lane kept_lanes[KEPT_LANES];

/* The lane's run if it has this number of pages, or NULL. Any thread. */
static inline struct slab *kept_take(uint32_t lane, uint32_t pages)
{
    _Atomic(uintptr_t) *run = &kept_lanes[lane % KEPT_LANES].run;
    uintptr_t found = atomic_load_explicit(run, memory_order_relaxed);
    if (found % sizeof(struct slab) != pages) return NULL;
    /* acquire: pairs with the release in kept_put, so that what the last owner wrote comes before what we write. */
    if (!atomic_compare_exchange_strong_explicit(run, &found, 0, memory_order_acquire, memory_order_relaxed))
        return NULL; /* unreached: by chance: another thread takes it */
    return (struct slab *)(found - pages); /* NOLINT(performance-no-int-to-ptr) */
}

/* True for one in KEPT_TICK_PERIOD calls: a loop that takes nothing but kept runs must tick too. Any thread. */
static inline bool kept_tick_is_due(uint32_t lane)
{
    _Atomic(uint32_t) *asked = &kept_lanes[lane % KEPT_LANES].asked;
    uint32_t count = atomic_load_explicit(asked, memory_order_relaxed) + 1;
    atomic_store_explicit(asked, count, memory_order_relaxed);
    return count % KEPT_TICK_PERIOD == 0;
}

/* Keeps a run that the caller owns. Returns the run that the caller must give to the pool instead: the lane's old one, this
 * one, or NULL. Any thread. */
struct slab *kept_put(uint32_t lane, struct slab *run);

/* Gives all kept runs to the pool. */
void kept_give_back(void);

/* In a forked child: a thread of the parent may have been between a run and its bound. */
void kept_after_fork(void);

/* The pages of all kept runs, and a number that is at least as high and never costs more than a load. */
size_t kept_pages(void);
size_t kept_pages_bound(void);

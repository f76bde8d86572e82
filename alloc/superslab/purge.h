/* purge.h: how long free pages keep their memory, and when they are purged.
 *
 * There are two limits. The limit in time: a page that has been free for one to two delays is purged by the next tick
 * (on slow paths; the allocator has no thread of its own). The limit in number: when more free pages keep memory than a
 * share of the pages in use, they are purged at once down to half that limit, or to seven eighths where it was
 * learned, so that a process that frees much and then sleeps does not keep it. The limit in number learns: a page that a
 * limit purged and that is claimed again within WINDOW_DELAYS was purged too early. Each such page of a run raises the limit by one and a half pages, up to twice the peak of
 * pages in runs; each of a slab raises it by one to eight eighths of a page, up to the peak of pages in use. Neither
 * limit purges the pages learned, so in time a loop with long swings makes no system calls. When the swings end, the
 * limit falls again. (A page of a slab counts by how full the slabs freed lately were, since threads that come and go
 * release and claim many pages with little in them.)
 *
 * Called by the pool, on any thread. The figures order nothing and may lag: superslab_purge claims every page before it
 * purges it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "superslab/superslab.h"

enum {
    PURGE_DEBT_PAGES_MAX = 128, /* how many free pages above the limit in number later calls may have to purge */
    DIRTY_PAGES_MIN = 64, /* free pages that may keep their memory, however few pages are in use */
    DIRTY_SHARE_LOG2 = 2, /* beyond that: a quarter of the pages in use */
    SOFT_DIRTY_PAGES_MAX = RUN_PAGES_MAX, /* the same beyond the soft limit: a loop over one run purges nothing */
    INHERITED_SUPERSLABS_MAX = 32, /* a forked child that has more purges by madvise */
};

/* If a delay has passed since the last round, begins a round: it purges the pages that have been free since before the last
 * one. Makes a step of the rounds that are under way: the whole of them, outside of a malloc or free (round.h). now_ms is
 * os_now_ms(). True if this call began the round. Called on slow paths. */
bool pool_tick(uint64_t now_ms);

/* Rounds made so far, modulo 2^32. */
uint32_t pool_tick_rounds(void);

/* Lets each thread's next slow path see a new round. Async-signal-safe. */
void pool_tick_force(void);

/* Purges every free page, and resets what the limit in number has learned. Returns bytes given back. */
size_t pool_purge_all(void);

/* The same, and releases every empty superslab too: a huge block was refused, and may need the address space. */
void pool_make_room(void);

/* Purges at least this number of free pages, or all. Forgets nothing of what was learned. */
void pool_purge_some(size_t pages);

/* Sets the purge delay, in ms; 0 purges pages as they are freed. Called once, at start. */
void pool_set_purge_delay_ms(uint32_t delay_ms);

/* The limits in number and time leave this many free pages their memory, until pool_purge_all. Called once, at start. */
void purge_keep_at_least(size_t pages);

/* Count pages that were claimed for a run or a slab, dirty_pages of them with memory; and pages that are about to be
 * freed, with slab_eighths as for pool_free. */
void purge_count_claim(uint32_t pages, uint32_t dirty_pages, bool is_run);
void purge_count_free(uint32_t pages, uint32_t slab_eighths);

/* Counts free pages that have given their memory back. */
void purge_count_purged(uint32_t pages);

/* Called after pages of a superslab became free: purges if the limit in number is exceeded, or at delay 0. What one malloc or
 * free leaves of that, since it may not make more calls, the next ones do; until then purge_is_owed. */
void purge_after_free(struct superslab *superslab);
bool purge_is_owed(void);

/* The same after more pages than before may be kept (kept.h). */
void purge_after_keep(void);

/* Chooses how purged memory goes back (os_purge_by_advice): when a second thread takes a heap, and in the child after
 * fork. */
void purge_way_set(bool has_threads);

/* The delay, HAKMEM_PURGE_DELAY_MS. 0: free pages keep no memory. */
uint32_t purge_delay_ms(void);

size_t purge_claimed_pages(void);
size_t purge_dirty_pages(void); /* free, with memory */
bool purge_any_dirty(void); /* whether there may be such; cheaper */
size_t purge_committed_pages(void); /* claimed or dirty */
size_t purge_run_pages(void); /* of the claimed ones, those of runs */
size_t purge_purged_pages(void); /* ever */
size_t purge_keep_pages(void); /* what the limit in number has learned to keep */

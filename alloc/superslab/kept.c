/* kept.c: see kept.h. */
#include "superslab/kept.h"

#include "base/sync_point.h"
#include "superslab/limit.h"
#include "superslab/pool.h"
#include "superslab/purge.h"

struct kept_lane kept_lanes[KEPT_LANES];

/* The sum of pages_max. It orders nothing: relaxed. */
static _Atomic(size_t) bound;

static_assert(RUN_PAGES_MAX < sizeof(struct slab), "a descriptor's address has room for the number of pages");

size_t kept_pages_bound(void)
{
    return atomic_load_explicit(&bound, memory_order_relaxed);
}

size_t kept_pages(void)
{
    size_t pages = 0;
    for (uint32_t i = 0; i < KEPT_LANES; i++)
        pages += atomic_load_explicit(&kept_lanes[i].run, memory_order_relaxed) % sizeof(struct slab);
    return pages;
}

static bool may_keep(void)
{
    return limit_get() == SIZE_MAX && purge_delay_ms() != 0 && !limit_soft_exceeded();
}

/* True if it was lower. */
static bool bound_raise(struct kept_lane *lane, uint32_t pages)
{
    /* relaxed: either kept_give_back takes the run, or the exchange in kept_put has read what that left, and acquired that
     * the bound is 0. */
    uint32_t before = atomic_load_explicit(&lane->pages_max, memory_order_relaxed);
    while (before < pages)
        if (atomic_compare_exchange_weak_explicit(&lane->pages_max, &before, pages, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            atomic_fetch_add_explicit(&bound, pages - before, memory_order_relaxed);
            return true;
        }
    return false;
}

struct slab *kept_put(uint32_t lane_index, struct slab *run)
{
    if (HAK_UNLIKELY(!may_keep())) return run;
    struct kept_lane *lane = &kept_lanes[lane_index % KEPT_LANES];
    uint32_t pages = run->page_count;
    /* release: publishes the run to kept_take and kept_give_back. acquire: the old run is ours now; and see bound_raise. */
    uintptr_t old = atomic_exchange_explicit(&lane->run, (uintptr_t)run + pages, memory_order_acq_rel);
    sync_point("kept_put");
    if (HAK_UNLIKELY(bound_raise(lane, pages))) purge_after_keep();
    return (struct slab *)(old - old % sizeof(struct slab)); /* NOLINT(performance-no-int-to-ptr) */
}

void kept_after_fork(void)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < KEPT_LANES; i++) {
        struct kept_lane *lane = &kept_lanes[i];
        uint32_t pages = atomic_load_explicit(&lane->run, memory_order_relaxed) % sizeof(struct slab);
        uint32_t pages_max = atomic_load_explicit(&lane->pages_max, memory_order_relaxed);
        if (pages_max < pages) pages_max = pages;
        atomic_store_explicit(&lane->pages_max, pages_max, memory_order_relaxed);
        sum += pages_max;
    }
    atomic_store_explicit(&bound, sum, memory_order_relaxed);
}

void kept_give_back(void)
{
    for (uint32_t i = 0; i < KEPT_LANES; i++) {
        struct kept_lane *lane = &kept_lanes[i];
        /* relaxed: most lanes are not used. */
        if (atomic_load_explicit(&lane->pages_max, memory_order_relaxed) == 0) continue;
        /* relaxed: the exchange below publishes it. */
        atomic_fetch_sub_explicit(&bound, atomic_exchange_explicit(&lane->pages_max, 0, memory_order_relaxed),
                                  memory_order_relaxed);
        sync_point("kept_give_back");
        /* acquire: the run is ours now. release: see bound_raise. */
        uintptr_t found = atomic_exchange_explicit(&lane->run, 0, memory_order_acq_rel);
        if (found == 0) continue;
        struct slab *run = (struct slab *)(found - found % sizeof(struct slab)); /* NOLINT(performance-no-int-to-ptr) */
        pool_free_kept(superslab_of(run), run->page_index, run->page_count, 0);
    }
}

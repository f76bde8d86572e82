/* limit.c: see limit.h. */
#include "superslab/limit.h"

#include <stdatomic.h>

#include "base/config.h"
#include "base/policy.h"
#include "base/sync_point.h"
#include "superslab/purge.h"

static _Atomic(size_t) hard = SIZE_MAX, soft = SIZE_MAX;
static _Atomic(size_t) huge_bytes, peak_bytes;

void limit_set(size_t limit_bytes)
{
    atomic_store_explicit(&hard, limit_bytes, memory_order_relaxed);
}

void limit_soft_set(size_t limit_bytes)
{
    atomic_store_explicit(&soft, limit_bytes, memory_order_relaxed);
}

size_t limit_get(void)
{
    return atomic_load_explicit(&hard, memory_order_relaxed);
}

size_t limit_soft_get(void)
{
    return atomic_load_explicit(&soft, memory_order_relaxed);
}

size_t limit_committed_bytes(void)
{
    return (purge_claimed_pages() + purge_dirty_pages()) * PAGE_BYTES +
           atomic_load_explicit(&huge_bytes, memory_order_relaxed);
}

void limit_note_peak(void)
{
    size_t bytes = limit_committed_bytes(), peak = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
    while (bytes > peak) { /* another thread may note a higher one meanwhile */
        sync_point("limit_note_peak");
        if (atomic_compare_exchange_weak_explicit(&peak_bytes, &peak, bytes, memory_order_relaxed,
                                                  memory_order_relaxed))
            return;
    }
}

size_t limit_committed_peak_bytes(void)
{
    return atomic_load_explicit(&peak_bytes, memory_order_relaxed);
}

static bool fits(size_t committed_bytes, size_t more_bytes)
{
    size_t limit_bytes = limit_get();
    return committed_bytes <= limit_bytes && more_bytes <= limit_bytes - committed_bytes;
}

bool limit_allows(size_t more_bytes)
{
    if (HAK_LIKELY(limit_get() == SIZE_MAX) || fits(limit_committed_bytes(), more_bytes)) return true;
    /* A claim that finds free pages with memory commits nothing new, but that is not known before. */
    if (purge_dirty_pages() != 0) pool_purge_all();
    return fits(limit_committed_bytes(), more_bytes);
}

bool limit_soft_exceeded(void)
{
    size_t soft_bytes = limit_soft_get();
    return HAK_UNLIKELY(soft_bytes != SIZE_MAX) && limit_committed_bytes() > soft_bytes;
}

void limit_count_huge(size_t bytes)
{
    atomic_fetch_add_explicit(&huge_bytes, bytes, memory_order_relaxed);
    limit_note_peak();
}

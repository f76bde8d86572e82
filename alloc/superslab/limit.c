/* limit.c: see limit.h. */
#include "superslab/limit.h"

#include <stdalign.h>
#include <stdatomic.h>

#include "base/config.h"
#include "base/policy.h"
#include "base/sync_point.h"
#include "superslab/purge.h"

static _Atomic(size_t) hard = SIZE_MAX, soft = SIZE_MAX;
/* Each huge block writes them: on a line apart from what every call reads. */
static struct {
    alignas(CACHE_LINE_BYTES) _Atomic(size_t) huge_bytes;
    _Atomic(size_t) peak_bytes;
} now;

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
    return purge_committed_pages() * PAGE_BYTES + atomic_load_explicit(&now.huge_bytes, memory_order_relaxed);
}

void limit_note_peak(void)
{
    size_t bytes = limit_committed_bytes(), peak = atomic_load_explicit(&now.peak_bytes, memory_order_relaxed);
    while (bytes > peak) { /* another thread may note a higher one meanwhile */
        sync_point("limit_note_peak");
        if (atomic_compare_exchange_weak_explicit(&now.peak_bytes, &peak, bytes, memory_order_relaxed,
                                                  memory_order_relaxed))
            return;
    }
}

size_t limit_committed_peak_bytes(void)
{
    return atomic_load_explicit(&now.peak_bytes, memory_order_relaxed);
}

static bool fits(size_t committed_bytes, size_t more_bytes)
{
    size_t limit_bytes = limit_get();
    return committed_bytes <= limit_bytes && more_bytes <= limit_bytes - committed_bytes;
}

bool limit_fits(size_t more_bytes)
{
    return HAK_LIKELY(limit_get() == SIZE_MAX) || fits(limit_committed_bytes(), more_bytes);
}

bool limit_allows(size_t more_bytes)
{
    return limit_allows_beside(more_bytes, 0);
}

bool limit_allows_beside(size_t more_bytes, size_t claimed_dirty_pages)
{
    if (limit_fits(more_bytes)) return true;
    size_t committed_bytes = limit_committed_bytes(), dirty_pages = purge_dirty_pages();
    if (dirty_pages <= claimed_dirty_pages) return false;
    size_t dirty_bytes = (dirty_pages - claimed_dirty_pages) * PAGE_BYTES;
    if (dirty_bytes > committed_bytes || !fits(committed_bytes - dirty_bytes, more_bytes)) return false;
    pool_purge_some((committed_bytes + more_bytes - limit_get() + PAGE_BYTES - 1) / PAGE_BYTES);
    return fits(limit_committed_bytes(), more_bytes);
}

bool limit_soft_exceeded(void)
{
    size_t soft_bytes = limit_soft_get();
    return HAK_UNLIKELY(soft_bytes != SIZE_MAX) && limit_committed_bytes() > soft_bytes;
}

void limit_count_huge(size_t bytes)
{
    atomic_fetch_add_explicit(&now.huge_bytes, bytes, memory_order_relaxed);
    limit_note_peak();
}

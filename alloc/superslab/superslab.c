/* superslab.c: see superslab.h. */
#include "superslab/superslab.h"

#include "base/bits.h"
#include "base/sync_point.h"
#include "os/os.h"

/* Bit i is set where `pages` free pages in a row start at page i, a multiple of align_pages. */
static uint64_t starts(uint64_t free_pages, uint32_t pages, uint32_t align_pages)
{
    uint64_t found = bits_runs(free_pages, pages);
    if (HAK_LIKELY(align_pages == 1)) return found;
    uint64_t aligned = 1; /* bit i for each multiple i of align_pages */
    for (uint32_t shift = align_pages; shift < SUPERSLAB_PAGES; shift *= 2) aligned |= aligned << shift;
    return found & aligned;
}

/* The pages that such a claim may take: dirty ones, if there are any, or if it may take no others. */
static uint64_t candidates_of(const struct page_need *need, uint64_t free_pages, uint64_t dirty)
{
    uint64_t with_memory = starts(free_pages & dirty, need->pages, need->align_pages);
    if (HAK_LIKELY(with_memory != 0 && need->room_pages == 0)) return with_memory;
    if (HAK_UNLIKELY(need->dirty_only)) return with_memory;
    uint64_t all = starts(free_pages, need->pages + need->room_pages, need->align_pages);
    return (all & with_memory) != 0 ? all & with_memory : all;
}

static uint32_t choose(uint64_t candidates, bool from_top)
{
    return from_top ? log2_floor(candidates) : (uint32_t)__builtin_ctzll(candidates);
}

int superslab_claim(struct superslab *superslab, const struct page_need *need, bool *contended)
{
    uint32_t pages = need->pages;
    /* relaxed: the exchange below decides whether it was right. */
    uint64_t free_pages = atomic_load_explicit(&superslab->free_pages, memory_order_relaxed);
    for (;;) {
        uint64_t dirty = atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed);
        uint64_t candidates = candidates_of(need, free_pages, dirty);
        if (candidates == 0) return -1;
        uint32_t first = choose(candidates, need->from_top);
        uint64_t range = bits_range(first, pages);
        sync_point("superslab_claim");
        /* acquire: pairs with the release in superslab_free, so the last owner's writes to the pages and their
         * descriptors come before ours. */
        if (!atomic_compare_exchange_weak_explicit(&superslab->free_pages, &free_pages, free_pages & ~range,
                                                   memory_order_acquire, memory_order_relaxed)) {
            *contended = true;
            continue;
        }
        return (int)first;
    }
}

void superslab_partial_set(struct superslab *superslab, uint32_t first, uint32_t pages, uint64_t bits)
{
    /* relaxed: as for dirty_pages. Reading them first can save a write to a shared word. */
    uint64_t old = atomic_load_explicit(&superslab->partial_pages, memory_order_relaxed) & bits_range(first, pages);
    if (HAK_UNLIKELY((old & ~bits) != 0))
        atomic_fetch_and_explicit(&superslab->partial_pages, ~(old & ~bits), memory_order_relaxed);
    if (HAK_UNLIKELY((bits & ~old) != 0))
        atomic_fetch_or_explicit(&superslab->partial_pages, bits & ~old, memory_order_relaxed);
}

bool superslab_claim_at(struct superslab *superslab, uint32_t first, uint32_t pages)
{
    if (first + pages > SUPERSLAB_PAGES) return false;
    uint64_t range = bits_range(first, pages);
    uint64_t free_pages = atomic_load_explicit(&superslab->free_pages, memory_order_relaxed);
    while ((free_pages & range) == range) {
        sync_point("superslab_claim_at");
        /* acquire: as in superslab_claim. */
        if (atomic_compare_exchange_weak_explicit(&superslab->free_pages, &free_pages, free_pages & ~range,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
    }
    return false;
}

uint64_t superslab_free(struct superslab *superslab, uint32_t first, uint32_t pages, bool dirty)
{
    uint64_t range = bits_range(first, pages);
    if (dirty) {
        /* relaxed: published with the pages by the release below. Only we set and clear the bits of our pages, so
         * reading them first can save a write to a shared word. */
        if (~atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed) & range)
            atomic_fetch_or_explicit(&superslab->dirty_pages, range, memory_order_relaxed);
        if (atomic_load_explicit(&superslab->cold_pages, memory_order_relaxed) & range)
            atomic_fetch_and_explicit(&superslab->cold_pages, ~range, memory_order_relaxed);
    }
    sync_point("superslab_free");
    /* release: publishes the pages' content and descriptors to the next claim. seq_cst: the pages before the word of the
     * index, see index_raise. */
    return atomic_fetch_or_explicit(&superslab->free_pages, range, memory_order_seq_cst) | range;
}

/* Purges pages in a row if all of them are free. False if they are not, or the system refuses. */
static bool purge_row(struct superslab *superslab, uint32_t first, uint32_t pages, uint32_t *calls, uint32_t *purged)
{
    if (!superslab_claim_at(superslab, first, pages)) return false; /* in use again, so not idle */
    /* relaxed: the pages are ours; superslab_free publishes them. Another thread may have purged them between the
     * caller's look and our claim, hence this second look. */
    uint64_t range = bits_range(first, pages);
    uint64_t dirty = atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed) & range;
    bool is_done = dirty == 0;
    if (!is_done) {
        --*calls;
        is_done = os->purge(superslab_base(superslab) + (size_t)first * PAGE_BYTES, (size_t)pages * PAGE_BYTES) == 0;
        if (is_done) {
            atomic_fetch_and_explicit(&superslab->dirty_pages, ~range, memory_order_relaxed);
            *purged += (uint32_t)__builtin_popcountll(dirty);
        }
    }
    superslab_free(superslab, first, pages, false);
    return is_done;
}

/* The number of pages in `set` in a row from `first` on. */
static uint32_t row_pages(uint64_t set, uint32_t first)
{
    uint64_t others = ~(set >> first);
    return others == 0 ? SUPERSLAB_PAGES : (uint32_t)__builtin_ctzll(others);
}

uint32_t superslab_purge(struct superslab *superslab, uint64_t wanted, uint32_t *calls)
{
    uint32_t purged = 0;
    while (wanted != 0 && *calls > 0) {
        uint32_t first = (uint32_t)__builtin_ctzll(wanted), pages = row_pages(wanted, first);
        /* Rows with nothing but clean free pages between them go with one call. */
        uint64_t clean = atomic_load_explicit(&superslab->free_pages, memory_order_relaxed) &
                         ~atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed);
        uint64_t reach = wanted & bits_range(first, row_pages(wanted | clean, first));
        uint32_t pages_bridged = log2_floor(reach) + 1 - first;
        if (pages_bridged > pages && purge_row(superslab, first, pages_bridged, calls, &purged)) pages = pages_bridged;
        else if (*calls > 0) purge_row(superslab, first, pages, calls, &purged);
        wanted &= ~bits_range(first, pages);
    }
    return purged;
}

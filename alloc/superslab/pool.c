/* pool.c: see pool.h. */
#include "superslab/pool.h"

#include "base/bits.h"
#include "os/lock.h"
#include "superslab/backing.h"
#include "superslab/index.h"
#include "superslab/kept.h"
#include "superslab/limit.h"
#include "superslab/pool_make.h"
#include "superslab/purge.h"
#include "superslab/tight.h"

enum { LIMIT_LOOKS_MAX = 64 }; /* superslabs that search_dirty looks at */

/* The superslab where this thread's searches for runs begin. At first that is the first one. After a contended claim it
 * is the one behind, so that in time each thread uses superslabs of its own. */
static HAK_TLS uint32_t run_start;

/* --- claim --------------------------------------------------------------------------------- */

static void count_claim(const struct page_range *range, uint32_t pages, uint64_t dirty, bool is_run)
{
    uint64_t all = bits_range(range->first, pages);
    purge_count_claim(pages, (dirty & all) == all ? pages : (uint32_t)__builtin_popcountll(dirty & all), is_run);
    limit_note_peak();
}

/* At the limit, pages were found that need more memory than there is: gives them back. */
static HAK_COLD bool refuse(struct superslab *superslab, uint32_t first, uint32_t pages)
{
    uint64_t dirty = atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed) & bits_range(first, pages);
    size_t dirty_pages = (size_t)__builtin_popcountll(dirty);
    if (limit_allows_beside((pages - dirty_pages) * PAGE_BYTES, dirty_pages)) return false;
    superslab_free(superslab, first, pages, false);
    index_raise(superslab);
    return true;
}

/* Returns whether the search is over. range->superslab stays NULL if the limit has ended it.
 *
 * Claiming takes the dirty ones of the pages out of the count of free dirty pages. All of them count as dirty when they
 * are freed: their owner will have written to them. */
static bool claim_from(struct superslab *superslab, const struct page_need *need, struct page_range *range)
{
    bool contended = false;
    int first = superslab_claim(superslab, need, &contended);
    if (contended) HAK_MINE(run_start) = superslab->index + 1;
    if (first < 0) return false;
    if (HAK_UNLIKELY(need->at_limit) && refuse(superslab, (uint32_t)first, need->pages)) return true;
    range->superslab = superslab;
    range->first = (uint32_t)first;
    /* relaxed: only the owner of a page writes its bits, and we own these pages. */
    uint64_t dirty = atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed);
    uint64_t partial = atomic_load_explicit(&superslab->partial_pages, memory_order_relaxed);
    uint64_t mine = bits_range(range->first, need->pages);
    range->dirty = (dirty & mine) >> range->first;
    range->partial = (partial & mine) >> range->first;
    if (!need->from_top) superslab_partial_set(superslab, range->first, need->pages, 0); /* a slab will use them */
    count_claim(range, need->pages, dirty, need->from_top);
    return true;
}

static bool search_part(uint32_t start, uint32_t end, const struct page_need *need, struct page_range *range)
{
    uint32_t byte = index_byte(need->align_pages), least = need->pages + need->room_pages;
    for (uint32_t index = start; (index = index_find(byte, least, index)) < end; index++) {
        struct superslab *superslab = superslab_at(index);
        if (claim_from(superslab, need, range)) return true;
        index_lower(superslab);
    }
    return false;
}

/* At the limit pages without memory cost a call to the system, which takes it from others: pages that have memory are searched
 * first, in a bounded number of superslabs. */
static HAK_COLD bool search_dirty(struct page_need need, struct page_range *range)
{
    need.dirty_only = true;
    const uint32_t byte = index_byte(need.align_pages);
    uint32_t index = 0;
    for (uint32_t looks = 0; looks < LIMIT_LOOKS_MAX; looks++, index++) {
        index = index_find(byte, need.pages, index);
        if (index == INDEX_NONE) return false;
        if (claim_from(superslab_at(index), &need, range)) return true;
    }
    return false;
}

static bool search(const struct page_need *need, struct page_range *range)
{
    if (HAK_UNLIKELY(need->at_limit) && search_dirty(*need, range)) return true;
    uint32_t start = need->from_top ? HAK_MINE(run_start) : 0; /* searches for slabs start at the bottom */
    if (search_part(start, INDEX_NONE, need, range)) return true;
    return start > 0 && search_part(0, start, need, range);
}

/* Whether the block should be a mapping of its own, and may be. */
static bool is_tight(const struct page_need *need)
{
    if (need->block_bytes == 0) return false;
    return pool_is_frugal() || tight_is(need, pool_made().superslab_count);
}

struct page_range pool_claim_for(struct page_need need)
{
    struct page_range range = {.superslab = NULL};
    size_t bytes = (size_t)need.pages * PAGE_BYTES;
    need.at_limit = HAK_UNLIKELY(!limit_fits(bytes));
    if (HAK_UNLIKELY(need.at_limit) && !purge_any_dirty()) return range; /* no page has memory, so none can be had */
    if (search(&need, &range)) return range;
    if (HAK_UNLIKELY(need.at_limit) && !limit_allows(bytes)) return range;
    if (kept_pages_bound() != 0) {
        kept_give_back();
        if (search(&need, &range)) return range;
    }
    range.is_tight = is_tight(&need);
    if (HAK_UNLIKELY(range.is_tight)) return range;
    lock_acquire(LOCK_POOL);
    /* Search again: another thread may have made a superslab while we waited. */
    if (!search(&need, &range)) pool_make(&need, &range);
    if (range.made) count_claim(&range, need.pages, 0, need.from_top);
    lock_release(LOCK_POOL);
    range.is_refused = range.superslab == NULL;
    /* The heap grows: a good moment to look at the others, as there may be no tick while nothing is idle. */
    if (range.made && HAK_UNLIKELY(backing_huge_policy() == HUGE_FULL)) backing_round();
    return range;
}

struct page_range pool_claim(uint32_t pages, uint32_t align_pages, bool from_top)
{
    return pool_claim_for((struct page_need){.pages = pages, .align_pages = align_pages, .from_top = from_top});
}

bool pool_extend(struct superslab *superslab, uint32_t first, uint32_t old_pages, uint32_t new_pages)
{
    uint32_t more = new_pages - old_pages;
    if (HAK_UNLIKELY(!limit_allows((size_t)more * PAGE_BYTES))) return false;
    if (!superslab_claim_at(superslab, first + old_pages, more)) return false;
    struct page_range range = {.superslab = superslab, .first = first + old_pages};
    count_claim(&range, more, atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed), true);
    return true;
}

/* --- free ------------------------------------------------------------------------------------- */

void pool_free_kept(struct superslab *superslab, uint32_t first, uint32_t pages, uint32_t slab_eighths)
{
    purge_count_free(pages, slab_eighths); /* before another thread can claim the pages and subtract them again */
    uint64_t free_pages = superslab_free(superslab, first, pages, true);
    index_raise_run(superslab, free_pages, first, pages);
}

void pool_free(struct superslab *superslab, uint32_t first, uint32_t pages, uint32_t slab_eighths)
{
    pool_free_kept(superslab, first, pages, slab_eighths);
    purge_after_free(superslab);
}

struct pool_figures pool_figures(void)
{
    const struct pool_made made = pool_made();
    return (struct pool_figures){
        .superslab_count = made.superslab_count,
        .missing_pages = made.missing_pages,
        .claimed_pages = purge_claimed_pages(),
        .dirty_pages = purge_dirty_pages(),
        .made_count = made.made_count,
        .purged_pages = purge_purged_pages(),
        .keep_pages = purge_keep_pages(),
    };
}

void pool_for_each(void (*visit)(struct superslab *superslab, void *context), void *context)
{
    uint32_t count = chunk_count();
    for (uint32_t i = 0; i < count; i++) {
        struct chunk *chunk = chunk_at(i);
        /* acquire: pairs with superslab_make. */
        uint64_t present = atomic_load_explicit(&chunk->present, memory_order_acquire);
        for (; present != 0; present &= present - 1) visit(&chunk->superslabs[__builtin_ctzll(present)], context);
    }
}

void pool_for_each_below(uint32_t end, bool (*visit)(struct superslab *superslab, void *context), void *context)
{
    uint32_t all = chunk_count() * CHUNK_SUPERSLABS;
    if (end > all) end = all;
    for (uint32_t i = (end + CHUNK_SUPERSLABS - 1) / CHUNK_SUPERSLABS; i-- > 0;) {
        struct chunk *chunk = chunk_at(i);
        /* acquire: as in pool_for_each. */
        uint64_t present = atomic_load_explicit(&chunk->present, memory_order_acquire);
        if (end - i * CHUNK_SUPERSLABS < CHUNK_SUPERSLABS) present &= bits_range(0, end - i * CHUNK_SUPERSLABS);
        while (present != 0) {
            uint32_t index = log2_floor(present);
            present &= ~(1ull << index);
            if (!visit(&chunk->superslabs[index], context)) return;
        }
    }
}

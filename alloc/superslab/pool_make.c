/* pool_make.c: see pool_make.h. */
#include "superslab/pool_make.h"

#include "base/bits.h"
#include "os/lock.h"
#include "os/meta.h"
#include "os/os.h"
#include "os/sanitizer.h"
#include "superslab/backing.h"
#include "superslab/index.h"
#include "superslab/pagemap.h"

enum { LIVE_BITS_BYTES = SUPERSLAB_BYTES / GRANULE_BYTES / 8 };

/* They order nothing: relaxed everywhere. */
static _Atomic(size_t) superslab_count, made_count, missing_count;

static _Atomic(bool) is_frugal; /* relaxed */

/* --- new superslabs, under the POOL lock ----------------------------------------------------- */

/* Returns a descriptor without address space, a new one if need be. The index is set here and not for the whole chunk at
 * once, which would touch 64 pages in a program that needs one. It is written only once, since threads that found the
 * superslab before it was released may still read it. */
static struct superslab *descriptor_take(void)
{
    uint32_t index = 0;
    while ((index = index_find(INDEX_ABSENT, 1, index)) != INDEX_NONE) {
        /* acquire: pairs with the clearing in pool_release, which does not hold the lock. */
        uint64_t present = atomic_load_explicit(&chunk_at(index / CHUNK_SUPERSLABS)->present, memory_order_acquire);
        if ((present >> index % CHUNK_SUPERSLABS & 1) == 0) break;
        index_lower(superslab_at(index)); /* the word was too high */
    }
    if (index == INDEX_NONE) {
        index = chunk_count() * CHUNK_SUPERSLABS;
        if (chunk_make() == NULL) return NULL;
    }
    struct superslab *superslab = superslab_at(index);
    if (superslab->index != index) superslab->index = index;
    return superslab;
}

/* Bits for the blocks of all pages. They are made once, and take memory as blocks are freed. */
static bool bits_make(struct superslab *superslab)
{
    if (superslab->marks == NULL) superslab->marks = meta_alloc(SUPERSLAB_PAGES * sizeof(mark_words));
    if (superslab->marks == NULL) return false;
    if (VALIDATE && superslab->live_bits == NULL) superslab->live_bits = meta_alloc(LIVE_BITS_BYTES);
    return !VALIDATE || superslab->live_bits != NULL;
}

/* The superslab has pages from start on that no other thread sees yet. */
static void tell_sanitizer(char *start, size_t size_bytes)
{
    if (ASAN) sanitizer_close(start, size_bytes);
    if (ASAN) sanitizer_root(start, size_bytes);
}

static bool superslab_back(struct superslab *superslab)
{
    if (!bits_make(superslab)) return false;
    char *base = pagemap_map(SUPERSLAB_BYTES, SUPERSLAB_BYTES);
    if (base == NULL) return false;
    if (backing_huge_policy() == HUGE_ALL) os_advise_huge(base, SUPERSLAB_BYTES);
    tell_sanitizer(base, SUPERSLAB_BYTES);
    atomic_store_explicit(&superslab->base, base, memory_order_relaxed); /* published with the pages */
    return true;
}

/* Makes a superslab known, whose pages but `free_pages` the caller owns. */
static void superslab_begin(struct superslab *superslab, uint64_t free_pages)
{
    struct chunk *chunk = chunk_of(superslab);
    /* release: publishes the descriptor; pairs with the acquire in pool_for_each and pool_for_each_below. seq_cst: before
     * the word of the index, as in superslab_end. */
    atomic_fetch_or_explicit(&chunk->present, 1ull << superslab->index % CHUNK_SUPERSLABS, memory_order_seq_cst);
    atomic_fetch_add_explicit(&superslab_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&made_count, 1, memory_order_relaxed);
    /* release: publishes base and the words above; pairs with the acquire in superslab_claim. */
    atomic_store_explicit(&superslab->free_pages, free_pages, memory_order_seq_cst);
    index_raise(superslab);
    index_lower(superslab); /* it is not absent any more */
}

/* Makes a superslab whose first or last pages the caller owns before any other thread sees it. Page 0 suits every
 * alignment; the top suits it if the length is a multiple of align_pages. */
static bool superslab_make(const struct page_need *need, struct page_range *range)
{
    uint32_t length = need->pages + need->room_pages;
    struct superslab *superslab = descriptor_take();
    if (superslab == NULL || !superslab_back(superslab)) return false;
    uint32_t first = need->from_top && length % need->align_pages == 0 ? SUPERSLAB_PAGES - length : 0;
    atomic_store_explicit(&superslab->missing_pages, 0, memory_order_relaxed);
    pagemap_descriptor_set(superslab_base(superslab), superslab);
    superslab_begin(superslab, ~bits_range(first, need->pages));
    *range = (struct page_range){.superslab = superslab, .first = first, .made = true};
    return true;
}

/* --- superslabs that lack pages: if all memory is locked, or the system has refused a whole one ------------------ */

/* The superslab that has pages in these 4 MiB; NULL: none. A thread that a fork has caught may have left in a cell, for the
 * child, a descriptor that was not in use yet, or not any more. */
static struct superslab *superslab_around(char *base)
{
    for (char *at = base; at < base + SUPERSLAB_BYTES; at += CELL_BYTES) {
        struct superslab *superslab = pagemap_descriptor(at);
        if (superslab == NULL) continue;
        /* relaxed: it changes under the lock, and where it does not, the cell is cleared before. */
        const uint64_t present = atomic_load_explicit(&chunk_of(superslab)->present, memory_order_relaxed);
        const bool is_present = (present >> superslab->index % CHUNK_SUPERSLABS & 1) != 0;
        if (is_present && superslab_base(superslab) == base) return superslab;
        pagemap_part_leave(at, superslab);
    }
    return NULL;
}

static char *part_last; /* the start of the last part; the place may be another's now (POOL lock) */

/* Maps pages that lie in one cell of the page map: below the last part, if they are free and the cell still is a superslab's.
 * Elsewhere a huge mapping may begin in the cell; then in a cell that is free. */
static char *part_map(size_t bytes, size_t align_bytes)
{
    if (align_bytes > CELL_BYTES) return NULL;
    const uintptr_t last = (uintptr_t)part_last, below = (last - bytes) & -(uintptr_t)align_bytes;
    char *start = NULL;
    if (last % CELL_BYTES >= bytes && pagemap_descriptor(part_last) != NULL)
        start = os->map((void *)below, bytes, align_bytes);
    if (start != NULL) return start;
    start = pagemap_map(bytes, align_bytes);
    if (start == NULL || pagemap_huge(start) == NULL) return start;
    os->release(start, bytes);
    start = pagemap_map(CELL_BYTES, CELL_BYTES);
    if (start == NULL) return NULL;
    const size_t before = (CELL_BYTES - bytes) & -align_bytes, behind = CELL_BYTES - bytes - before;
    if (before != 0) os->release(start, before);
    if (behind != 0) os->release(start + before + bytes, behind);
    return start + before;
}

/* Takes from the system the pages that are needed, and no more, under the POOL lock. They become part of a superslab that
 * lacks them, or of a new one that lacks all others. */
static bool part_make(const struct page_need *need, struct page_range *range)
{
    size_t align_pages = need->align_pages; /* such that the pages lie in one cell of the page map */
    while (align_pages < need->pages) align_pages *= 2;
    const size_t bytes = (size_t)need->pages * PAGE_BYTES;
    char *start = part_map(bytes, align_pages * PAGE_BYTES);
    if (start == NULL) return false;
    const uint32_t first = (uint32_t)((uintptr_t)start % SUPERSLAB_BYTES / PAGE_BYTES);
    char *base = start - (size_t)first * PAGE_BYTES;
    struct superslab *known = superslab_around(base), *superslab = known != NULL ? known : descriptor_take();
    if (superslab == NULL || !bits_make(superslab) || !pagemap_part_enter(start, superslab)) {
        os->release(start, bytes);
        return false;
    }
    part_last = start;
    tell_sanitizer(start, bytes);
    const uint64_t pages = bits_range(first, need->pages);
    const uint64_t missing = known != NULL ? atomic_load_explicit(&known->missing_pages, memory_order_relaxed) : ~0ull;
    atomic_store_explicit(&superslab->missing_pages, missing & ~pages, memory_order_relaxed);
    atomic_fetch_add_explicit(&missing_count, (known == NULL ? SUPERSLAB_PAGES : 0) - (size_t)need->pages,
                              memory_order_relaxed);
    if (known == NULL) {
        atomic_store_explicit(&superslab->base, base, memory_order_relaxed);
        superslab_begin(superslab, 0);
    }
    if (!need->from_top) superslab_partial_set(superslab, first, need->pages, 0);
    *range = (struct page_range){.superslab = superslab, .first = first, .made = true};
    return true;
}

void pool_make(const struct page_need *need, struct page_range *range)
{
    const bool in_parts = atomic_load_explicit(&is_frugal, memory_order_relaxed);
    if (!in_parts && (superslab_make(need, range) || need->block_bytes != 0 || ASAN)) return;
    part_make(need, range);
}

/* --- back to the system ------------------------------------------------------------------------------------------ */

/* The superslab has no address space any more, and the caller owns all its pages. */
static void superslab_end(struct superslab *superslab)
{
    atomic_store_explicit(&superslab->base, NULL, memory_order_relaxed);
    atomic_fetch_sub_explicit(&superslab_count, 1, memory_order_relaxed);
    /* seq_cst: before the word of the index, see index_raise. The word publishes that the descriptor may be reused. */
    atomic_fetch_and_explicit(&chunk_of(superslab)->present, ~(1ull << superslab->index % CHUNK_SUPERSLABS),
                              memory_order_seq_cst);
    index_raise(superslab);
    index_lower(superslab);
}

/* Releases the address space of a superslab that is free and clean. Claims all pages first, so that no other thread
 * uses it. */
void pool_release(struct superslab *superslab)
{
    if (!superslab_claim_at(superslab, 0, SUPERSLAB_PAGES)) return;
    if (atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed) != 0) {
        /* unreached: by chance: another thread claims pages between two looks */
        superslab_free(superslab, 0, SUPERSLAB_PAGES, false); /* used since the caller looked */
        index_raise(superslab);
        return;
    }
    char *base = superslab_base(superslab);
    pagemap_descriptor_set(base, NULL);
    if (ASAN) sanitizer_unroot(base, SUPERSLAB_BYTES);
    if (os->release(base, SUPERSLAB_BYTES) != 0) { /* too many mappings: keep it */
        if (ASAN) sanitizer_close(base, SUPERSLAB_BYTES);
        if (ASAN) sanitizer_root(base, SUPERSLAB_BYTES);
        pagemap_descriptor_set(base, superslab);
        superslab_free(superslab, 0, SUPERSLAB_PAGES, false);
        index_raise(superslab);
        return;
    }
    superslab_end(superslab);
}

/* Releases pages of which the caller owns the address space. */
static void part_release(struct superslab *superslab, uint32_t first, uint32_t pages)
{
    char *base = superslab_base(superslab), *start = base + (size_t)first * PAGE_BYTES;
    const uint64_t dirty = atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed);
    const bool is_clean = (dirty & bits_range(first, pages)) == 0; /* else it was used since the caller looked */
    if (!is_clean || os->release(start, (size_t)pages * PAGE_BYTES) != 0) {
        superslab_free(superslab, first, pages, false);
        index_raise(superslab);
        return;
    }
    uint64_t missing = atomic_load_explicit(&superslab->missing_pages, memory_order_relaxed) | bits_range(first, pages);
    atomic_store_explicit(&superslab->missing_pages, missing, memory_order_relaxed);
    atomic_fetch_add_explicit(&missing_count, pages - (missing == ~0ull ? (size_t)SUPERSLAB_PAGES : 0),
                              memory_order_relaxed);
    if (missing == ~0ull) superslab_end(superslab); /* before the cells: see superslab_around */
    if ((uint32_t)missing == UINT32_MAX) pagemap_part_leave(base, superslab);
    if (missing >> SUPERSLAB_PAGES / 2 == UINT32_MAX) pagemap_part_leave(base + CELL_BYTES, superslab);
}

void pool_trim(struct superslab *superslab)
{
    /* LeakSanitizer knows whole superslabs only. A thread that takes pages may be purging at a limit, and has the lock. */
    if (ASAN) return;
    uint64_t idle = atomic_load_explicit(&superslab->free_pages, memory_order_relaxed) &
                    ~atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed);
    const bool in_parts = atomic_load_explicit(&superslab->missing_pages, memory_order_relaxed) != 0 ||
                          atomic_load_explicit(&is_frugal, memory_order_relaxed);
    if (!in_parts || !lock_try(LOCK_POOL)) return;
    while (idle != 0) {
        uint32_t first = (uint32_t)__builtin_ctzll(idle), pages = 1;
        while (first + pages < SUPERSLAB_PAGES && (idle >> (first + pages) & 1) != 0) pages++;
        idle &= ~bits_range(first, pages);
        if (superslab_claim_at(superslab, first, pages)) part_release(superslab, first, pages);
    }
    if (superslab_base(superslab) != NULL) index_lower(superslab);
    lock_release(LOCK_POOL);
}

bool pool_be_frugal(bool yes)
{
    const bool was = atomic_load_explicit(&is_frugal, memory_order_relaxed);
    if (was != yes)
        atomic_store_explicit(&is_frugal, yes, memory_order_relaxed); /* else a child need not copy the page */
    return was;
}

bool pool_is_frugal(void)
{
    return atomic_load_explicit(&is_frugal, memory_order_relaxed);
}

struct pool_made pool_made(void)
{
    return (struct pool_made){
        .superslab_count = atomic_load_explicit(&superslab_count, memory_order_relaxed),
        .missing_pages = atomic_load_explicit(&missing_count, memory_order_relaxed),
        .made_count = atomic_load_explicit(&made_count, memory_order_relaxed),
    };
}

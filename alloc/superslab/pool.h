/* pool.h: all superslabs, and the search for free pages among them.
 *
 * index.h says how a search finds the first superslab that can serve it. A search takes no lock; only making a superslab
 * takes the POOL lock.
 *
 * purge.h says how long free pages keep their memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "superslab/superslab.h"

/* A range of claimed pages. */
struct page_range {
    struct superslab *superslab; /* NULL: the system has no memory */
    uint32_t first;
    uint64_t dirty, partial; /* bit i: of page first + i, in dirty_pages and partial_pages */
    bool made; /* the superslab is new */
    bool is_tight; /* without a superslab: a mapping of its own would take much less address space than a new one */
    bool is_refused; /* the system has refused a superslab, and may have room for less */
};

/* Which of the system's pages in a page of the range read as zero: a bit for each. `first` is the range's first descriptor. */
static inline uint16_t page_zero_bits(const struct page_range *range, const struct slab *first, uint32_t page)
{
    if ((range->dirty >> page & 1) == 0) return (uint16_t)~0u;
    return (range->partial >> page & 1) != 0 ? first[page].hollow_pages : 0;
}

/* Claims pages as superslab_claim does, from a known superslab or else from a new one. The result's superslab is NULL
 * when the system has no memory, or is_tight is set. pool_claim asks for no room behind the pages. Any thread. */
struct page_range pool_claim_for(struct page_need need);
struct page_range pool_claim(uint32_t pages, uint32_t align_pages, bool from_top);

/* Extends a claimed run in place. False if the pages behind it are not all free. */
bool pool_extend(struct superslab *superslab, uint32_t first, uint32_t old_pages, uint32_t new_pages);

/* Frees claimed pages. slab_eighths is 0 for a run (claimed from_top), and for a slab 1 to 8: how many eighths of it
 * were used. The caller has already set their tags to zero. Any thread. */
void pool_free(struct superslab *superslab, uint32_t first, uint32_t pages, uint32_t slab_eighths);

/* The same for pages that counted as free before, since they were kept (kept.h): purges nothing. */
void pool_free_kept(struct superslab *superslab, uint32_t first, uint32_t pages, uint32_t slab_eighths);

struct pool_figures {
    size_t superslab_count, claimed_pages, dirty_pages;
    size_t missing_pages; /* of the superslabs, not ours */
    size_t made_count; /* superslabs ever made */
    size_t purged_pages; /* pages ever purged */
    size_t keep_pages; /* free pages that the limit in number has learned to keep */
};
struct pool_figures pool_figures(void);

/* Calls visit for every superslab that has address space. pool_for_each_below starts at the last one whose index is below
 * `end` (POOL_TOP: of all), and ends when visit returns false. For inspection, figures and the purge. */
enum { POOL_TOP = UINT32_MAX / 2 };
void pool_for_each(void (*visit)(struct superslab *superslab, void *context), void *context);
void pool_for_each_below(uint32_t end, bool (*visit)(struct superslab *superslab, void *context), void *context);

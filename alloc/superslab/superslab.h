/* superslab.h: 4 MiB of address space in 64 pages, and its descriptor, which lies apart from it.
 *
 * Pages are claimed and freed by atomic changes of one word of bits. The thread that clears a page's bit owns the page
 * and its descriptor until it sets the bit again. So no lock is needed to hand out pages, to free them from any thread,
 * or to purge them (a purger first claims the pages that it purges).
 *
 * Law 7: a free page whose dirty bit is clear reads as zero.
 * A superslab's descriptor is never given back. A descriptor without address space has no free page.
 *
 * If all memory is locked (pool_be_frugal), or the system refuses 4 MiB, a superslab may lack pages (missing_pages). Whatever
 * is mapped there is no affair of ours. */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/list.h"
#include "base/sizeclass.h"

struct owner;

/* A slab has at most one block for each granule of a page. */
typedef uint64_t mark_words[PAGE_BYTES / GRANULE_BYTES / 64];

enum { LINKED_COUNT_BITS = 13, LINKED_COUNT_MASK = (1 << LINKED_COUNT_BITS) - 1 };
enum { CARVE_START_MASK = (1 << 14) - 1 };
static_assert(PAGE_BYTES / GRANULE_BYTES <= LINKED_COUNT_MASK, "no slab has more blocks");

/* Descriptor of a page: one cache line. The descriptor of the first page describes the whole slab or run. This layer
 * owns page_offset and page_count. The layer of slab/slab.h owns the other members and states law 1, which relates
 * them. */
struct slab {
    /* only the owner writes these */
    struct block *free; /* free blocks that other threads freed; superslab.marks has those that the owner freed */
    struct slab *next, *prev; /* in the owner's list of slabs that can give blocks */
    _Atomic(uint16_t) used_count; /* blocks carved and not free; any thread may read it */
    uint16_t carved_count; /* blocks carved: from fresh memory, or again where the slab was hollow */
    uint16_t full : 1; /* no block to give: not in the owner's list */
    uint16_t hollow : 1; /* some bit of its pages' hollow_pages is set: slab/trim.h */
    uint16_t trimmed : 1; /* a trim has looked at it, and no block came back since */
    uint16_t linked_count : LINKED_COUNT_BITS; /* blocks on `free` */
    uint16_t hollow_pages; /* of this page only: a bit for each of the system's pages in it */

    /* fixed while the slab is in use */
    uint8_t class_index;
    uint8_t page_count;
    uint8_t page_offset; /* pages from the first page of the slab or run to this one */
    uint8_t page_index; /* index of this page in its superslab */
    uint16_t capacity; /* blocks in the slab */
    uint16_t carve_start : 14; /* index of the block that was carved first */
    uint16_t
        fresh : 1; /* its hollow pages, or if it is not hollow the pages of blocks that are not carved, read as zero */
    uint16_t was_trimmed : 1; /* a trim has given pages of it back: set once */
    struct owner *owner;

    /* other threads write these: slab/remote.h */
    _Atomic(uint64_t) remote;
    struct slab *next_pending;
};

static_assert(sizeof(struct slab) == 64, "one cache line a page");

struct superslab {
    _Atomic(uint64_t) free_pages; /* bit set: nobody owns the page */
    _Atomic(uint64_t) dirty_pages; /* bit set: may hold data; written by the page's owner */
    _Atomic(uint64_t) cold_pages; /* free and dirty since the last round of the purge */
    _Atomic(char *) base; /* fixed while it has address space; NULL while it has none */
    _Atomic(uint64_t) *live_bits; /* VALIDATE: a bit for each granule, set where a live block starts */
    uint32_t index; /* in the pool */
    _Atomic(uint8_t) seen_full; /* by rounds of the tick: superslab/backing.c */
    char pad[3];
    _Atomic(uint64_t) missing_pages; /* bit set: not ours, and so never free; changed under the POOL lock. relaxed */
    _Atomic(uint64_t) partial_pages; /* bit set: dirty, but hollow_pages says what reads as zero */
    struct slab slabs[SUPERSLAB_PAGES];
    /* For the slab that starts at a page: a bit for each free block that the owner has given back (slab/slab.h). Zero for a
     * page at which no slab starts. On a line apart, which nobody writes once the superslab has address space. */
    alignas(64) mark_words *marks;
};

static_assert(offsetof(struct superslab, slabs) == 64, "slab descriptors stay on their lines");

/* The slab or run that a page belongs to, for an address inside it. */
static inline struct slab *superslab_slab_of(struct superslab *superslab, const void *address)
{
    size_t page = ((uintptr_t)address >> PAGE_SHIFT) % SUPERSLAB_PAGES;
    return &superslab->slabs[page - superslab->slabs[page].page_offset];
}

/* relaxed: a thread that owns a page got the base with it, by the acquire of its claim. A thread that owns none may
 * read NULL. */
static inline char *superslab_base(const struct superslab *superslab)
{
    return atomic_load_explicit(&superslab->base, memory_order_relaxed);
}

/* Where the pages of a slab or run begin. */
static inline char *superslab_page_start(const struct superslab *superslab, const struct slab *slab)
{
    return superslab_base(superslab) + (size_t)(slab - superslab->slabs) * PAGE_BYTES;
}

/* The superslab whose table holds the descriptor of a slab or run in use. */
static inline struct superslab *superslab_of(struct slab *slab)
{
    char *first = (char *)(slab - slab->page_index);
    return (struct superslab *)(void *)(first - offsetof(struct superslab, slabs));
}

/* Free pages in a row, the first at a multiple of align_pages, which is a power of two. Slabs come from the low end,
 * runs from the high end (from_top), so that the two do not fragment each other. Behind them room_pages more are free,
 * and stay free: a run that grows may extend into them. pages + room_pages <= SUPERSLAB_PAGES. */
struct page_need {
    uint32_t pages, align_pages, room_pages;
    bool from_top;
    bool at_limit; /* pages with memory only, or else as limit_allows says */
    bool dirty_only; /* dirty pages, or none; the room behind them matters no more */
    size_t block_bytes; /* of a run that may be a mapping of its own instead; 0: it may not */
};

/* Claims pages. Dirty pages are preferred, since they cost no page fault. Returns the index of the first page, or -1.
 * Sets *contended if another thread changed the word meanwhile. Any thread; lock-free. */
int superslab_claim(struct superslab *superslab, const struct page_need *need, bool *contended);

/* Sets these bits of partial_pages, and clears the others of [first, first + pages), which the caller owns. */
void superslab_partial_set(struct superslab *superslab, uint32_t first, uint32_t pages, uint64_t bits);

/* Claims exactly [first, first + pages) if all are free. */
bool superslab_claim_at(struct superslab *superslab, uint32_t first, uint32_t pages);

/* Frees claimed pages; dirty says whether they may hold data. Returns which pages of the superslab were free then. */
uint64_t superslab_free(struct superslab *superslab, uint32_t first, uint32_t pages, bool dirty);

/* Purges those of the `wanted` pages that are free and dirty, with one call to the system for each row of free pages, *calls at most.
 * Subtracts from *calls those that it made. Returns how many pages were purged. */
uint32_t superslab_purge(struct superslab *superslab, uint64_t wanted, uint32_t *calls);

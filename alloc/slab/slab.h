/* slab.h: a run of pages cut into blocks of one class, for one owner. Everything here is called by
 * the thread that holds the owner, except slab_of.
 *
 * A block is, at any time, in one place: in use (live, in the owner's bin, in a parked magazine,
 * staged by another thread or on the remote list), on the slab's free list, or not carved yet.
 *
 * Law 1: used_count + |free| == carved_count <= capacity.
 * Law 3: a slab is given back only when used_count == 0. Staged and remote blocks count as in use
 *        until the owner has drained them, so then no thread can be about to post to it.
 * A slab is in its owner's list exactly when it has a free block or fresh memory.
 *
 * Carving starts at a block that differs from slab to slab, so that the first blocks of slabs do not
 * compete for the same lines of the cache. */
#pragma once

#include "slab/owner.h"
#include "superslab/pagemap.h"
#include "superslab/superslab.h"

/* The slab or run of an address that is in one. Any thread that holds a block of it. */
static inline struct slab *slab_of(const void *address)
{
    return superslab_slab_of((struct superslab *)pagemap_descriptor(address), address);
}

/* Bytes before the first block of a slab, by the page at which it begins: see the colours of sizeclass.h. And
 * where that block stands. */
static inline uint32_t slab_colour_at(uint32_t page_index, uint32_t class_index)
{
    return page_index % sizeclass_colours(class_index) * CACHE_LINE_BYTES;
}

static inline uint32_t slab_colour(const struct slab *slab)
{
    return slab_colour_at(slab->page_index, slab->class_index);
}

static inline char *slab_start(const struct superslab *superslab, const struct slab *slab)
{
    return superslab_page_start(superslab, slab) + slab_colour(slab);
}

/* A new slab for the owner, listed first. NULL when the system has no memory. */
struct slab *slab_make(struct owner *owner, uint32_t class_index);

/* Takes blocks from a listed slab: its free list whole, in O(1), else freshly carved ones. Never
 * NULL. The list ends in NULL. */
struct block *slab_take(struct slab *slab);

/* Gives a block, or a list of count blocks, back to its slab, which may thereby be released. The tail is
 * needed only where the slab has a free list already. */
void slab_give_back(struct slab *slab, struct block *block);
void slab_give_back_list(struct slab *slab, struct block *head, struct block *tail, uint32_t count);

/* Calls visit for each slab in use of a superslab, by the page map, of which the class is told: other
 * threads may be making and releasing slabs meanwhile, so visit may only read what is atomic. */
void slab_for_each(struct superslab *superslab, void (*visit)(struct slab *slab, uint32_t class_index, void *context),
                   void *context);

/* Releases the owner's slabs that have no block in use: at most one a class. */
void slab_release_empty(struct owner *owner);

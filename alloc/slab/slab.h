/* slab.h: a slab is one or more pages of a superslab, cut into blocks of one class for one owner. Only the thread that
 * holds the owner may call these functions, except slab_of and slab_for_each.
 *
 * At any time a block is in exactly one of three places: in use (live, in the owner's bin, in a parked magazine, staged
 * by another thread or on the remote list), free in the slab, or not carved yet. A free block is on the slab's list if another
 * thread freed it, since that thread has linked it; else the slab's bit for the block is set.
 *
 * Law 1: used_count + |free| + |marks| == carved_count <= capacity, and |free| == linked_count.
 * Law 3: a slab is released only when used_count == 0. Staged and remote blocks count as in use
 *        until the owner has drained them, so no thread can be about to post to a slab that is released.
 * A slab is in its owner's list exactly when it has a free block, or memory to carve.
 *
 * Carving starts at a different block in each slab, so that the first blocks of slabs do not compete for the same cache
 * lines. */
#pragma once

#include "slab/owner.h"
#include "superslab/pagemap.h"
#include "superslab/superslab.h"

/* The slab or run that an address lies in. The caller holds a block of it. Any thread. */
static inline struct slab *slab_of(const void *address)
{
    return superslab_slab_of((struct superslab *)pagemap_descriptor_of(address), address);
}

/* The colour of a slab: how many bytes lie before its first block (sizeclass.h). It depends on the page at which the
 * slab begins. */
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

/* The slab's bits for blocks that its owner has given back. */
static inline uint64_t *slab_marks(struct slab *slab)
{
    return superslab_of(slab)->marks[slab->page_index];
}

static inline bool slab_has_free(const struct slab *slab)
{
    return slab->carved_count != atomic_load_explicit(&slab->used_count, memory_order_relaxed);
}

/* How many eighths of the slab the program used, 1 to 8, for pool_free. A trimmed slab counts as a full one: what it gave back
 * says nothing about how much its program takes. */
static inline uint32_t slab_fill_eighths(const struct slab *slab)
{
    return slab->was_trimmed ? 8 : 1 + 7u * slab->carved_count / slab->capacity;
}

/* Makes a slab for the owner, first in its list. NULL when the system has no memory. */
struct slab *slab_make(struct owner *owner, uint32_t class_index);

/* Move a listed slab to the front of its list, or behind all slabs that have a block in use. */
void slab_list_first(struct slab *slab);
void slab_list_back(struct slab *slab);

/* For defragmentation (cache/defrag.h): brings the owner's list of a class into order, the fullest slabs first, and adds up
 * what they have. */
struct slab_sums {
    uint64_t used_count, capacity;
};
struct slab_sums slab_sort(struct owner *owner, uint32_t class_index);

/* Gives a block, or a list of count blocks that other threads freed, back to its slab. This may release the slab. tail is
 * needed only if the slab's free list is not empty. */
void slab_give_back(struct slab *slab, struct block *block);
void slab_give_back_list(struct slab *slab, struct block *head, struct block *tail, uint32_t count);

/* Gives each block of a list to its slab, and returns how many they were. The blocks are of one class and owner. Blocks
 * of one slab that follow each other go back in one step. It ends even if the list is cyclic: a step takes at most the
 * blocks in use of the slab, and ends the process when there are none. */
uint32_t slab_give_back_each(struct block *list);

/* Takes a slab out of its owner's books, whatever blocks of it are in use. The caller clears its tags and frees its
 * pages. */
void slab_discard(struct slab *slab);

/* Calls visit for each slab, with the class that the page map says. Any thread. Other threads may make
 * and release slabs meanwhile, so visit may only read atomic members. */
typedef void slab_visit_fn(struct slab *slab, uint32_t class_index, void *context);
void slab_for_each(slab_visit_fn *visit, void *context);

/* Releases the owner's slabs that have no block in use; there is at most one a class. */
void slab_release_empty(struct owner *owner);
void slab_release_empty_of(struct owner *owner, uint32_t class_index);

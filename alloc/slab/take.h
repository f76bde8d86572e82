/* take.h: blocks leave a slab, free ones or from memory that is carved. Only the thread that holds the slab's owner may call these
 * functions. */
#pragma once

#include "slab/slab.h"

/* Takes blocks from a listed slab: those that other threads freed, in any order; or else at most TAKE_MAX of those that the owner
 * gave back, in the order of the addresses; or else newly carved blocks. Returns a list of at least one block, which ends in
 * NULL. */
struct block *slab_take(struct slab *slab);

/* For defragmentation (cache/defrag.h): one free block; NULL: the slab has none. */
struct block *slab_take_one(struct slab *slab);

/* The block that is carved first. Slabs start at multiples of 64 KiB, so their first pages would share one TLB set:
 * start each slab at a different part. */
uint32_t slab_carve_start(const struct slab *slab);

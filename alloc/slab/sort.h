/* sort.h: the order in which the free blocks of a slab are handed out. */
#pragma once

#include "slab/slab.h"

/* Takes the slab's free list, in the order of the addresses; of a list of more than SORTED_MAX blocks that many, so that the
 * time of one malloc is bounded. *count: the blocks on the list, and then those that were taken.
 *
 * Blocks come back in the order in which they were freed, and that may be any; a program that fills them again will read them
 * in the order in which it got them, and the processor fetches ahead of a walk through memory. (jemalloc gives a slab's lowest
 * block first.) Only slabs of one page are sorted, since they need few bits. A list with blocks that other threads freed stays
 * as it is: each block lies in the cache of the thread that linked it, and a walk would wait for one after the other. A list
 * that is damaged as far as the walk sees stays too: the debug-validation build finds it when a block is handed out. */
struct block *slab_take_sorted(struct slab *slab, uint32_t *count);

/* defrag.h: defragmentation with the program's help: it asks whether moving a block would help to empty a sparse slab, and
 * lets the block be moved.
 *
 * A free that pushes the block on its bin, and a malloc that pops it from there, would give the same block back. So a move
 * goes past the caches: the new block comes from the fullest slab of the class with a free one, and the old one returns to
 * its slab. From time to time the heap's caches are emptied and its lists of slabs sorted, the fullest first.
 *
 * Only blocks of the calling thread's heap are moved. Slow: no hit path knows of this. (The hint is jemalloc's, as Redis and
 * Valkey ask it.) */
#pragma once

#include <stdbool.h>

/* Whether the block lies in a slab that is less full than the slabs of its class with free blocks are on average. */
bool defrag_hint(const void *pointer);

/* Moves the block, with its content, if defrag_hint says so and there is a fuller slab. NULL: it stays. */
void *defrag_move(void *pointer);

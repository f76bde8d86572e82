/* hollow.h: slabs of which some of the system's pages have no memory and read as zero: those that were trimmed (trim.h), and
 * those that begin on pages of which others used a part. Only the thread that holds the owner may call these functions. */
#pragma once

#include "slab/slab.h"
#include "superslab/pool.h"

/* Begins a slab on pages of which some have memory: the blocks that lie wholly on those are free, and the system's pages that read
 * as zero are hollow. Unless at_once: then all is carved in order, as fresh memory is. */
void slab_begin_dirty(struct slab *slab, const struct page_range *range, bool at_once);

/* A slab ends that has not used all of its memory: notes which of the system's pages read as zero, for the pages' next owner
 * (partial_pages). */
void slab_end_untouched(struct slab *slab);

/* Carves the blocks of one system page of a hollow slab, or one block if blocks are larger. *count: how many, at least
 * one. The list ends in NULL. */
struct block *slab_carve_hollow(struct slab *slab, uint32_t *count);

/* pool_make.h: takes superslabs from the system, or the pages that are needed and no more, and gives them back. For the pool and
 * the purge. */
#pragma once

#include "superslab/pool.h"

/* Makes a superslab, or a part of one if the system refuses a whole, and sets *range to pages of it, which the caller owns.
 * range->superslab stays NULL if there is none. If a superslab is refused, a block that may be a mapping of its own gets no
 * part. Under AddressSanitizer none does, as pool_trim would not give it back. Under the POOL lock. */
void pool_make(const struct page_need *need, struct page_range *range);

/* What pool_be_frugal has set. Any thread. */
bool pool_is_frugal(void);

struct pool_made {
    size_t superslab_count, missing_pages, made_count; /* as in struct pool_figures */
};
struct pool_made pool_made(void);

/* For the purge: gives up the address space of a superslab if all of it is free and clean. */
void pool_release(struct superslab *superslab);

/* Whether the pool takes from the system the pages that it needs, and no more (superslab.missing_pages), as it does for a
 * slab if the system refuses a whole superslab. pool_trim, for the purge, if it does, or if the superslab lacks pages: gives
 * up the address space of the pages that are free and clean. pool_be_frugal returns whether it did before. */
bool pool_be_frugal(bool yes);
void pool_trim(struct superslab *superslab);

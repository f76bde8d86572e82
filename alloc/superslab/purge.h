/* purge.h: how long free pages keep their memory, and who takes it from them.
 *
 * Two limits. In time: a page that has been free for one to two delays is purged by the next tick (on
 * slow paths; no thread of our own). In number: where more free pages keep memory than a share of the
 * pages in use, half of them are purged at once, so that a process that frees much and then sleeps does
 * not keep it. The second limit learns: pages that it purged and that are claimed again within a delay
 * were purged too early. Each such page of a run raises the limit by one, up to twice the pages that were
 * runs at one time; each of a slab by one to eight eighths, up to the pages that were in use. So a loop with
 * long swings comes to make no system calls, for neither limit takes what was learned; without such swings
 * it is forgotten by and by. (Slabs teach as much as those freed of late were used: threads that come and go
 * release and claim many pages with little in use in them.)
 *
 * Called by the pool; any thread. The figures order nothing and may lag; whoever purges a page claims
 * it first (superslab_purge). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "superslab/superslab.h"

/* Pages change hands: claimed, of them so many that kept their memory, for a run or a slab; about to be
 * free, slab_eighths as for pool_free. */
void purge_count_claim(uint32_t pages, uint32_t dirty_pages, bool is_run);
void purge_count_free(uint32_t pages, uint32_t slab_eighths);

/* After pages of a superslab became free: purges if the limit in number is passed, or at delay 0. */
void purge_after_free(struct superslab *superslab);

/* The delay: HAKMEM_PURGE_DELAY_MS. 0: nothing is kept. */
uint32_t purge_delay_ms(void);

size_t purge_claimed_pages(void);
size_t purge_dirty_pages(void);

/* pool.h: all superslabs, and the search for free pages among them.
 *
 * Superslabs stand in chunks of 64, each with words of hints: bit i of hint[k] is set where
 * superslab i may have 2^k free pages in a row. A set bit may be wrong and costs a look; a clear
 * bit is never wrong for long: who clears it looks again afterwards. Search is lock-free; only a
 * new superslab takes the POOL lock.
 *
 * How long free pages keep their memory is told in purge.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "superslab/superslab.h"

/* Where claimed pages lie. */
struct page_range {
    struct superslab *superslab; /* NULL: none to be had */
    uint32_t first;
    bool zero; /* every byte reads as zero */
    bool made; /* the superslab is new */
};

/* Claims pages: see superslab_claim. From a known superslab, else from a new one. A NULL superslab
 * when the system has no memory. Any thread. pages <= SUPERSLAB_PAGES. */
struct page_range pool_claim(uint32_t pages, uint32_t align_pages, bool from_top);

/* Makes a claimed run longer where it stands. */
bool pool_extend(struct superslab *superslab, uint32_t first, uint32_t old_pages, uint32_t new_pages);

/* Gives claimed pages back, those of a run (claimed from_top; slab_eighths 0) or of a slab (slab_eighths,
 * 1 to 8: how much of it was used). Their tags are zero by now. Any thread. */
void pool_free(struct superslab *superslab, uint32_t first, uint32_t pages, uint32_t slab_eighths);

/* Purges what has been free for a delay, if a delay has passed since the last round; now_ms is
 * os_now_ms(). True if this call made the round. Called on slow paths. */
bool pool_tick(uint64_t now_ms);

/* Rounds made so far, modulo 2^32. */
uint32_t pool_tick_rounds(void);

/* Purges every free page, and forgets what the limit in number has learned. Returns bytes given back. */
size_t pool_purge_all(void);

/* How long free pages keep their memory, in ms; 0 purges them as they are freed. At start. */
void pool_set_purge_delay_ms(uint32_t delay_ms);

/* Ask the system for huge pages behind superslabs made from now on. At start. */
void pool_set_huge_pages(bool on);

struct pool_figures {
    size_t superslab_count, claimed_pages, dirty_pages;
};
struct pool_figures pool_figures(void);

/* Calls visit for every superslab that has address space; from the last one down, until visit answers
 * false. For inspection, figures and the purge. */
void pool_for_each(void (*visit)(struct superslab *superslab, void *context), void *context);
void pool_for_each_from_top(bool (*visit)(struct superslab *superslab, void *context), void *context);

/* For the purge. Pages became free: searches are to look here. And: gives up the address space of a
 * superslab if all of it is free and clean. */
void pool_offer(struct superslab *superslab);
void pool_release(struct superslab *superslab);

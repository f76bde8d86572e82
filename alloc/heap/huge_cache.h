/* huge_cache.h: the mappings of freed huge blocks, kept for the next ones. The inside of heap/huge.c: the HUGE lock
 * protects everything here, so the caller holds it.
 *
 * The cache has a limit in bytes, HAKMEM_HUGE_CACHE_MIB, one in number, and one in time, a delay. The mappings in use
 * and in the cache together stay below the most bytes that were in use in this delay or the last one: where a block needs
 * a new mapping, cached ones beyond that go back; so do they where the rest of the heap grows beyond what was committed when
 * they were cached. Thus the cache adds nothing to a program's peak. The cache learns as the
 * pool's purge does: a mapping that a limit took back was taken back too early if a block that it could have served is
 * wanted within WINDOW_DELAYS. Each byte taken back too early raises the bytes to keep by one and a half, up to
 * HUGE_KEEP_FACTOR times the limit in bytes, and up to that limit and twice the peak of bytes in use lately. The bytes to
 * keep are exempt from all limits, and blocks may take longer mappings than they need from them, so in time a loop over
 * many lengths makes no system calls and touches no new memory. They hold only while at least half as many bytes are in
 * use as when they were learned, and beyond the limit in bytes only while some are: a process that frees its blocks is
 * back at the limit at once, and may then sleep. (So a loop that frees all of its blocks in each round pays for what
 * exceeds that limit.)
 * They fall slowly while the cache swings, and WINDOW_DELAYS without a huge block end them. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/huge.h"

enum {
    HUGE_CACHE_ENTRIES = 16, /* huge mappings kept for the next huge block */
    /* While a loop wants again what those limits took back: */
    HUGE_KEEP_ENTRIES = 64,
    HUGE_KEEP_FACTOR = 8, /* times the limit in bytes */
};

/* Describes a mapping. It is in one place: live, in the cache, in the list `stuck` of huge.c, or, without a mapping, in its
 * list `spare`. While it is live or cached the page map has its descriptor; while it is live, a tag too. */
struct huge {
    struct huge_link link; /* first: huge_link_of */
    char *start;
    size_t mapped_bytes;
    size_t slack_bytes; /* of a live block: the end of its mapping, which the program does not have */
    _Atomic(size_t) usable_bytes; /* the rest of it, for readers without the lock: relaxed */
    uint64_t cached_ms;
    _Atomic(bool) is_moving; /* the system is moving the pages of the live block. relaxed: a forked child reads it */
    bool is_exact; /* a live block of huge_alloc_exact: its length is one of the system's pages */
    struct huge *next; /* in a list: spare, stuck, or one that the cache returns */
};

/* Takes the smallest cached mapping that fits, and counts it as live; NULL if there is none. */
struct huge *huge_cache_take(size_t align_bytes, size_t size_bytes);

/* Makes a mapping that was taken read as zero. If little of it holds data, its memory goes back: that costs what is resident,
 * and leaves resident what the program will touch. Outside of the lock. */
void huge_cache_clear(const struct huge *huge);

/* How long a new mapping for a block should be: while the cache has bytes to keep, one of four lengths a doubling, so
 * that it can serve more blocks later. size_bytes is a multiple of PAGE_BYTES above RUN_BYTES_MAX / 2. */
size_t huge_cache_new_bytes(size_t size_bytes);

/* Moves a mapping from the live ones to the cache. Returns the list of mappings that the cache has no room for, which
 * the caller must destroy outside of the lock. delay_ms 0: the cache takes none. */
struct huge *huge_cache_put(struct huge *huge, uint64_t now_ms, uint64_t delay_ms);

/* Takes a mapping out that was cached before the given time, unless it is to be kept; NULL if there is none. */
struct huge *huge_cache_take_old(uint64_t before_ms);

/* Adds to the figures of live blocks; to subtract, pass the negated number: the sum wraps. blocks above 0: the cache had
 * no mapping for the block. Returns mappings that are too many now, as huge_cache_put. */
struct huge *huge_cache_count_live(size_t blocks, size_t bytes);

/* Whether more is committed, huge or not, than at any time in this interval when huge blocks or the cache changed, or
 * when it began; and is some of it cached? Then other blocks grow beside mappings that nobody uses. Also without the lock. */
bool huge_cache_is_in_the_way(void);

/* Takes out mappings for as much as that is, unless they are to be kept. Returns them, as huge_cache_put. */
struct huge *huge_cache_make_way(void);

/* Changes how many bytes of its mapping a live block has. False: they do not fit, or would leave too much to spare. */
bool huge_cache_resize(struct huge *huge, size_t size_bytes);

/* Lets the bytes to keep fall, once in a delay. */
void huge_cache_tick(uint64_t now_ms, uint64_t delay_ms);

/* What it has learned, under the lock: how many bytes to keep, and while how many are in use at least. Tests set them. */
extern HAK_HIDDEN size_t huge_keep_bytes, huge_keep_live_bytes;

/* As huge_learned_bytes. */
size_t huge_cache_learned_bytes(void);

/* Ends the bytes to keep. */
void huge_cache_forget(void);

/* Drops all mappings, without releasing them: for a forked child. */
void huge_cache_drop(void);

bool huge_cache_has(const void *address);
bool huge_cache_any(void); /* a hint, also without the lock */
void huge_cache_set_bytes(size_t bytes_max);
struct huge_figures huge_cache_figures(void);

/* --- links, which heap/own_inside.h reads without the HUGE lock --- */

/* The block of a link, and what huge_usable_size says of it. A link holds them at every moment. While
 * another thread moves the block, nobody knows where it is, and huge_is_mapped is false. */
void *huge_start_of(const struct huge_link *link);
size_t huge_usable_of(const struct huge_link *link);
bool huge_is_mapped(const struct huge_link *link);

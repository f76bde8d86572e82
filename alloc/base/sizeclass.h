/* sizeclass.h: which class serves a size, and what its slabs look like.
 *
 *   class 0          the empty bin: no block is ever in it, so malloc(0) and a class that does not
 *                    fit the hit path find nothing there and fall to the slow path
 *   class 1 to 64    16 * class bytes
 *   class 65 to 104  8 classes a doubling, up to 32 KiB
 *   class 105 to 112 128 to 1024 bytes by 128 once more, for blocks that must be aligned to that: the
 *                    slabs of such sizes are coloured otherwise
 *   GUARD, RUN, HUGE not bins: what the page map says of sampled blocks, of a page run and of a huge block
 *
 * Law 5: sizeclass_bytes(sizeclass_of(n)) >= n, monotonic, and exact for every class's own size.
 *
 * Colours: where blocks of one class stand a multiple of 128 bytes apart, they meet in few sets of a
 * cache (1 KiB: 4 of 64). So such slabs begin with an offset that differs from slab to slab (Bonwick
 * 1994), by whole lines, at the price of one block; small slabs only, where blocks are many.
 *
 * sizeclass_test.cc enumerates every size. Pure functions. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/policy.h"

enum {
    CLASS_EMPTY = 0,
    CLASS_LINEAR_LAST = SMALL_LINEAR_BYTES_MAX / GRANULE_BYTES,
    CLASS_GEOMETRIC_LAST = CLASS_LINEAR_LAST + 5 * 8,
    CLASS_ALIGNED_FIRST = CLASS_GEOMETRIC_LAST + 1, /* on: only sizeclass_of_aligned gives these */
    CLASS_COUNT = CLASS_ALIGNED_FIRST + SMALL_LINEAR_BYTES_MAX / COLOURED_STEP_BYTES,
    CLASS_GUARD = 253,
    CLASS_RUN = 254,
    CLASS_HUGE = 255,
};

static_assert(CLASS_COUNT < CLASS_GUARD, "classes fit the page map's byte");

/* The class of every number of granules. A table, since a branch between linear and geometric
 * classes is mispredicted where sizes mix (0.37 a pair over 16 to 4096 bytes) and the bit scan of
 * the geometric ones is long; the load is no part of the chain from one malloc to the next. */
extern HAK_HIDDEN const uint8_t sizeclass_table[SMALL_BYTES_MAX / GRANULE_BYTES + 1];

/* granules <= SMALL_BYTES_MAX / GRANULE_BYTES. */
static inline uint32_t sizeclass_of_granules(size_t granules)
{
    return sizeclass_table[granules];
}

/* size_bytes <= SMALL_BYTES_MAX; 0 gives CLASS_EMPTY. */
static inline uint32_t sizeclass_of(size_t size_bytes)
{
    return sizeclass_of_granules((size_bytes + GRANULE_BYTES - 1) / GRANULE_BYTES);
}

/* Bytes of a block of the class; 0 for CLASS_EMPTY. class_index < CLASS_COUNT. */
static inline uint32_t sizeclass_bytes(uint32_t class_index)
{
    if (class_index <= CLASS_LINEAR_LAST) return class_index * GRANULE_BYTES;
    if (class_index >= CLASS_ALIGNED_FIRST) return (class_index - CLASS_ALIGNED_FIRST + 1) * COLOURED_STEP_BYTES;
    uint32_t step = class_index - CLASS_LINEAR_LAST - 1;
    return (8 + step % 8 + 1) << (7 + step / 8);
}

/* The smallest class whose blocks hold size_bytes and all start at a multiple of align_bytes.
 * size_bytes and align_bytes are at most SMALL_BYTES_MAX, align_bytes a power of two. */
uint32_t sizeclass_of_aligned(size_t size_bytes, size_t align_bytes);

/* Offsets at which slabs of the class may begin: that many lines of the cache from 0 on. A power of two,
 * at most 16; 1 for most classes. */
static inline uint32_t sizeclass_colours(uint32_t class_index)
{
    uint32_t bytes = sizeclass_bytes(class_index);
    if (class_index > CLASS_LINEAR_LAST || bytes % COLOURED_STEP_BYTES != 0 || bytes == 0) return 1;
    return (bytes & -bytes) / CACHE_LINE_BYTES;
}

/* 1, 4 or 8 pages: at least SLAB_BLOCKS_MIN blocks. */
static inline uint32_t sizeclass_slab_pages(uint32_t class_index)
{
    uint32_t bytes = sizeclass_bytes(class_index);
    if (bytes <= PAGE_BYTES / SLAB_BLOCKS_MIN) return 1;
    return bytes <= 4 * PAGE_BYTES / SLAB_BLOCKS_MIN ? 4 : 8;
}

static inline uint32_t sizeclass_clamp(uint32_t value, uint32_t low, uint32_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Frees between two visits to the slow path: at first, and where parked lists are wanted again. */
static inline uint32_t sizeclass_credit(uint32_t class_index)
{
    return sizeclass_clamp(CREDIT_BYTES / sizeclass_bytes(class_index), CREDIT_MIN, CREDIT_MAX);
}

static inline uint32_t sizeclass_credit_grown(uint32_t class_index)
{
    return sizeclass_clamp(CREDIT_GROWN_BYTES / sizeclass_bytes(class_index), CREDIT_MIN, CREDIT_GROWN_MAX);
}

/* Lists that may be parked when each has credit blocks: MAGAZINES_BYTES in all, but a few at least, since a
 * swing of two lists lies in three when the first is short. */
static inline uint32_t sizeclass_magazines(uint32_t class_index, uint32_t credit)
{
    return sizeclass_clamp(MAGAZINES_BYTES / (credit * sizeclass_bytes(class_index)), MAGAZINES_MIN, MAGAZINES_MAX);
}

/* Remote frees to one slab that a thread gathers before it posts them. */
static inline uint32_t sizeclass_stage_blocks(uint32_t class_index)
{
    return sizeclass_clamp(STAGE_BYTES_MAX / sizeclass_bytes(class_index), 1, STAGE_BLOCKS_MAX);
}

/* sizeclass.h: which class serves a size, and what its slabs look like.
 *
 *   class 0          the empty bin: it never holds a block, so malloc(0) and sizes that do not fit the hit path
 *                    find nothing there and take the slow path
 *   class 1 to 64    16 * class bytes
 *   class 65 to 104  8 classes a doubling, up to 32 KiB
 *   class 105 to 112 128 to 1024 bytes by 128 again, for blocks aligned to more than a cache line: the slabs of
 *                    these classes have no colours
 *   PROFILE          not a bin: the page map's class for samples of the heap profile
 *   OWN...           not bins: with the class, the page map's tags of what heaps of the program's own hold
 *   GUARD, RUN, HUGE not bins: the page map's classes for sampled blocks, page runs and huge blocks
 *
 * Law 5: sizeclass_bytes(sizeclass_of(n)) >= n, monotonic, and exact for every class's own size.
 *
 * Colours: blocks that lie a multiple of 128 bytes apart share few sets of a cache (of 1 KiB: 4 of 64). So in each slab
 * of such a class the first block is preceded by an offset of whole cache lines that differs from slab to slab (Bonwick
 * 1994). This costs at most one block, so it is done only up to 1 KiB, where a slab has many.
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
    CLASS_ALIGNED_FIRST = CLASS_GEOMETRIC_LAST + 1, /* only sizeclass_of_aligned returns these */
    CLASS_COUNT = CLASS_ALIGNED_FIRST + SMALL_LINEAR_BYTES_MAX / COLOURED_STEP_BYTES,
    CLASS_PROFILE = 127,
    CLASS_OWN = 128, /* | class: a slab of a heap of the program's own (heap/own.h); | CLASS_EMPTY: such a run */
    CLASS_OWN_DEAD = 251, /* VALIDATE: pages of blocks that such a heap has given back all at once */
    CLASS_OWN_HUGE = 252,
    CLASS_GUARD = 253,
    CLASS_RUN = 254,
    CLASS_HUGE = 255,
};

static_assert(CLASS_COUNT <= CLASS_OWN && CLASS_OWN + CLASS_COUNT <= CLASS_OWN_DEAD, "classes fit the page map's byte");
static_assert(CLASS_COUNT <= CLASS_PROFILE && CLASS_PROFILE < CLASS_OWN, "as does that of profiled blocks");

/* The class of every number of granules. This is a table, since a branch between linear and geometric classes is
 * mispredicted where sizes mix (0.37 times a pair over 16 to 4096 bytes), and the bit scan of the geometric ones is
 * long. The load is not on the chain of dependences from one malloc to the next. */
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

/* offset * sizeclass_inverse(class_index) >> INVERSE_SHIFT is offset / sizeclass_bytes(class_index): exact, since a slab has less
 * than 2^20 bytes and a block less than 2^16. class_index is not CLASS_EMPTY. */
enum { INVERSE_SHIFT = 40 };
static inline uint64_t sizeclass_inverse(uint32_t class_index)
{
    return ((uint64_t)1 << INVERSE_SHIFT) / sizeclass_bytes(class_index) + 1;
}

/* The smallest class that holds size_bytes and whose blocks all start at a multiple of align_bytes. size_bytes and
 * align_bytes are at most SMALL_BYTES_MAX, align_bytes a power of two. */
uint32_t sizeclass_of_aligned(size_t size_bytes, size_t align_bytes);

/* How many colours the class has: the first block of its slabs may lie 0, 1, ... colours - 1 cache lines behind the
 * slab's start. A power of two, at most 16; 1 for most classes. */
static inline uint32_t sizeclass_colours(uint32_t class_index)
{
    uint32_t bytes = sizeclass_bytes(class_index);
    if (class_index > CLASS_LINEAR_LAST || bytes % COLOURED_STEP_BYTES != 0 || bytes == 0) return 1;
    return (bytes & -bytes) / CACHE_LINE_BYTES;
}

/* Pages of a slab of the class: 1, 4 or 8, the least that hold SLAB_BLOCKS_MIN blocks. */
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

/* How many frees a bin takes between two visits to the slow path: at first, and at most after parked lists were wanted
 * again. */
static inline uint32_t sizeclass_credit(uint32_t class_index)
{
    return sizeclass_clamp(CREDIT_BYTES / sizeclass_bytes(class_index), CREDIT_MIN, CREDIT_MAX);
}

/* As few frees as a list may have in a thread that frees more than it allocates. */
static inline uint32_t sizeclass_credit_least(uint32_t class_index)
{
    return sizeclass_clamp(CREDIT_LEAST_BYTES / sizeclass_bytes(class_index), CREDIT_LEAST, CREDIT_MAX);
}

static inline uint32_t sizeclass_credit_grown(uint32_t class_index)
{
    return sizeclass_clamp(CREDIT_GROWN_BYTES / sizeclass_bytes(class_index), CREDIT_MIN, CREDIT_GROWN_MAX);
}

/* How many lists of `credit` blocks may be parked: as many as fit MAGAZINES_BYTES, but at least MAGAZINES_MIN, since a
 * swing of two lists' blocks spreads over three lists when the first is short. */
static inline uint32_t sizeclass_magazines(uint32_t class_index, uint32_t credit)
{
    return sizeclass_clamp(MAGAZINES_BYTES / (credit * sizeclass_bytes(class_index)), MAGAZINES_MIN, MAGAZINES_MAX);
}

/* How many remote frees to one slab a thread gathers before it posts them. */
static inline uint32_t sizeclass_stage_blocks(uint32_t class_index)
{
    return sizeclass_clamp(STAGE_BYTES_MAX / sizeclass_bytes(class_index), 1, STAGE_BLOCKS_MAX);
}

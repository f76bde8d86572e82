/* config.h: the numbers of the design, each once. Relations between them are asserted here. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"

enum {
    GRANULE_BYTES = 16, /* every block starts at, and is, a multiple of this */

    PAGE_SHIFT = 16, /* a page of the allocator; the system's own may be smaller */
    PAGE_BYTES = 1 << PAGE_SHIFT,

    SUPERSLAB_SHIFT = 22,
    SUPERSLAB_BYTES = 1 << SUPERSLAB_SHIFT,
    SUPERSLAB_PAGES = SUPERSLAB_BYTES / PAGE_BYTES,

    SMALL_LINEAR_BYTES_MAX = 1024, /* classes by 16 up to here */
    SMALL_BYTES_MAX = 32 * 1024,   /* then 8 a doubling up to here: blocks of slabs */
    RUN_PAGES_MAX = 32,            /* then runs of pages up to here; mmap beyond */
    RUN_BYTES_MAX = RUN_PAGES_MAX * PAGE_BYTES,

    SLAB_BLOCKS_MIN = 16, /* a slab is large enough for so many of its blocks */

    CREDIT_MIN = 16, /* frees of a class between two visits to the slow path: */
    CREDIT_MAX = 256,
    CREDIT_BYTES = 64 * 1024, /* clamp(CREDIT_BYTES / block size, CREDIT_MIN, CREDIT_MAX), */
    CREDIT_GROWN_MAX = 2048,  /* doubled up to these when a parked list is wanted again */
    CREDIT_GROWN_BYTES = 512 * 1024,
    MAGAZINES_MAX = 4,        /* parked lists a class, in each thread; fewer where they are long: */
    MAGAZINES_MIN = 3,
    MAGAZINES_BYTES = MAGAZINES_MAX * CREDIT_BYTES,
    PARKED_MIN = 32,            /* parked lists of all classes that a thread may always hold, */
    PARKED_SHARE_LOG2 = 19,     /* and one more for each 512 KiB that its heap has given out */
    SHRINK_LOG2 = 2,            /* a heap of which so little is left in use (a quarter) empties its caches, */
    SHRINK_BYTES_MIN = 4 << 20, /* if there was so much, and trims its slabs */
    ORPHANS_WARM_MIN = 4,            /* heaps of ended threads that may keep what was cached: the first ones, */
    ORPHANS_WARM_SHARE_LOG2 = 3,     /* or so many (an eighth) of all heaps, */
    ORPHAN_USED_BYTES_MAX = 4 << 20, /* each if it has given out no more than so much */
    CACHE_LINE_BYTES = 64,
    COLOURED_STEP_BYTES = 128, /* slabs of classes that are multiples of it are coloured, up to 1 KiB */
    CARVE_BYTES = 4096,        /* of a slab's fresh memory a refill takes so much */
    CARVE_STRIDE_BYTES = 320,  /* from the first block of that in one slab to the next one's: 5 lines */

    /* Slabs that a thread gathers remote frees for at one time: a producer draws from a slab of each
     * class in turn, so as many as there are classes and more (measured: 16 took 57 ns a block handed over, 256 take
     * 18). */
    STAGES = 256,
    STAGE_BLOCKS_MAX = 64,   /* a stage is posted at so many blocks, */
    STAGE_BYTES_MAX = 16384, /* or at so many bytes */

    EARLY_FREES_MAX = 32, /* a thread's first frees of others' blocks, before it takes a heap */

    SUCCESSION_FREES = 256, /* so many frees of one dead thread's blocks make a thread its successor, */
    SUCCESSION_DRAWN_BYTES = 2048, /* if its own heap has given out so much meanwhile */

    HEAPS_MAX = 1 << 18, /* threads alive at one time */

    PURGE_DELAY_MS = 250,         /* a free page keeps its memory for one to two delays */
    DIRTY_PAGES_MIN = 64,        /* free pages that may keep their memory whatever is in use */
    DIRTY_SHARE_LOG2 = 2,         /* beyond: so many of the pages in use (a quarter) */
    TRIM_WAIT_LOG2_MAX = 4,       /* delays between two trims of a heap that wants its memory back each time: 16 */
    EMPTY_SUPERSLABS_MIN = 4,     /* address space kept for the next burst: so much, or as much as is in use */
    GUARD_BYTES_MAX = 4096,       /* a sampled block, at most: a page of any system */
    GUARD_SLOTS = 1024,           /* sampled blocks that may be live or remembered at one time, */
    GUARD_SLOTS_MAX = 16384,      /* each two mappings of the system's 65530 a process */
    GUARD_FRAMES = 20,            /* return addresses kept of malloc and of free: our own, and 16 */

    HUGE_CACHE_ENTRIES = 16,      /* huge mappings kept for the next huge block */
    HUGE_CACHE_BYTES_MAX = 64 << 20,
};

static_assert(SUPERSLAB_PAGES == 64, "a superslab's pages are one machine word of bits");
static_assert(RUN_PAGES_MAX <= SUPERSLAB_PAGES, "a run lies in one superslab");
static_assert(SMALL_LINEAR_BYTES_MAX % GRANULE_BYTES == 0, "linear classes are granules");
static_assert(CARVE_STRIDE_BYTES % CACHE_LINE_BYTES == 0, "carving starts on a cache line");

/* config.h: the numbers of the design that several modules need. What one module decides is in its header. Relations between them
 * are asserted at the end. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"

enum {
    GRANULE_BYTES = 16, /* every block starts at a multiple of this, and its size is one */

    PAGE_SHIFT = 16, /* a page of the allocator; the system's own may be smaller */
    PAGE_BYTES = 1 << PAGE_SHIFT,

    SUPERSLAB_SHIFT = 22,
    SUPERSLAB_BYTES = 1 << SUPERSLAB_SHIFT,
    SUPERSLAB_PAGES = SUPERSLAB_BYTES / PAGE_BYTES,

    CELL_SHIFT = 21, /* a cell of the page map has the descriptor of what begins in it */
    CELL_BYTES = 1 << CELL_SHIFT,

    /* Size classes, by the size that is asked for. Above RUN_BYTES_MAX a block is a mapping of its own. */
    SMALL_LINEAR_BYTES_MAX = 1024, /* up to here a class for each multiple of 16 */
    SMALL_BYTES_MAX = 32 * 1024, /* up to here 8 classes a doubling; these and the ones before are blocks of slabs */
    RUN_PAGES_MAX = 32, /* up to here runs of pages */
    RUN_BYTES_MAX = RUN_PAGES_MAX * PAGE_BYTES,

    SLAB_BLOCKS_MIN = 16, /* a slab has room for at least this many blocks */

    /* A bin's credit: how many frees of a class a thread makes between two visits to the slow path. It starts at
     * clamp(CREDIT_BYTES / block size, CREDIT_MIN, CREDIT_MAX), and doubles when a parked list is wanted again, up to
     * clamp(CREDIT_GROWN_BYTES / block size, CREDIT_MIN, CREDIT_GROWN_MAX). */
    CREDIT_MIN = 16,
    CREDIT_MAX = 256,
    CREDIT_BYTES = 64 * 1024,
    CREDIT_GROWN_MAX = 2048,
    CREDIT_GROWN_BYTES = 512 * 1024,
    /* Each list in a row that cannot be parked, and goes back to its slabs, halves the next one, down to
     * clamp(CREDIT_LEAST_BYTES / block size, CREDIT_LEAST, CREDIT_MAX). */
    CREDIT_LEAST = 2,
    CREDIT_LEAST_BYTES = 16 * 1024,

    /* Lists that a thread may keep parked of one class: as many as fit MAGAZINES_BYTES, between MIN and MAX. */
    MAGAZINES_MAX = 4,
    MAGAZINES_MIN = 3,
    MAGAZINES_BYTES = MAGAZINES_MAX * CREDIT_BYTES,

    /* A heap whose bytes in use fall to a quarter of their peak empties its caches and trims its slabs, if the peak was
     * at least SHRINK_BYTES_MIN. */
    SHRINK_LOG2 = 2,
    SHRINK_BYTES_MIN = 4 << 20,

    CACHE_LINE_BYTES = 64,
    COLOURED_STEP_BYTES = 128, /* slabs are coloured whose blocks are a multiple of this, up to 1 KiB */
    CARVE_BYTES = 4096, /* a refill carves this much of a slab's fresh memory, */
    CARVE_MUCH_BYTES = 256 * 1024, /* once the class has this many bytes in use, TAKE_BYTES_MAX of it */
    CARVE_STRIDE_BYTES = 320, /* the list of carved blocks starts this much further on in each next slab: 5 lines */
    TAKE_MAX = 256, /* a refill takes at most this number of a slab's free blocks that have memory, */
    TAKE_BYTES_MAX = 16 * 1024, /* this many bytes of them, but at least one block: only its thread empties a bin */

    /* How many slabs a thread gathers remote frees for at one time. A producer allocates from one slab of each class in
     * turn, so this must exceed the number of classes (measured: a block handed over takes 57 ns with 16 stages, 18 ns
     * with 256). */
    STAGES = 256,
    STAGES_ALL_MAX = 2048, /* all threads together: 32 MiB */
    STAGES_MIN = 32, /* a thread's, beside however many heaps; they take fewer blocks then */
    /* A stage is posted when it reaches either limit. */
    STAGE_BLOCKS_MAX = 64,
    STAGE_BYTES_MAX = 16384,

    HEAPS_MAX = 1 << 18, /* threads alive at one time */

    PURGE_DELAY_MS = 250, /* a free page keeps its memory for one to two delays, or as long as its like swings */
    WINDOW_DELAYS = 2, /* memory that is wanted again within this number of delays was given back too early */
    VISIT_ROUNDS =
        1, /* the background thread visits a heap whose thread was on no slow path for more rounds than this */
    DRAIN_SLABS_MAX = 12, /* slabs with blocks that other threads freed: as many as one slow path drains */
    PAUSE_MS_MIN = 250, /* shorter times between slow paths are no pause, whatever the delay */
    PAUSE_DELAYS =
        4, /* a thread that was on no slow path for this number of delays has slept: what it has free is idle */
    TRIM_IDLE_BYTES_MIN =
        1 << 20, /* such a thread trims its heap if this much more lies free than the last trim left */
    CREDIT_OWING =
        8, /* while a heap owes such work, its thread comes to a slow path after this many frees of a class */

    PROFILE_MEAN_BYTES = 512 * 1024, /* the heap profile samples a block each this many bytes */

    EMPTY_SUPERSLABS_MIN = 4, /* empty superslabs kept for the next burst: this many, or as many as are in use */
    GUARD_BYTES_MAX = 4096, /* the largest sampled block: a page of any system */
    HUGE_CACHE_BYTES_MAX = 64 << 20,
};

static_assert(SUPERSLAB_PAGES == 64, "a superslab's pages are one machine word of bits");
static_assert(RUN_PAGES_MAX <= SUPERSLAB_PAGES, "a run lies in one superslab");
static_assert(SMALL_LINEAR_BYTES_MAX % GRANULE_BYTES == 0, "linear classes are granules");
static_assert(CARVE_STRIDE_BYTES % CACHE_LINE_BYTES == 0, "carving starts on a cache line");

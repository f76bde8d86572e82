/* config.h: the numbers of the design, each in this one place. Relations between them are asserted at the end. */
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
    OVERFLOWS_MAX = 8,
    CREDIT_LEAST = 2,
    CREDIT_LEAST_BYTES = 16 * 1024,

    /* What bins may hold is bought from a purse (superslab/purse.h). A class that could not buy enough takes at most 1/2
     * (1 >> USED_SHARE_LOG2) of its blocks in use. */
    PURSE_FIRST_BYTES = 5 << 20,
    PURSE_BYTES = 32 << 20,
    PURSE_HEAP_LEAST_BYTES = 8 << 10,
    PURSE_HEAP_BYTES = 8 << 20,
    PURSE_SHARE_LOG2 = 3,
    USED_SHARE_LOG2 = 1,
    BROKE_TRIES = 32, /* a heap that could not buy does not try again the next times */
    GIVE_UP_STEPS = 8, /* a class that cannot buy looks at this many others of the thread, which may give up theirs */

    /* Lists that a thread may keep parked. Of one class: as many as fit MAGAZINES_BYTES, between MIN and MAX. Of all
     * classes together: PARKED_MIN, and one more for each 512 KiB (1 << PARKED_SHARE_LOG2) that its heap has given
     * out. */
    MAGAZINES_MAX = 4,
    MAGAZINES_MIN = 3,
    MAGAZINES_BYTES = MAGAZINES_MAX * CREDIT_BYTES,
    PARKED_MIN = 32,
    PARKED_SHARE_LOG2 = 19,

    /* A heap whose bytes in use fall to a quarter of their peak empties its caches and trims its slabs, if the peak was
     * at least SHRINK_BYTES_MIN. */
    SHRINK_LOG2 = 2,
    SHRINK_BYTES_MIN = 4 << 20,

    /* A heap does the same each time that the process's memory reaches a new peak, which is an eighth (1 << GROWTH_LOG2) and
     * GROWTH_BYTES_MIN above the last one. */
    GROWTH_LOG2 = 3,
    GROWTH_BYTES_MIN = 8 << 20,

    /* How many heaps of ended threads may keep what their threads had cached at a time: ORPHANS_WARM_MIN, or an eighth of all
     * heaps if that is more. A heap that has given out more than ORPHAN_USED_BYTES_MAX may not. */
    ORPHANS_WARM_MIN = 2,
    ORPHANS_WARM_SHARE_LOG2 = 3,
    ORPHAN_USED_BYTES_MAX = 4 << 20,

    CACHE_LINE_BYTES = 64,
    COLOURED_STEP_BYTES = 128, /* slabs are coloured whose blocks are a multiple of this, up to 1 KiB */
    CARVE_BYTES = 4096, /* a refill carves this much of a slab's fresh memory, */
    CARVE_MUCH_BYTES = 256 * 1024, /* once the class has this many bytes in use, TAKE_BYTES_MAX of it */
    CARVE_STRIDE_BYTES = 320, /* the list of carved blocks starts this much further on in each next slab: 5 lines */
    /* Above 1 KiB a class takes idle blocks of the next BORROW_CLASSES_MAX classes before it takes fresh memory: one for each
     * BORROWED_BYTES of that. */
    BORROW_CLASSES_MAX = 8,
    BORROWED_BYTES = 256,
    TAKE_MAX = 256, /* a refill takes at most this number of a slab's free blocks that have memory, */
    TAKE_BYTES_MAX = 16 * 1024, /* this many bytes of them, but at least one block: only its thread empties a bin */

    /* How many slabs a thread gathers remote frees for at one time. A producer allocates from one slab of each class in
     * turn, so this must exceed the number of classes (measured: a block handed over takes 57 ns with 16 stages, 18 ns
     * with 256). */
    STAGES = 256,
    /* A stage is posted when it reaches either limit. */
    STAGE_BLOCKS_MAX = 64,
    STAGE_BYTES_MAX = 16384,

    EARLY_FREES_MAX = 32, /* how many blocks of other threads a thread may free before it takes a heap */

    /* A thread takes over a dead thread's heap when it has freed SUCCESSION_FREES blocks of that heap, and its own heap
     * has given out SUCCESSION_DRAWN_BYTES meanwhile. */
    SUCCESSION_FREES = 256,
    SUCCESSION_DRAWN_BYTES = 2048,

    HEAPS_MAX = 1 << 18, /* threads alive at one time */

    PURGE_DELAY_MS = 250, /* a free page keeps its memory for one to two delays, or as long as its like swings */
    WINDOW_DELAYS = 2, /* memory that is wanted again within this number of delays was given back too early */
    VISIT_ROUNDS =
        1, /* the background thread visits a heap whose thread was on no slow path for more rounds than this */
    PURGE_CALLS_MAX = 4, /* to the system, with which one malloc or free gives memory back */
    PURGE_DEBT_PAGES_MAX = 128, /* how many free pages above the limit in number later calls may have to purge */
    PURGE_STEP_SUPERSLABS = 128, /* that it looks at for that */
    DIRTY_PAGES_MIN = 64, /* free pages that may keep their memory, however few pages are in use */
    DIRTY_SHARE_LOG2 = 2, /* beyond that: a quarter of the pages in use */
    DRAIN_SLABS_MAX = 12, /* slabs with blocks that other threads freed: as many as one slow path drains */
    KEPT_LANES = 8, /* runs freed last that are kept at hand, one for each thread of as many */
    KEPT_TICK_PERIOD = 64, /* one in this number of mallocs that look for such a run makes the tick */
    SOFT_DIRTY_PAGES_MAX = RUN_PAGES_MAX, /* the same beyond the soft limit: a loop over one run purges nothing */
    PAUSE_MS_MIN = 250, /* shorter times between slow paths are no pause, whatever the delay */
    PAUSE_DELAYS =
        4, /* a thread that was on no slow path for this number of delays has slept: what it has free is idle */
    TRIM_IDLE_BYTES_MIN =
        1 << 20, /* such a thread trims its heap if this much more lies free than the last trim left */
    FLUSH_STEP_BLOCKS =
        256, /* a heap that has shrunk gives back this many parked blocks in a slow path, and a list's rest */
    CREDIT_OWING =
        8, /* while a heap owes such work, its thread comes to a slow path after this many frees of a class */
    TRIM_STEP_SLABS = 64, /* a step of a trim looks at this many slabs at most */
    TRIM_STEP_CALLS = 3, /* it makes this many calls to the system at most */
    TRIM_STEP_BLOCKS =
        256, /* it looks at no further slab once it has unlinked this many blocks that others freed; a slab counts as 8 or 40 more (slab/trim.c) */
    TRIM_WAIT_LOG2_MAX = 6, /* a heap that wants trimmed memory back each time waits up to 64 delays between trims */
    HUGE_ROUND_SUPERSLABS = 4, /* full superslabs that one round of the tick makes huge pages, at most */
    INHERITED_SUPERSLABS_MAX = 32, /* a forked child that has more purges by madvise */
    EMPTY_SUPERSLABS_MIN = 4, /* empty superslabs kept for the next burst: this many, or as many as are in use */

    /* Once superslabs take more than 1/TIGHT_SHARE of the process's address space (RLIMIT_AS), and are
     * TIGHT_SUPERSLABS_MIN at least, a block above the small ones gets a mapping of its own where runs of its length
     * would leave more than 1/TIGHT_WASTE of a superslab unused. The system gives a process 65530 mappings, so blocks
     * stay runs if the limit could hold more than TIGHT_MAPPINGS_MAX of them. Where the page map is a window, each
     * takes one of its few places, and a search for a free place passes by as many: TIGHT_WINDOW_MAPPINGS_MAX. */
    TIGHT_SHARE = 32,
    TIGHT_SUPERSLABS_MIN = 4,
    TIGHT_WASTE = 32,
    TIGHT_MAPPINGS_MAX = 32768,
    TIGHT_WINDOW_MAPPINGS_MAX = 2048,
    TIGHT_READ_MS = 1000, /* a limit that is raised counts after this time */

    GUARD_BYTES_MAX = 4096, /* the largest sampled block: a page of any system */
    GUARD_SLOTS = 1024, /* sampled blocks that may be live or remembered at one time */
    GUARD_SLOTS_MAX = 16384, /* each slot costs two of the 65530 mappings that the system gives a process */
    GUARD_FRAMES = 20, /* return addresses kept of malloc and of free: our own, and 16 of the program's */

    PROFILE_MEAN_BYTES = 512 * 1024, /* the heap profile samples a block each this many bytes */

    HUGE_CACHE_ENTRIES = 16, /* huge mappings kept for the next huge block */
    HUGE_CACHE_BYTES_MAX = 64 << 20,
    HUGE_SHRUNK_BYTES_MIN = 256 << 10, /* a huge block that shrinks to less becomes a run */
    HUGE_SHRUNK_LIVE_MAX = 1024, /* so does one that is no longer above RUN_BYTES_MAX, if more huge blocks are live */
    /* While a loop wants again what those limits took back: */
    HUGE_KEEP_ENTRIES = 64,
    HUGE_KEEP_FACTOR = 8, /* times the limit in bytes */
};

static_assert(SUPERSLAB_PAGES == 64, "a superslab's pages are one machine word of bits");
static_assert(RUN_PAGES_MAX <= SUPERSLAB_PAGES, "a run lies in one superslab");
static_assert(SMALL_LINEAR_BYTES_MAX % GRANULE_BYTES == 0, "linear classes are granules");
static_assert(CARVE_STRIDE_BYTES % CACHE_LINE_BYTES == 0, "carving starts on a cache line");

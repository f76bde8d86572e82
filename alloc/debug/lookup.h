/* lookup.h: what block an address lies in. One walk of the page map and the descriptors answers it, for any address.
 *
 * Async-signal-safe, on any thread: takes no lock, allocates nothing and does not wait. The page map can be read
 * everywhere and descriptors are never unmapped, so nothing here faults, and every walk has a bound. The answer is exact
 * for an address in a block that no thread frees meanwhile, and otherwise a hint.
 *
 * Descriptors are read in one of two ways, since their members are plain: the checks of the debug-validation build ask
 * at every free, about a block that stays; a crash handler asks about memory that other threads may be changing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"
#include "hakmem/record.h"

struct superslab;

/* As a line of a report says it; the texts of RECORD_KINDS are sentences of their own. */
extern HAK_HIDDEN const char *const lookup_kind_names[];

struct lookup {
    enum record_kind kind; /* never guard: debug/describe.h asks guard/guard.h first */
    char *start;           /* start of the heap's block, its frame included; NULL outside of a slab's blocks */
    size_t bytes;          /* of it */
    uint32_t class_index;
    uint32_t owner_id; /* 0: no owner, or a heap of the program's own */
    bool is_own; /* of such a heap (heap/own.h) */
    bool live; /* the heap has handed it out; known of runs and huge blocks, and under VALIDATE of small ones */

    const struct superslab *superslab; /* of a slab, a run or a free page; otherwise NULL */
    uint32_t first_page, page_count; /* of the slab or run in it */
    char *slab_start; /* the first block of the slab; NULL: in no slab */
    uint32_t slab_capacity;
};

/* Reads descriptors directly: for the debug-validation build. */
struct lookup heap_lookup(const void *address);

/* Reads descriptors through os_peek, a system call for each: races with no thread that changes them. Knows of a small
 * block only where it is, not whether it is live. */
struct lookup heap_lookup_any(const void *address);

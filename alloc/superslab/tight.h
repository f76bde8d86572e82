/* tight.h: whether the process is short of address space (RLIMIT_AS). For the pool, before it makes a superslab. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "superslab/superslab.h"

enum {
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
};

/* Whether address space is short, and a new superslab for this run and its like would waste it, while blocks of its length would
 * not be too many mappings. superslab_count: how many there are; each counts whole against RLIMIT_AS. need->block_bytes is not
 * 0. The limit is looked for when a superslab would be made, and once in TIGHT_READ_MS while none is. If it was far, it is looked
 * for again once there are a 64th more superslabs. Any thread. */
bool tight_is(const struct page_need *need, size_t superslab_count);

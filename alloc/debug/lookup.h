/* lookup.h: what block an address lies in, for any address whatever. For the checks and reports of the debug-
 * validation build; not a part of the release library. Reads the heap's books without a lock: exact for an
 * address in a block that nobody frees meanwhile, a hint for others. Async-signal-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lookup_kind {
    LOOKUP_NONE,      /* not in memory of the heap */
    LOOKUP_FREE_PAGE, /* in a page of the heap that is in no slab and in no run */
    LOOKUP_SMALL,     /* in a slab; start is NULL where no block of it can be */
    LOOKUP_RUN,
    LOOKUP_HUGE,
};

struct lookup {
    enum lookup_kind kind;
    char *start;  /* of the heap's block, its frame included */
    size_t bytes; /* of it */
    uint32_t class_index;
    uint32_t owner_id; /* 0: nobody's */
    bool live;         /* the heap has given it out */
};

struct lookup heap_lookup(const void *address);

/* lookup.h: finds the block that an address lies in; takes any address. For the checks and reports of the
 * debug-validation build; not a part of the release library. It takes no lock, so the result is exact only for an
 * address in a block that no thread frees meanwhile, and otherwise a hint. Async-signal-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lookup_kind {
    LOOKUP_NONE,      /* not in memory of the heap */
    LOOKUP_FREE_PAGE, /* in a page of the heap that is in no slab or run */
    LOOKUP_SMALL,     /* in a slab; start is NULL if the address is outside of its blocks */
    LOOKUP_RUN,
    LOOKUP_HUGE,
};

struct lookup {
    enum lookup_kind kind;
    char *start;  /* start of the heap's block, its frame included */
    size_t bytes; /* of it */
    uint32_t class_index;
    uint32_t owner_id; /* 0: no owner */
    bool live;         /* the heap has handed it out */
};

struct lookup heap_lookup(const void *address);

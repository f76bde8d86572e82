/* lookup.h: finds the block that an address lies in; takes any address. For the checks and reports of the
 * debug-validation build; not a part of the release library. It takes no lock, so the result is exact only for an
 * address in a block that no thread frees meanwhile, and otherwise a hint. Async-signal-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hakmem/record.h"

struct lookup {
    enum record_kind kind; /* never guard: the debug-validation build samples nothing */
    char *start;           /* start of the heap's block, its frame included; NULL outside of a slab's blocks */
    size_t bytes; /* of it */
    uint32_t class_index;
    uint32_t owner_id; /* 0: no owner */
    bool live;         /* the heap has handed it out */
};

struct lookup heap_lookup(const void *address);

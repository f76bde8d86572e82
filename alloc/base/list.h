/* list.h: a free block, and the lists that free blocks form. A free block's first word links to the next one; in some
 * lists the first block also uses its second word. Free blocks are poisoned for AddressSanitizer (os/sanitizer.h), so
 * the allocator reads and writes links only through link_get and link_set. */
#pragma once

#include <stddef.h>

#include "base/policy.h"

struct block {
    struct block *next;
    union {
        struct block *next_magazine; /* in the first block of a parked magazine */
        struct block *batch_tail;    /* in the first block of a batch of remote frees: the batch's last block */
    };
};

HAK_UNWATCHED_INLINE struct block *link_get(struct block *const *link)
{
    return *link;
}

HAK_UNWATCHED_INLINE void link_set(struct block **link, struct block *block)
{
    *link = block;
}

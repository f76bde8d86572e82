/* list.h: a free block, and the lists that free blocks form. A free block's first word links to
 * the next one; the first block of some lists has a use for its second word. */
#pragma once

#include <stddef.h>

struct block {
    struct block *next;
    union {
        struct block *next_magazine; /* in the first block of a parked magazine */
        struct block *batch_tail;    /* in the first block of a batch of remote frees: its last one */
    };
};

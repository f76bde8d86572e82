/* list.h: a free block, and the lists that free blocks form. A free block's first word links to
 * the next one; a parked magazine also uses the second word of its first block. */
#pragma once

#include <stddef.h>

struct block {
    struct block *next;
    struct block *next_magazine; /* in the first block of a parked magazine only */
};

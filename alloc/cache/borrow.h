/* borrow.h: idle blocks of larger classes serve a class that would take fresh memory. */
#pragma once

#include "cache/tcache.h"

enum {
    /* Above 1 KiB a class takes idle blocks of the next BORROW_CLASSES_MAX classes before it takes fresh memory: one for each
     * BORROWED_BYTES of that. */
    BORROW_CLASSES_MAX = 8,
    BORROWED_BYTES = 256,
};

/* A page fault costs as much as some dozen slow paths. So before a class takes fresh memory, it takes as many idle
 * blocks of larger classes as cost about the same; then the fresh memory is paid for. In the long run each class has its
 * own blocks. The classes of one octave share their peaks meanwhile, as they do in a heap that coalesces. A block's size is
 * that of its slab, so free and realloc see the larger class. The block is aligned as those of the smaller class are. In
 * a heap that was profiled nothing is borrowed, since the profile would not know that block's size (profile/sampler.h).
 *
 * Returns a list of idle blocks of a larger class, which *class_index then names, for the caller to take the first from and
 * to make the rest that class's bin. NULL: the class is to take fresh memory. class_index: above CLASS_LINEAR_LAST, up to
 * CLASS_GEOMETRIC_LAST. Once the class has fresh memory, the caller begins a new count. */
struct block *borrow(struct tcache *tcache, uint32_t *class_index);

/* After a borrow that returned NULL there was no fresh memory either: borrows if only the count was in the way. */
HAK_COLD struct block *borrow_again(struct tcache *tcache, uint32_t *class_index);

/* guard_sample.h: which blocks lie in a slot of guard.h: one in about N of those up to GUARD_BYTES_MAX.
 *
 * The hit paths count nothing, so allocations are estimated where a thread comes to the slow paths:
 *
 *   a refill from a slab or from other threads   as many as the list is long (it is walked; malloc does so at once)
 *   a refill from a magazine                     as many as frees filled it: the class's credit
 *   a park that finds the bin empty              the credit: each of those frees had a malloc that was popped since
 *   another park                                 none: the list that is parked counts when it is popped
 *
 * Each thread draws how many allocations it lets pass before the next sample, evenly from 1 to 2 N. When they have,
 * the next refill for an allocation that may be sampled is one; a park that finds the bin empty leaves it so, since a
 * loop of one block would otherwise never come to a refill. Where N is smaller than a list is long, several samples
 * are due at once, and the next mallocs of the class are sampled one after the other (so that N = 1 gives about one
 * in two). What is not sampled: malloc(0),
 * aligned blocks, blocks above GUARD_BYTES_MAX; and threads that end before their first list does, hardly. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"
#include "cache/tcache.h"

extern HAK_HIDDEN _Atomic(uint32_t) guard_sample_rate;

/* N, or 0: from now on none. Behind guard_start; other threads may run. */
void guard_sample_set(uint32_t rate);

HAK_INLINE bool guard_sample_is_on(void)
{
    /* acquire: pairs with the release in guard_sample_set; what guard_start made is seen. */
    return atomic_load_explicit(&guard_sample_rate, memory_order_acquire) != 0;
}

/* A sampled block, if one is due and it may be one. NULL: go on as without. Keeps errno. */
void *guard_sample_alloc(struct tcache *tcache, size_t size_bytes);

/* Around tcache_refill and tcache_park. */
struct guard_visit {
    uint32_t parked, credit;
    bool counts, bin_was_empty;
};
struct guard_visit guard_visit_begin(const struct tcache *tcache, uint32_t class_index);
void guard_visit_refilled(struct guard_visit visit, const struct tcache *tcache, uint32_t class_index);
void guard_visit_parked(struct guard_visit visit, struct tcache *tcache, uint32_t class_index);

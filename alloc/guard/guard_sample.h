/* guard_sample.h: chooses the blocks that are sampled (guard.h): about one in N of those up to GUARD_BYTES_MAX.
 *
 * The hit paths count nothing, so the number of allocations is estimated when a thread takes a slow path:
 *
 *   a refill from a slab or from other threads   the length of the list (it is walked; malloc touches its blocks soon)
 *   a refill from a magazine                     the number of frees that filled it: the class's credit
 *   a park that finds the bin empty              the credit: a malloc has popped what each of these frees pushed
 *   another park                                 none: the parked list is counted when it is popped
 *
 * Each thread draws at random, evenly from 1 to 2 N, how many allocations it lets pass before the next sample. After
 * these, a sample is due: the next refill for an allocation that may be sampled returns a sampled block. If one is due
 * at a park that finds the bin empty, the bin is emptied again, since a loop over a single block would otherwise never
 * refill. Where N is smaller than the length of a list, several samples are due at once, and the next mallocs of the
 * class are sampled one after the other (so N = 1 samples about one in two). Never sampled: malloc(0), aligned blocks,
 * and blocks above GUARD_BYTES_MAX. Hardly ever sampled: threads that end before they have used up their first list. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"
#include "cache/tcache.h"

/* N, and in the upper half the generation of the heap profile while that is on, else 0 (profile/profile.h): one word, so
 * that a slow path asks once. */
extern HAK_HIDDEN _Atomic(uint64_t) sampling;

/* Sets N; 0: no more samples. Call it after guard_start; other threads may run. */
void guard_sample_set(uint32_t rate);
void sampling_profile_set(uint32_t generation);

/* Whether blocks are sampled, for guards or for the heap profile. */
HAK_INLINE bool guard_sample_is_on(void)
{
    /* acquire: pairs with the release in guard_sample_set and sampling_profile_set, so that this thread sees what
     * guard_start and profile_start made. */
    return atomic_load_explicit(&sampling, memory_order_acquire) != 0;
}

/* Which of the two, for callers that guard_sample_is_on has answered. */
static inline uint64_t sampling_now(void)
{
    return atomic_load_explicit(&sampling, memory_order_relaxed);
}
static inline bool sampling_profile_is_on(void)
{
    return sampling_now() >> 32 != 0;
}
static inline uint32_t guard_sample_rate_now(void)
{
    return (uint32_t)sampling_now();
}

/* Returns a sampled block if a sample is due and the size may be sampled. NULL: serve the allocation as usual. Keeps
 * errno. */
void *guard_sample_alloc(struct tcache *tcache, size_t size_bytes);

/* Callers of tcache_refill and tcache_park call _begin before it and _refilled or _parked after it. */
struct guard_visit {
    uint32_t parked, credit;
    bool counts, bin_was_empty;
};
struct guard_visit guard_visit_begin(struct tcache *tcache, uint32_t class_index);
void guard_visit_refilled(struct guard_visit visit, struct tcache *tcache, uint32_t class_index);
void guard_visit_parked(struct guard_visit visit, struct tcache *tcache, uint32_t class_index);

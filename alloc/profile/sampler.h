/* sampler.h: chooses the small allocations that are sampled, for guards (guard/guard.h) and for the heap profile
 * (profile/profile.h), and makes each of them reach a slow path, though the hit paths count nothing.
 *
 * Each block that malloc pops from a bin has entered the bin before: a free pushed it, or a refill brought it in a list.
 * The slow paths can count entries: frees by the credit, lists by a walk. So what is sampled is chosen when it enters:
 * for each class and heap `left` is the number of entries until the next chosen one. It is geometrically distributed,
 * which for independent classes is the same as one Poisson process. The malloc that pops a chosen entry is sampled, with
 * the same chance for each call site.
 *
 * Guards want one allocation in N, and the profile one byte in its mean. Two Poisson processes at once are one, of the sum
 * of their rates. So there is one count for both, and a draw says which of them a chosen allocation is for. Guards never
 * sample malloc(0), aligned blocks, and blocks above GUARD_BYTES_MAX: if such a malloc pops a choice of theirs, it is dropped.
 * It is dropped too if no slot is free.
 *
 *   Law: the bin's credit is below `left`, so the free that pushes the chosen entry takes the slow path.
 *
 * There the bin's list, with the chosen block first, is set aside, and the bin is empty. A bin is a stack, so the next
 * malloc that finds it empty is the one that would have popped the chosen block. It takes the sample and the list that was
 * set aside. A list from a slab or from other threads is cut before its chosen block likewise; what lies behind that is
 * counted when it comes back. The lists set aside belong to the bin's list: where that is parked or goes back to its
 * slabs, so do they, with the choices. (If only the rest went back and was chosen from again when it returns, blocks would
 * be sampled too often.) When the thread ends or the caches are emptied, all choices are dropped, and what comes back
 * later is counted afresh.
 *
 * So a sample costs two slow paths, and each other slow path two subtractions, inline here. The counts change in an order
 * in which a child that is forked meanwhile loses a few blocks at most.
 *
 * Only the thread that holds the heap calls these; sampler_watch also the child of fork, for threads that it does not
 * have. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"
#include "cache/tcache.h"
#include "profile/poisson.h"

/* Who samples, in one word, so that a slow path asks once: N in the lower half, 0 without guards; the highest bit, while
 * the heap profile is on; and between them a number that is another after each change. 0: nobody. */
extern HAK_HIDDEN _Atomic(uint64_t) sampling;

/* One in N allocations is for a guard; 0: none. Call it after guard_start; other threads may run. */
void sampling_guard_set(uint32_t rate);

/* The same for the heap profile; under its lock. */
void sampling_profile_set(bool on);

HAK_INLINE bool sampling_is_on(void)
{
    /* acquire: pairs with the release in sampling_change, so that this thread sees what guard_start and profile_start
     * made. */
    return atomic_load_explicit(&sampling, memory_order_acquire) != 0;
}

static inline uint64_t sampling_now(void)
{
    return atomic_load_explicit(&sampling, memory_order_relaxed);
}
static inline uint32_t sampling_guard_rate(void)
{
    return (uint32_t)sampling_now();
}

/* Made by the first of the two. */
extern HAK_HIDDEN struct poisson_table sampler_table;

enum { SAMPLER_LISTS_MAX = 8 }; /* magazines of a class, and the bin's list */

static_assert((int)MAGAZINES_MAX < (int)SAMPLER_LISTS_MAX, "the bin's list has a place beside all magazines");

struct sampler_class {
    uint64_t left; /* entries until the chosen one, that one included; at least 1 */
    uint32_t credit; /* the bin's at the end of the last slow path; it falls by one for each free since */
    uint32_t kept; /* of the credit: the law allows no more; then credit is left - 1 */
    /* The class's lists, by the order in which they were begun: its magazines, then the bin's. bin is the number of
     * magazines as the last slow path left it; if it differs, a visitor has given them back. */
    uint8_t bin;
    uint8_t uncounted_below; /* lists before this one were parked when counting began: their blocks are not counted */
    uint8_t uncounted_last; /* a bit for each list: in the last of those set aside only the first block is counted */
    /* For each list what was set aside, the newest first, linked by next_magazine. */
    struct block *aside[SAMPLER_LISTS_MAX];
};

struct sampler {
    struct sampler_class classes[CLASS_COUNT];
    uint64_t rates[CLASS_COUNT]; /* choices a block of the class, by poisson.h */
    uint64_t guard_rates[CLASS_COUNT]; /* of these, those for guards */
    uint64_t sampling; /* the word when `left` was drawn */
    uint64_t random;
};

/* Whether this refill is of a chosen allocation, which sampler_serve then serves. It returns NULL, and sets ENOMEM, if there
 * is no memory at all. Not for CLASS_EMPTY. */
HAK_NOINLINE struct sampler_class *sampler_update(struct tcache *tcache, uint32_t class_index);
HAK_NOINLINE void *sampler_serve(size_t size_bytes, struct tcache *tcache, uint32_t class_index);

/* After another refill, with its block: the malloc may be chosen now, and another block is returned. */
HAK_NOINLINE void *sampler_refilled_any(size_t size_bytes, struct tcache *tcache, uint32_t class_index, void *block);

/* Frees a block that is a chosen entry: the bin's credit is spent, but some is kept. */
HAK_NOINLINE void sampler_park_chosen(void *pointer, struct tcache *tcache, uint32_t class_index);

/* Before another tcache_park: true if that is not to be called, since the block was a chosen entry. After it: had_list says
 * whether the bin held one. */
HAK_NOINLINE bool sampler_parks_any(void *pointer, struct tcache *tcache, uint32_t class_index);
HAK_NOINLINE void sampler_parked_any(struct tcache *tcache, uint32_t class_index, bool had_list);

static inline uint8_t sampler_magazines(const struct tcache *tcache, uint32_t class_index)
{
    return parking_count(&tcache->heap->parking[class_index]);
}

/* The class's state if the counts are ready; else NULL. */
HAK_INLINE struct sampler_class *sampler_ready(const struct tcache *tcache, uint32_t class_index)
{
    struct sampler *sampler = tcache->sampler;
    if (HAK_UNLIKELY(sampler == NULL) || HAK_UNLIKELY(sampling_now() != sampler->sampling)) return NULL;
    return &sampler->classes[class_index];
}

HAK_INLINE bool sampler_is_due(struct tcache *tcache, uint32_t class_index)
{
    const struct sampler_class *state = sampler_ready(tcache, class_index);
    if (HAK_UNLIKELY(state == NULL) || HAK_UNLIKELY(state->bin != sampler_magazines(tcache, class_index)))
        state = sampler_update(tcache, class_index);
    return state != NULL && state->aside[state->bin] != NULL && tcache->heads[class_index] == NULL;
}

static inline void *sampler_refilled(size_t size_bytes, struct tcache *tcache, uint32_t class_index, void *block)
{
    struct sampler_class *state = sampler_ready(tcache, class_index);
    uint8_t now = HAK_LIKELY(state != NULL) ? sampler_magazines(tcache, class_index) : 0;
    if (HAK_UNLIKELY(state == NULL || now >= state->bin || now < state->uncounted_below))
        return sampler_refilled_any(size_bytes, tcache, class_index, block);
    state->bin = now; /* the newest magazine is the bin's list, with what was set aside of it */
    return block;
}

HAK_INLINE bool sampler_is_chosen(const struct tcache *tcache, uint32_t class_index)
{
    const struct sampler_class *state = sampler_ready(tcache, class_index);
    return state != NULL && state->kept != 0 && state->bin == sampler_magazines(tcache, class_index);
}

/* How many frees spent the credit from before to now; some of it went without a free. */
static inline uint32_t sampler_spent(struct tcache *tcache, uint32_t class_index, uint32_t before, uint32_t now)
{
    uint32_t lowered = tcache->heap->parking[class_index].lowered;
    tcache->heap->parking[class_index].lowered = 0;
    return now + lowered < before ? before - now - lowered : 0;
}

static inline bool sampler_parks(void *pointer, struct tcache *tcache, uint32_t class_index)
{
    struct sampler_class *state = sampler_ready(tcache, class_index);
    if (HAK_UNLIKELY(state == NULL || state->kept != 0 || tcache->heads[class_index] == NULL))
        return sampler_parks_any(pointer, tcache, class_index);
    uint32_t credit = state->credit; /* all of it is spent */
    state->credit = 0;
    state->left -= sampler_spent(tcache, class_index, credit, 0);
    return false;
}

/* Makes the law hold, with all of the credit that there is. */
static inline void sampler_arm(struct tcache *tcache, struct sampler_class *state, uint32_t class_index)
{
    uint32_t credit = tcache->credits[class_index] + state->kept;
    state->credit = credit < state->left ? credit : (uint32_t)state->left - 1;
    state->kept = credit - state->credit;
    tcache->heap->parking[class_index].lowered = 0;
    tcache->credits[class_index] = state->credit;
}

static inline void sampler_parked(struct tcache *tcache, uint32_t class_index, bool had_list)
{
    struct sampler_class *state = sampler_ready(tcache, class_index);
    if (HAK_UNLIKELY(state == NULL || state->left == 1 || sampler_magazines(tcache, class_index) != state->bin + 1u)) {
        sampler_parked_any(tcache, class_index, had_list);
        return;
    }
    state->bin++; /* the lists set aside are the magazine's */
    state->left--; /* the freed block, the bin's only one */
    sampler_arm(tcache, state, class_index);
}

/* No memory for the sample of sampler_serve: a block of the bin. NULL, and ENOMEM: there is none at all. */
void *sampler_unsampled(uint32_t class_index);

/* A thread has just taken a heap, or its bins are about to be emptied. See base/hooks.h. */
void sampler_watch(void *tcache, bool begins);

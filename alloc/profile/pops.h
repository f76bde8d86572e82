/* pops.h: makes the small allocation that is to be sampled reach a slow path, though the hit paths count nothing.
 *
 * Each block that malloc pops from a bin has entered the bin before: a free pushed it, or a refill brought it in a list.
 * The slow paths can count entries: frees by the credit, lists by a walk. So what is sampled is chosen when it enters:
 * for each class and heap `left` is the number of entries until the next chosen one. It is geometrically distributed,
 * which for independent classes is the same as one Poisson process over all bytes. The malloc that pops a chosen entry
 * is sampled, with the same chance for each call site.
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
 * So a sample costs two slow paths, and each other slow path two subtractions. They have a short way, inline here, for
 * where the counts are ready, and functions for all else (pops_*_any). The counts change in an order in which a child that
 * is forked meanwhile loses a few blocks at most.
 *
 * Only the thread that holds the heap calls these; pops_watch also the child of fork, for threads that it does not have. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/tcache.h"
#include "guard/guard_sample.h"
#include "profile/profile.h"

enum { POPS_LISTS_MAX = 8 }; /* magazines of a class, and the bin's list */

static_assert((int)MAGAZINES_MAX < (int)POPS_LISTS_MAX, "the bin's list has a place beside all magazines");

struct pops_class {
    uint64_t left; /* entries until the chosen one, that one included; at least 1 */
    uint32_t credit; /* the bin's at the end of the last slow path; it falls by one for each free since */
    uint32_t kept; /* of the credit: the law allows no more; then credit is left - 1 */
    /* The class's lists, by the order in which they were begun: its magazines, then the bin's. bin is the number of
     * magazines as the last slow path left it; if it differs, a visitor has given them back. */
    uint8_t bin;
    uint8_t uncounted_below; /* lists before this one were parked when counting began: their blocks are not counted */
    uint8_t uncounted_last; /* a bit for each list: in the last of those set aside only the first block is counted */
    /* For each list what was set aside, the newest first, linked by next_magazine. */
    struct block *aside[POPS_LISTS_MAX];
};

struct pops {
    struct pops_class classes[CLASS_COUNT];
    double means[CLASS_COUNT]; /* in blocks of the class */
    uint64_t sampling; /* as the word of that name in guard_sample.h, where only this profile samples */
    uint32_t generation; /* profile_generation when `left` was drawn */
    uint64_t random;
};

/* The bin is empty, and what was set aside of its list begins with a chosen block: samples the malloc. NULL: there is no
 * memory at all. */
HAK_NOINLINE void *pops_refill_chosen(size_t size_bytes, struct tcache *tcache, uint32_t class_index,
                                      struct pops_class *state);

/* Frees a block that is a chosen entry: some of the credit is kept, and the rest is spent. */
HAK_NOINLINE void pops_park_chosen(void *pointer, struct tcache *tcache, uint32_t class_index,
                                   struct pops_class *state);

/* Around the ordinary refill: pops_refill_any returns a block if the malloc is sampled; if not, pops_refilled_any is called
 * with the block of the refill, and may return another one. */
HAK_NOINLINE void *pops_refill_any(struct tcache *tcache, uint32_t class_index, size_t size_bytes);
HAK_NOINLINE void *pops_refilled_any(struct tcache *tcache, void *block, uint32_t class_index, size_t size_bytes);

/* Around the ordinary park: true if the block is freed, since it is a chosen entry. */
HAK_NOINLINE bool pops_park_any(struct tcache *tcache, void *pointer, uint32_t class_index, bool *had_list);
HAK_NOINLINE void pops_parked_any(struct tcache *tcache, uint32_t class_index, bool had_list);

static inline uint8_t pops_magazines(const struct tcache *tcache, uint32_t class_index)
{
    return tcache->heap->parking[class_index].count;
}

/* The class's state if the slow path may take the short way; else NULL. Not for CLASS_EMPTY. */
HAK_INLINE struct pops_class *pops_ready(const struct tcache *tcache, uint32_t class_index)
{
    struct pops *pops = tcache->pops;
    if (HAK_UNLIKELY(pops == NULL)) return NULL;
    if (HAK_UNLIKELY(sampling_now() != pops->sampling)) return NULL;
    return &pops->classes[class_index];
}

static inline bool pops_is_visited(const struct tcache *tcache, const struct pops_class *state, uint32_t class_index)
{
    return HAK_UNLIKELY(state->bin != pops_magazines(tcache, class_index));
}

/* Makes the law hold, with all of the credit that there is. */
static inline void pops_arm(struct tcache *tcache, struct pops_class *state, uint32_t class_index)
{
    uint32_t credit = tcache->credits[class_index] + state->kept;
    state->credit = credit < state->left ? credit : (uint32_t)state->left - 1;
    state->kept = credit - state->credit;
    tcache->credits[class_index] = state->credit;
}

/* The block that an ordinary refill has taken from a list. The class was not visited before, and nothing was aside. */
static inline void *pops_refilled(struct tcache *tcache, struct pops_class *state, void *block, uint32_t class_index,
                                  size_t size_bytes)
{
    uint8_t now = pops_magazines(tcache, class_index);
    if (HAK_UNLIKELY(now >= state->bin || now < state->uncounted_below))
        return pops_refilled_any(tcache, block, class_index, size_bytes);
    state->bin = now; /* the newest magazine is the bin's list, with what was set aside of it */
    return block;
}

/* Before an ordinary park that has a list: all of the credit is spent, and none is kept. */
static inline void pops_spend(struct pops_class *state)
{
    uint32_t credit = state->credit;
    state->credit = 0;
    state->left -= credit;
}

/* After it. */
static inline void pops_parked(struct tcache *tcache, struct pops_class *state, uint32_t class_index)
{
    uint32_t credit = tcache->credits[class_index];
    uint64_t left = state->left - 1; /* the freed block, the bin's only one */
    uint32_t now = pops_magazines(tcache, class_index);
    if (HAK_UNLIKELY(now != state->bin + 1u || left == 0)) {
        pops_parked_any(tcache, class_index, true);
        return;
    }
    state->bin = (uint8_t)now; /* the lists set aside are the magazine's */
    state->left = left;
    state->credit = credit;
    if (HAK_UNLIKELY(credit >= left)) pops_arm(tcache, state, class_index);
}

/* No memory for the sample of pops_refill_chosen: a block of the bin. NULL, and ENOMEM: there is none at all. */
void *pops_unsampled(uint32_t class_index);

/* A thread has just taken a heap, or its bins are about to be emptied. See base/hooks.h. */
void pops_watch(void *tcache, bool begins);

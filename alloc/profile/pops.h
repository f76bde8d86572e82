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
 * So a sample costs two slow paths, and each other slow path a subtraction, which is inline here. Only the thread that
 * holds the heap calls these; pops_watch also the child of fork, for threads that it does not have. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/tcache.h"
#include "profile/profile.h"

enum { POPS_LISTS_MAX = 8 }; /* magazines of a class, and the bin's list; there are fewer */

struct pops_class {
    uint64_t left; /* entries until the chosen one, that one included; at least 1 */
    uint32_t credit; /* the bin's at the end of the last slow path; it falls by one for each free since */
    uint32_t kept; /* of the credit: the law allows no more */
    /* The class's lists, by the order in which they were begun: its magazines, then the bin's. bin is the number of
     * magazines as the last slow path left it; if it differs, a visitor has given them back. */
    uint8_t bin;
    uint8_t uncounted_below; /* lists before this one were parked when counting began: their blocks are not counted */
    uint8_t uncounted_last; /* a bit for each list: in the last of those set aside only the first block is counted */
    /* For each list what was set aside, the newest first, linked by next_magazine. */
    struct block *aside[POPS_LISTS_MAX];
};

struct pops {
    uint64_t random;
    double means[CLASS_COUNT]; /* in blocks of the class */
    uint32_t generation; /* profile_generation when `left` was drawn */
    bool is_sampling; /* the unwinder may allocate */
    struct pops_class classes[CLASS_COUNT];
};

/* The general cases of the functions below. */
HAK_NOINLINE void *pops_refill_any(struct tcache *tcache, uint32_t class_index, size_t size_bytes);
HAK_NOINLINE void *pops_refilled_any(struct tcache *tcache, void *block, uint32_t class_index, size_t size_bytes);
HAK_NOINLINE bool pops_park_any(struct tcache *tcache, void *pointer, uint32_t class_index, bool *had_list);
HAK_NOINLINE void pops_parked_any(struct tcache *tcache, uint32_t class_index, bool had_list);

static inline uint8_t pops_magazines(const struct tcache *tcache, uint32_t class_index)
{
    return tcache->heap->parking[class_index].count;
}

/* NULL: the heap's counts have to be made first, or nothing is counted. */
static inline struct pops *pops_ready(const struct tcache *tcache)
{
    if (tcache->heap == NULL || tcache->state == THREAD_ENDED) return NULL;
    struct pops *pops = tcache->heap->pops;
    return pops != NULL && pops->generation == profile_generation() && !pops->is_sampling ? pops : NULL;
}

/* Makes the law hold, with all of the credit that there is. */
static inline void pops_arm(struct tcache *tcache, struct pops_class *state, uint32_t class_index)
{
    uint32_t credit = tcache->credits[class_index] + state->kept;
    state->credit = credit < state->left ? credit : (uint32_t)state->left - 1;
    state->kept = credit - state->credit;
    tcache->credits[class_index] = state->credit;
}

/* Before the ordinary refill: a block if the malloc is sampled. NULL: refill as usual, then call pops_refilled with the
 * block, which may return another one. */
static inline void *pops_refill(struct tcache *tcache, uint32_t class_index, size_t size_bytes)
{
    const struct pops *pops = pops_ready(tcache);
    if (HAK_LIKELY(pops != NULL)) {
        const struct pops_class *state = &pops->classes[class_index];
        uint32_t bin = state->bin;
        if (bin == pops_magazines(tcache, class_index) && bin < POPS_LISTS_MAX && state->aside[bin] == NULL &&
            class_index != CLASS_EMPTY)
            return NULL;
    }
    return pops_refill_any(tcache, class_index, size_bytes);
}

static inline void *pops_refilled(struct tcache *tcache, void *block, uint32_t class_index, size_t size_bytes)
{
    struct pops *pops = pops_ready(tcache);
    if (HAK_LIKELY(pops != NULL && block != NULL)) {
        struct pops_class *state = &pops->classes[class_index];
        uint8_t now = pops_magazines(tcache, class_index);
        if (now < state->bin && now >= state->uncounted_below && class_index != CLASS_EMPTY) {
            state->bin = now; /* the newest magazine is the bin's list, with what was set aside of it */
            return block;
        }
    }
    return pops_refilled_any(tcache, block, class_index, size_bytes);
}

/* What pops_park leaves for pops_parked. */
struct pops_parking {
    struct pops_class *state; /* not NULL: the ordinary case */
    bool had_list;
};

/* Before the ordinary park: true if the block is freed, since it is a chosen entry. False: park as usual, then call
 * pops_parked. */
static inline bool pops_park(struct tcache *tcache, void *pointer, uint32_t class_index, struct pops_parking *parking)
{
    struct pops *pops = pops_ready(tcache);
    parking->state = NULL;
    if (HAK_LIKELY(pops != NULL && class_index != CLASS_EMPTY)) {
        struct pops_class *state = &pops->classes[class_index];
        if (state->kept == 0 && state->bin == pops_magazines(tcache, class_index) &&
            tcache->heads[class_index] != NULL) {
            tcache->credits[class_index] = 0; /* it has wrapped */
            state->left -= state->credit; /* all of it is spent */
            state->credit = 0;
            parking->state = state;
            parking->had_list = true;
            return false;
        }
    }
    return pops_park_any(tcache, pointer, class_index, &parking->had_list);
}

static inline void pops_parked(struct tcache *tcache, uint32_t class_index, struct pops_parking parking)
{
    struct pops_class *state = parking.state;
    if (HAK_LIKELY(state != NULL && state->left > 1)) {
        uint8_t now = pops_magazines(tcache, class_index);
        if (now == state->bin + 1 && tcache->heads[class_index] != NULL) {
            state->bin = now; /* the lists set aside are the magazine's */
            state->left--; /* the freed block, the bin's only one */
            pops_arm(tcache, state, class_index);
            return;
        }
    }
    pops_parked_any(tcache, class_index, parking.had_list);
}

/* A thread has just taken a heap, or its bins are about to be emptied. See base/hooks.h. */
void pops_watch(void *tcache, bool begins);

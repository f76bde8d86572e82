/* pops.c: see pops.h. */
#include "profile/pops.h"

#include <errno.h>

#include "base/sizeclass.h"
#include "cache/thread.h"
#include "os/meta.h"
#include "profile/poisson.h"
#include "profile/profile.h"
#include "report/broken.h"
#include "slab/slab.h"

static inline uint64_t draw(struct pops *pops, uint32_t class_index)
{
    return (uint64_t)(int64_t)(poisson_distance(&profile_table, &pops->random) * pops->means[class_index]) + 1;
}

/* --- what is set aside ---------------------------------------------------------------------------------------- */

static inline void aside_push(struct pops_class *state, struct block *list)
{
    link_set(&list->next_magazine, state->aside[state->bin]);
    state->aside[state->bin] = list;
}

/* The newest list that was set aside of the bin's. */
static inline struct block *aside_pop(struct pops_class *state)
{
    struct block *list = state->aside[state->bin];
    state->aside[state->bin] = link_get(&list->next_magazine);
    return list;
}

/* The caller is busy, here and below. */
static void aside_give_back(struct pops_class *state, uint32_t of)
{
    for (struct block *list = state->aside[of], *next; list != NULL; list = next) {
        next = link_get(&list->next_magazine);
        slab_give_back_each(list);
    }
    state->aside[of] = NULL;
    state->uncounted_last &= (uint8_t)~(1u << of);
}

/* Drops all choices. */
static void aside_empty(struct tcache *tcache, struct pops_class *state, uint32_t class_index)
{
    for (uint32_t of = 0; of < POPS_LISTS_MAX; of++)
        if (state->aside[of] != NULL) aside_give_back(state, of);
    state->bin = pops_magazines(tcache, class_index);
    if (state->uncounted_below > state->bin) state->uncounted_below = state->bin;
}

/* A visitor has given back the magazines: so goes what was set aside of them. The bin's list stays, with its choices, and is
 * list `now`. */
static HAK_COLD void aside_visited(struct pops_class *state, uint8_t now)
{
    uint8_t bin = state->bin;
    for (uint32_t of = 0; of < POPS_LISTS_MAX; of++)
        if (of != bin && state->aside[of] != NULL) aside_give_back(state, of);
    bool is_uncounted = (state->uncounted_last >> bin & 1) != 0;
    struct block *lists = state->aside[bin];
    state->aside[bin] = NULL;
    state->aside[now] = lists;
    state->uncounted_last = (uint8_t)((uint32_t)is_uncounted << now);
    state->bin = now;
    if (state->uncounted_below > now) state->uncounted_below = now;
}

/* --- counting entries ----------------------------------------------------------------------------------------- */

/* Counts the frees of the hit path since then. A child that is forked in between must not count them twice: then `left`
 * could fall below 0. */
static void count_pushes(const struct tcache *tcache, struct pops_class *state, uint32_t class_index)
{
    uint32_t before = state->credit, now = tcache->credits[class_index];
    state->credit = now;
    atomic_signal_fence(memory_order_release);
    if (now < before) state->left -= before - now;
}

/* Counts a block. True if it is chosen. */
static bool count_one(struct pops *pops, struct pops_class *state, uint32_t class_index)
{
    if (HAK_LIKELY(--state->left != 0)) return false;
    state->left = draw(pops, class_index);
    return true;
}

/* Counts the blocks of the bin's list, which have just entered, and cuts it before a chosen one. Ends the process where
 * the list is longer than the heap has blocks. */
static void count_list(struct tcache *tcache, struct pops *pops, uint32_t class_index)
{
    struct pops_class *state = &pops->classes[class_index];
    size_t length_max = owner_used_bytes(&tcache->heap->owner) / sizeclass_bytes(class_index), length = 0;
    struct block **end = &tcache->heads[class_index], *block;
    while ((block = link_get(end)) != NULL && !count_one(pops, state, class_index)) {
        if (length++ > length_max) broken(BROKEN_bin, class_index, block);
        end = &block->next;
    }
    if (block == NULL) return;
    link_set(end, NULL);
    aside_push(state, block);
    state->uncounted_last |= (uint8_t)(1u << state->bin);
}

/* A block becomes the bin's first. */
static void enter(struct tcache *tcache, struct pops *pops, uint32_t class_index, struct block *block)
{
    struct pops_class *state = &pops->classes[class_index];
    bool is_chosen = count_one(pops, state, class_index);
    link_set(&block->next, tcache->heads[class_index]);
    tcache->heads[class_index] = is_chosen ? NULL : block;
    if (is_chosen) aside_push(state, block);
}

/* Nothing that the class has is counted yet. */
static void count_from_now(struct tcache *tcache, struct pops *pops, uint32_t class_index)
{
    struct pops_class *state = &pops->classes[class_index];
    aside_empty(tcache, state, class_index);
    state->uncounted_below = state->bin;
    count_list(tcache, pops, class_index);
    pops_arm(tcache, state, class_index);
}

/* The heap's counts are new, or of another mean. */
static HAK_COLD struct pops *pops_begin(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    struct pops *pops = heap->pops;
    if (pops == NULL) {
        pops = meta_alloc(sizeof *pops);
        if (pops == NULL) return NULL;
        pops->random = profile_seed_next();
        heap->pops = pops;
    }
    pops->generation = profile_generation();
    pops->sampling = (uint64_t)pops->generation << 32;
    tcache_busy_begin(tcache);
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        pops->means[class_index] = profile_mean_bytes() / sizeclass_bytes(class_index);
        pops->classes[class_index].left = draw(pops, class_index);
        count_from_now(tcache, pops, class_index);
    }
    tcache_busy_end(tcache);
    return pops;
}

/* NULL: nothing is counted. */
static struct pops *pops_of(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    if (heap == NULL || tcache->state == THREAD_ENDED) return NULL;
    struct pops *pops = heap->pops;
    if (pops == NULL || pops->generation != profile_generation()) pops = pops_begin(tcache);
    tcache->pops = tcache->is_sampling ? NULL : pops;
    return pops;
}

/* --- slow paths -------------------------------------------------------------------------------------------- */

/* No memory for the sample: a block of the bin. */
HAK_COLD void *pops_unsampled(uint32_t class_index)
{
    struct tcache *tcache = tcache_self();
    struct pops *pops = tcache->heap != NULL ? tcache->heap->pops : NULL; /* the unwinder may have freed */
    struct pops_class *state = pops != NULL ? &pops->classes[class_index] : NULL;
    if (state != NULL && tcache->heads[class_index] == NULL && state->aside[state->bin] != NULL)
        tcache->heads[class_index] = aside_pop(state);
    void *block = tcache_refill(tcache, class_index);
    if (block == NULL) errno = ENOMEM;
    return block;
}

/* pops_refill_chosen where all of the list but its first block is uncounted, or that block is chosen again. */
static HAK_COLD void *refill_chosen_any(size_t size_bytes, struct tcache *tcache, uint32_t class_index,
                                        struct pops_class *state)
{
    struct pops *pops = tcache->pops;
    tcache_busy_begin(tcache);
    struct block *list = aside_pop(state);
    uint32_t bin = state->bin;
    tcache->heads[class_index] = link_get(&list->next);
    if (state->aside[bin] == NULL && (state->uncounted_last >> bin & 1) != 0) {
        state->uncounted_last &= (uint8_t)~(1u << bin);
        count_list(tcache, pops, class_index);
    }
    enter(tcache, pops, class_index, list);
    pops_arm(tcache, state, class_index);
    tcache_busy_end(tcache);
    return profile_alloc_small(class_index, size_bytes);
}

void *pops_refill_chosen(size_t size_bytes, struct tcache *tcache, uint32_t class_index, struct pops_class *state)
{
    count_pushes(tcache, state, class_index);
    uint32_t bin = state->bin;
    struct block *list = state->aside[bin], *others = link_get(&list->next_magazine);
    bool is_last = others == NULL, is_uncounted = (state->uncounted_last >> bin & 1) != 0;
    uint64_t left = state->left - 1; /* the sample serves the malloc, so the chosen block enters once more */
    if (HAK_UNLIKELY((is_last && is_uncounted) || left == 0))
        return refill_chosen_any(size_bytes, tcache, class_index, state);
    state->aside[bin] = others;
    atomic_signal_fence(memory_order_release); /* as in pops_park_chosen */
    tcache->heads[class_index] = list;
    state->left = left;
    pops_arm(tcache, state, class_index);
    return profile_alloc_small(class_index, size_bytes);
}

void *pops_refill_any(struct tcache *tcache, uint32_t class_index, size_t size_bytes)
{
    if (HAK_UNLIKELY(tcache->heap == NULL) && tcache->state == THREAD_NEW && !thread_start(tcache)) return NULL;
    struct pops *pops = pops_of(tcache);
    if (pops == NULL || tcache->is_sampling) return NULL;
    if (class_index == CLASS_EMPTY) class_index = 1; /* whose bin may have blocks */
    struct pops_class *state = &pops->classes[class_index];
    if (pops_is_visited(tcache, state, class_index)) {
        tcache_busy_begin(tcache);
        aside_visited(state, pops_magazines(tcache, class_index));
        tcache_busy_end(tcache);
    }
    if (state->aside[state->bin] == NULL || tcache->heads[class_index] != NULL) return NULL;
    return pops_refill_chosen(size_bytes, tcache, class_index, state);
}

void *pops_refilled_any(struct tcache *tcache, void *block, uint32_t class_index, size_t size_bytes)
{
    struct pops *pops = block != NULL ? pops_of(tcache) : NULL;
    if (pops == NULL || tcache->is_sampling) return block;
    if (class_index == CLASS_EMPTY) class_index = 1;
    struct pops_class *state = &pops->classes[class_index];
    uint8_t now = pops_magazines(tcache, class_index), before = state->bin;
    state->bin = now; /* the bin's list is the newest magazine, or one of another's making */
    if (now < before && now >= state->uncounted_below) return block;
    if (now < state->uncounted_below) state->uncounted_below = now;
    tcache_busy_begin(tcache);
    count_pushes(tcache, state, class_index);
    bool is_chosen = count_one(pops, state, class_index);
    count_list(tcache, pops, class_index);
    if (is_chosen) {
        link_set(&((struct block *)block)->next, tcache->heads[class_index]);
        tcache->heads[class_index] = NULL;
        aside_push(state, block);
    }
    pops_arm(tcache, state, class_index);
    tcache_busy_end(tcache);
    return is_chosen ? pops_refill_chosen(size_bytes, tcache, class_index, state) : block;
}

static HAK_COLD void park_chosen_visited(void *pointer, struct tcache *tcache, uint32_t class_index,
                                         struct pops_class *state)
{
    tcache_busy_begin(tcache);
    aside_visited(state, pops_magazines(tcache, class_index));
    tcache_busy_end(tcache);
    pops_park_chosen(pointer, tcache, class_index, state);
}

void pops_park_chosen(void *pointer, struct tcache *tcache, uint32_t class_index, struct pops_class *state)
{
    if (pops_is_visited(tcache, state, class_index)) {
        park_chosen_visited(pointer, tcache, class_index, state);
        return;
    }
    struct block *block = pointer;
    uint32_t kept = state->kept - 1; /* without this free */
    link_set(&block->next, tcache->heads[class_index]);
    tcache->heads[class_index] = NULL;
    atomic_signal_fence(memory_order_release); /* a child that is forked here has the list nowhere, not twice */
    aside_push(state, block);
    uint64_t left = draw(tcache->pops, class_index); /* it was 1 */
    uint32_t credit = kept < left ? kept : (uint32_t)left - 1;
    state->left = left;
    state->credit = credit;
    state->kept = kept - credit;
    atomic_signal_fence(memory_order_release); /* a child that has the credit has `left` too */
    tcache->credits[class_index] = credit;
}

bool pops_park_any(struct tcache *tcache, void *pointer, uint32_t class_index, bool *had_list)
{
    tcache->credits[class_index] = 0; /* it has wrapped */
    *had_list = tcache->heads[class_index] != NULL;
    struct pops *pops = class_index != CLASS_EMPTY ? pops_of(tcache) : NULL;
    if (pops == NULL) return false;
    struct pops_class *state = &pops->classes[class_index];
    tcache_busy_begin(tcache);
    count_pushes(tcache, state, class_index);
    if (pops_is_visited(tcache, state, class_index)) aside_visited(state, pops_magazines(tcache, class_index));
    bool is_spent = state->kept == 0;
    if (!is_spent) { /* the law's limit: this is the chosen entry */
        state->kept--;
        enter(tcache, pops, class_index, pointer);
        pops_arm(tcache, state, class_index);
    } else if (!*had_list && state->aside[state->bin] != NULL && !heap_has_room(tcache->heap, class_index)) {
        /* The bin's list goes back to its slabs. If it stayed where its first block is chosen, blocks would be sampled
         * too often (0.8% in a loop of two mallocs and a free). */
        tcache->heads[class_index] = aside_pop(state);
        aside_give_back(state, state->bin);
        *had_list = true;
    }
    tcache_busy_end(tcache);
    return !is_spent;
}

void pops_parked_any(struct tcache *tcache, uint32_t class_index, bool had_list)
{
    struct pops *pops = class_index != CLASS_EMPTY ? pops_of(tcache) : NULL;
    if (pops == NULL) return;
    struct pops_class *state = &pops->classes[class_index];
    tcache_busy_begin(tcache);
    uint8_t now = pops_magazines(tcache, class_index);
    /* Fewer magazines than before, though the list was parked: a visitor came before that. (Where there are as many, the list
     * went back to its slabs. Or there was one, and a visitor came: then the choices go.) */
    if (had_list && now > 0 && now < state->bin) aside_visited(state, now - 1);
    if (now == state->bin + 1) {
        state->bin = now; /* the lists set aside are the magazine's */
    } else if (now != state->bin) {
        aside_empty(tcache, state, class_index);
    } else if (had_list && state->aside[now] != NULL) {
        aside_give_back(state, now); /* as the list */
    }
    struct block *block = tcache->heads[class_index]; /* the freed one, unless the caches were emptied */
    if (block != NULL) {
        tcache->heads[class_index] = NULL;
        enter(tcache, pops, class_index, block);
    }
    pops_arm(tcache, state, class_index);
    tcache_busy_end(tcache);
}

void pops_watch(void *of, bool begins)
{
    struct tcache *tcache = of;
    struct pops *pops = tcache->heap->pops;
    if (begins) {
        bool is_new = pops == NULL || pops->generation != profile_generation();
        if ((profile_generation() & 1) == 0 || pops_of(tcache) == NULL || is_new) return;
        for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++)
            count_from_now(tcache, pops, class_index);
        return;
    }
    tcache->pops = NULL; /* until the next slow path */
    if (pops == NULL) return;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        struct pops_class *state = &pops->classes[class_index];
        count_pushes(tcache, state, class_index);
        aside_empty(tcache, state, class_index);
        state->kept = 0;
    }
}

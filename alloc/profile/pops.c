/* pops.c: see pops.h. */
#include "profile/pops.h"

#include "base/sizeclass.h"
#include "cache/thread.h"
#include "os/meta.h"
#include "profile/poisson.h"
#include "profile/profile.h"
#include "report/broken.h"

static uint64_t draw(struct pops *pops, uint32_t class_index)
{
    return (uint64_t)(int64_t)poisson_distance(&pops->random, pops->means[class_index]) + 1;
}

/* --- what is set aside; the caller is busy ------------------------------------------------------------------ */

static void aside_push(struct pops_class *state, struct block *list, bool is_uncounted)
{
    link_set(&list->next_magazine, state->aside[state->bin]);
    state->aside[state->bin] = list;
    if (is_uncounted) state->uncounted_last |= (uint8_t)(1u << state->bin);
}

/* The newest list that was set aside of the bin's. */
static struct block *aside_pop(struct pops_class *state)
{
    struct block *list = state->aside[state->bin];
    state->aside[state->bin] = link_get(&list->next_magazine);
    return list;
}

static void aside_give_back(struct pops_class *state, uint32_t of)
{
    for (struct block *list = state->aside[of], *next; list != NULL; list = next) {
        next = link_get(&list->next_magazine);
        list_give_back(list);
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

/* --- counting entries; the caller is busy --------------------------------------------------------------------- */

/* Counts the frees of the hit path since then. */
static void count_pushes(const struct tcache *tcache, struct pops_class *state, uint32_t class_index)
{
    uint32_t now = tcache->credits[class_index];
    if (now < state->credit) state->left -= state->credit - now;
    state->credit = now;
}

/* Counts a block. True if it is chosen. */
static bool count_one(struct pops *pops, struct pops_class *state, uint32_t class_index)
{
    if (--state->left != 0) return false;
    state->left = draw(pops, class_index);
    return state->bin < POPS_LISTS_MAX;
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
    aside_push(state, block, true);
}

/* A block becomes the bin's first. */
static void enter(struct tcache *tcache, struct pops *pops, uint32_t class_index, struct block *block)
{
    struct pops_class *state = &pops->classes[class_index];
    bool is_chosen = count_one(pops, state, class_index);
    link_set(&block->next, tcache->heads[class_index]);
    tcache->heads[class_index] = is_chosen ? NULL : block;
    if (is_chosen) aside_push(state, block, false);
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
static inline struct pops *pops_of(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    if (HAK_UNLIKELY(heap == NULL || tcache->state == THREAD_ENDED)) return NULL;
    struct pops *pops = heap->pops;
    if (HAK_LIKELY(pops != NULL && pops->generation == profile_generation())) return pops;
    return pops_begin(tcache);
}

/* --- slow paths -------------------------------------------------------------------------------------------- */

/* Samples the malloc that pops a chosen entry. NULL: there is no memory for the sample. */
static struct block *sample(struct pops *pops, uint32_t class_index, size_t size_bytes)
{
    uint32_t block_bytes = sizeclass_bytes(class_index);
    pops->is_sampling = true;
    void *block = profile_alloc_small(class_index, size_bytes < block_bytes ? size_bytes : block_bytes);
    pops->is_sampling = false;
    return block;
}

void *pops_refill_any(struct tcache *tcache, uint32_t class_index, size_t size_bytes)
{
    if (HAK_UNLIKELY(tcache->heap == NULL) && tcache->state == THREAD_NEW && !thread_start(tcache)) return NULL;
    struct pops *pops = pops_of(tcache);
    if (HAK_UNLIKELY(pops == NULL || pops->is_sampling)) return NULL;
    if (class_index == CLASS_EMPTY) class_index = 1; /* whose bin may have blocks */
    struct pops_class *state = &pops->classes[class_index];
    if (HAK_UNLIKELY(state->bin != pops_magazines(tcache, class_index))) {
        tcache_busy_begin(tcache);
        aside_empty(tcache, state, class_index);
        tcache_busy_end(tcache);
    }
    uint32_t bin = state->bin;
    if (bin >= POPS_LISTS_MAX || state->aside[bin] == NULL || tcache->heads[class_index] != NULL) return NULL;

    struct block *sampled = sample(pops, class_index, size_bytes);
    tcache_busy_begin(tcache);
    count_pushes(tcache, state, class_index);
    struct block *list = aside_pop(state);
    tcache->heads[class_index] = link_get(&list->next);
    if (state->aside[bin] == NULL && (state->uncounted_last >> bin & 1) != 0) {
        state->uncounted_last &= (uint8_t)~(1u << bin);
        count_list(tcache, pops, class_index);
    }
    if (sampled != NULL) enter(tcache, pops, class_index, list);
    pops_arm(tcache, state, class_index);
    tcache_busy_end(tcache);
    return sampled != NULL ? sampled : list;
}

void *pops_refilled_any(struct tcache *tcache, void *block, uint32_t class_index, size_t size_bytes)
{
    struct pops *pops = block != NULL ? pops_of(tcache) : NULL;
    if (HAK_UNLIKELY(pops == NULL || pops->is_sampling)) return block;
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
    pops_arm(tcache, state, class_index);
    tcache_busy_end(tcache);
    struct block *sampled = is_chosen ? sample(pops, class_index, size_bytes) : NULL;
    if (sampled == NULL) return block;
    tcache_busy_begin(tcache);
    enter(tcache, pops, class_index, block);
    pops_arm(tcache, state, class_index);
    tcache_busy_end(tcache);
    return sampled;
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
    if (HAK_UNLIKELY(state->bin != pops_magazines(tcache, class_index))) aside_empty(tcache, state, class_index);
    bool is_spent = state->kept == 0;
    if (!is_spent) { /* the law's limit: this is the chosen entry */
        state->kept--;
        enter(tcache, pops, class_index, pointer);
        pops_arm(tcache, state, class_index);
    } else if (!*had_list && state->bin < POPS_LISTS_MAX && state->aside[state->bin] != NULL &&
               !heap_has_room(tcache->heap, class_index)) {
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
    if (now == state->bin + 1) {
        state->bin = now; /* the lists set aside are the magazine's */
    } else if (now != state->bin) {
        aside_empty(tcache, state, class_index);
    } else if (had_list && now < POPS_LISTS_MAX && state->aside[now] != NULL) {
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
    if (pops == NULL) return;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        struct pops_class *state = &pops->classes[class_index];
        count_pushes(tcache, state, class_index);
        aside_empty(tcache, state, class_index);
        state->kept = 0;
    }
}

/* sampler.c: see sampler.h. */
#include "profile/sampler.h"

#include <errno.h>

#include "base/bits.h"
#include "base/hooks.h"
#include "base/sizeclass.h"
#include "guard/guard.h"
#include "os/lock.h"
#include "os/meta.h"
#include "profile/profile.h"
#include "report/broken.h"
#include "slab/slab.h"
#include "superslab/pagemap.h"

/* --- who samples ------------------------------------------------------------------------------------------ */

static const uint64_t GUARD_MASK = UINT32_MAX, PROFILE_MASK = 1ull << 63;

_Atomic(uint64_t) sampling;
struct poisson_table sampler_table;

/* Replaces the part of the word that the mask has. */
static void sampling_change(uint64_t mask, uint64_t part)
{
    static _Atomic(uint32_t) changes;
    uint64_t number = ((uint64_t)atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed) + 1) << 32;
    uint64_t word = atomic_load_explicit(&sampling, memory_order_relaxed), now;
    /* relaxed: the function learns who samples below. */
    atomic_store_explicit(&hooks.cache_watch, sampler_watch, memory_order_relaxed);
    do {
        now = (word & (GUARD_MASK | PROFILE_MASK) & ~mask) | part;
        if (now != 0) now |= number & ~PROFILE_MASK;
        /* release: pairs with the acquire in sampling_is_on. */
    } while (!atomic_compare_exchange_weak_explicit(&sampling, &word, now, memory_order_release, memory_order_relaxed));
}

void sampling_profile_set(bool on)
{
    if (on && sampler_table.cells[1].at == 0) poisson_table_make(&sampler_table);
    sampling_change(PROFILE_MASK, on ? PROFILE_MASK : 0);
}

void sampling_guard_set(uint32_t rate)
{
    lock_acquire(LOCK_PROFILE);
    if (sampler_table.cells[1].at == 0) poisson_table_make(&sampler_table);
    sampling_change(GUARD_MASK, rate);
    lock_release(LOCK_PROFILE);
}

HAK_INLINE uint64_t draw(struct sampler *sampler, uint32_t class_index)
{
    return poisson_distance(&sampler_table, &sampler->random) / sampler->rates[class_index] + 1;
}

/* --- what is set aside ---------------------------------------------------------------------------------------- */

static inline void aside_push(struct sampler_class *state, struct block *list)
{
    link_set(&list->next_magazine, state->aside[state->bin]);
    state->aside[state->bin] = list;
}

/* The newest list that was set aside of the bin's. */
static inline struct block *aside_pop(struct sampler_class *state)
{
    struct block *list = state->aside[state->bin];
    state->aside[state->bin] = link_get(&list->next_magazine);
    return list;
}

/* The caller is busy, here and below. */
static void aside_give_back(struct sampler_class *state, uint32_t of)
{
    for (struct block *list = state->aside[of], *next; list != NULL; list = next) {
        next = link_get(&list->next_magazine);
        slab_give_back_each(list);
    }
    state->aside[of] = NULL;
    state->uncounted_last &= (uint8_t)~(1u << of);
}

/* Drops all choices. */
static void aside_empty(struct tcache *tcache, struct sampler_class *state, uint32_t class_index)
{
    for (uint32_t of = 0; of < SAMPLER_LISTS_MAX; of++)
        if (state->aside[of] != NULL) aside_give_back(state, of);
    state->bin = sampler_magazines(tcache, class_index);
    if (state->uncounted_below > state->bin) state->uncounted_below = state->bin;
}

/* A visitor has given back the magazines: so goes what was set aside of them. The bin's list stays, with its choices, and is
 * list `now`. */
static HAK_COLD void aside_visited(struct sampler_class *state, uint8_t now)
{
    uint8_t bin = state->bin;
    for (uint32_t of = 0; of < SAMPLER_LISTS_MAX; of++)
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
static void count_pushes(struct tcache *tcache, struct sampler_class *state, uint32_t class_index)
{
    uint32_t before = state->credit, now = tcache->credits[class_index];
    state->credit = now;
    atomic_signal_fence(memory_order_release);
    state->left -= sampler_spent(tcache, class_index, before, now);
}

/* Counts a block. True if it is chosen. */
static bool count_one(struct sampler *sampler, struct sampler_class *state, uint32_t class_index)
{
    if (HAK_LIKELY(--state->left != 0)) return false;
    state->left = draw(sampler, class_index);
    return true;
}

/* Counts the blocks of the bin's list, which have just entered, and cuts it before a chosen one. Ends the process where
 * the list is longer than the heap has blocks. */
static void count_list(struct tcache *tcache, struct sampler *sampler, uint32_t class_index)
{
    struct sampler_class *state = &sampler->classes[class_index];
    size_t length_max = owner_used_bytes(&tcache->heap->owner) / sizeclass_bytes(class_index), length = 0;
    struct block **end = &tcache->heads[class_index], *block;
    while ((block = link_get(end)) != NULL && !count_one(sampler, state, class_index)) {
        if (++length > length_max) broken(BROKEN_bin, class_index, block);
        end = &block->next;
    }
    if (block == NULL) return;
    link_set(end, NULL);
    aside_push(state, block);
    state->uncounted_last |= (uint8_t)(1u << state->bin);
}

/* A block becomes the bin's first. */
static void enter(struct tcache *tcache, struct sampler *sampler, uint32_t class_index, struct block *block)
{
    struct sampler_class *state = &sampler->classes[class_index];
    bool is_chosen = count_one(sampler, state, class_index);
    link_set(&block->next, tcache->heads[class_index]);
    tcache->heads[class_index] = is_chosen ? NULL : block;
    if (is_chosen) aside_push(state, block);
}

/* Nothing that the class has is counted yet. */
static void count_from_now(struct tcache *tcache, struct sampler *sampler, uint32_t class_index)
{
    struct sampler_class *state = &sampler->classes[class_index];
    aside_empty(tcache, state, class_index);
    state->uncounted_below = state->bin;
    count_list(tcache, sampler, class_index);
    sampler_arm(tcache, state, class_index);
}

static void class_begin(struct sampler *sampler, uint32_t class_index)
{
    uint32_t rate = (uint32_t)sampler->sampling;
    const uint32_t bytes = sizeclass_bytes(class_index);
    uint64_t guards = 0, profiles = 0;
    if (rate != 0 && bytes <= GUARD_BYTES_MAX) guards = poisson_one_in(rate);
    if ((sampler->sampling & PROFILE_MASK) != 0) profiles = poisson_ratio(bytes, profile_mean_bytes());
    sampler->rates[class_index] = guards + profiles;
    sampler->guard_rates[class_index] = guards;
    sampler->classes[class_index].left = guards + profiles > 0 ? draw(sampler, class_index) : 1ull << 62; /* never */
}

/* The heap is new to this thread, or the counts are, or who samples has changed. NULL: there is no memory for counts. */
static HAK_COLD struct sampler *sampler_begin(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    struct sampler *sampler = heap->sampler;
    if (sampler == NULL) {
        sampler = meta_alloc(sizeof *sampler);
        if (sampler == NULL) return NULL;
        sampler->random = profile_seed_next();
        heap->sampler = sampler;
    }
    uint64_t before = sampler->sampling;
    /* acquire: as in sampling_is_on. The word may have changed since, and it may be 0. */
    sampler->sampling = atomic_load_explicit(&sampling, memory_order_acquire);
    if ((sampler->sampling & PROFILE_MASK) != 0) heap->is_profiled = true;
    tcache_busy_begin(tcache);
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        if (sampler->sampling != before || sampler->classes[class_index].left == 0) class_begin(sampler, class_index);
        count_from_now(tcache, sampler, class_index);
    }
    tcache_busy_end(tcache);
    return sampler;
}

/* NULL: nothing is counted. */
static struct sampler *sampler_of(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    if (heap == NULL || tcache->state == THREAD_ENDED) return NULL;
    struct sampler *sampler = heap->sampler;
    if (sampler == NULL || sampler->sampling != sampling_now()) sampler = sampler_begin(tcache);
    tcache->sampler = tcache->is_sampling ? NULL : sampler;
    return tcache->sampler;
}

/* --- slow paths -------------------------------------------------------------------------------------------- */

/* A visitor may have given back the magazines. */
static HAK_COLD void visit_see(struct tcache *tcache, struct sampler_class *state, uint32_t class_index)
{
    tcache_busy_begin(tcache);
    uint8_t now = sampler_magazines(tcache, class_index);
    if (state->bin != now) aside_visited(state, now);
    tcache_busy_end(tcache);
}

struct sampler_class *sampler_update(struct tcache *tcache, uint32_t class_index)
{
    struct sampler *sampler = sampler_of(tcache);
    if (sampler == NULL) return NULL;
    visit_see(tcache, &sampler->classes[class_index], class_index);
    return &sampler->classes[class_index];
}

/* The newest list that was set aside becomes the bin's, and its first block enters once more. */
static void aside_take(struct tcache *tcache, struct sampler *sampler, uint32_t class_index)
{
    struct sampler_class *state = &sampler->classes[class_index];
    tcache_busy_begin(tcache);
    count_pushes(tcache, state, class_index);
    struct block *list = aside_pop(state);
    uint8_t bit = (uint8_t)(1u << state->bin);
    tcache->heads[class_index] = link_get(&list->next);
    if (state->aside[state->bin] == NULL && (state->uncounted_last & bit) != 0) {
        state->uncounted_last &= (uint8_t)~bit;
        count_list(tcache, sampler, class_index);
    }
    enter(tcache, sampler, class_index, list);
    sampler_arm(tcache, state, class_index);
    tcache_busy_end(tcache);
}

HAK_COLD void *sampler_unsampled(uint32_t class_index)
{
    struct tcache *tcache = tcache_self();
    struct sampler *sampler = tcache->heap != NULL ? tcache->heap->sampler : NULL; /* the unwinder may have freed */
    struct sampler_class *state = sampler != NULL ? &sampler->classes[class_index] : NULL;
    tcache_busy_begin(tcache);
    if (state != NULL && tcache->heads[class_index] == NULL && state->aside[state->bin] != NULL)
        tcache->heads[class_index] = aside_pop(state);
    tcache_busy_end(tcache);
    void *block = tcache_refill(tcache, class_index);
    if (block == NULL) errno = ENOMEM;
    return block;
}

static HAK_COLD void *serve_guarded(size_t size_bytes, struct tcache *tcache, uint32_t class_index)
{
    if (size_bytes == 0 || size_bytes > GUARD_BYTES_MAX) return sampler_unsampled(class_index);
    tcache->is_sampling = true; /* the unwinder may allocate */
    tcache->sampler = NULL; /* until the next slow path after this one */
    void *block = guard_alloc(size_bytes);
    tcache->is_sampling = false;
    return block != NULL ? block : sampler_unsampled(class_index);
}

/* Of a chosen block. The profile's share is as without guards, as its weights say; the guard takes the others. */
static bool is_for_guard(struct sampler *sampler, uint32_t class_index)
{
    const uint64_t guards = sampler->guard_rates[class_index], both = sampler->rates[class_index];
    if (guards == 0 || guards == both) return guards != 0;
    const uint64_t chosen = poisson_probability(both), profiled = poisson_probability(both - guards);
    return poisson_times(bits_random(&sampler->random), chosen, 64) >= profiled;
}

void *sampler_serve(size_t size_bytes, struct tcache *tcache, uint32_t class_index)
{
    struct sampler *sampler = tcache->sampler;
    aside_take(tcache, sampler, class_index);
    if (is_for_guard(sampler, class_index)) return serve_guarded(size_bytes, tcache, class_index);
    return profile_alloc_small(class_index, size_bytes);
}

void *sampler_refilled_any(size_t size_bytes, struct tcache *tcache, uint32_t class_index, void *block)
{
    struct sampler *sampler = block != NULL ? sampler_of(tcache) : NULL;
    if (sampler == NULL) return block;
    if (tag_slab_class(pagemap_tag(block)) != class_index) return block; /* borrowed: no entry of this class */
    struct sampler_class *state = &sampler->classes[class_index];
    uint8_t now = sampler_magazines(tcache, class_index), before = state->bin;
    state->bin = now; /* the bin's list is the newest magazine, or one of another's making */
    if (now < before && now >= state->uncounted_below) return block;
    if (now < state->uncounted_below) state->uncounted_below = now;
    tcache_busy_begin(tcache);
    count_pushes(tcache, state, class_index);
    bool is_chosen = count_one(sampler, state, class_index);
    count_list(tcache, sampler, class_index);
    if (is_chosen) {
        link_set(&((struct block *)block)->next, tcache->heads[class_index]);
        tcache->heads[class_index] = NULL;
        aside_push(state, block);
    }
    sampler_arm(tcache, state, class_index);
    tcache_busy_end(tcache);
    return is_chosen ? sampler_serve(size_bytes, tcache, class_index) : block;
}

void sampler_park_chosen(void *pointer, struct tcache *tcache, uint32_t class_index)
{
    struct sampler *sampler = tcache->heap->sampler;
    struct sampler_class *state = &sampler->classes[class_index];
    struct block *block = pointer;
    link_set(&block->next, tcache->heads[class_index]);
    tcache->heads[class_index] = NULL;
    state->credit = 0; /* a child with the new `left` must not count these frees again */
    atomic_signal_fence(memory_order_release); /* a child that is forked here has the list nowhere, not twice */
    aside_push(state, block);
    state->left = draw(sampler, class_index); /* it was 1 */
    atomic_signal_fence(memory_order_release); /* a child that has the credit has `left` too */
    tcache->credits[class_index] = 0; /* it has wrapped */
    state->kept--; /* by this free */
    sampler_arm(tcache, state, class_index);
}

bool sampler_parks_any(void *pointer, struct tcache *tcache, uint32_t class_index)
{
    tcache->credits[class_index] = 0; /* it has wrapped */
    struct sampler *sampler = class_index != CLASS_EMPTY ? sampler_of(tcache) : NULL;
    if (sampler == NULL) return false;
    struct sampler_class *state = &sampler->classes[class_index];
    count_pushes(tcache, state, class_index);
    visit_see(tcache, state, class_index);
    if (state->kept != 0) {
        sampler_park_chosen(pointer, tcache, class_index);
        return true;
    }
    tcache_busy_begin(tcache);
    if (tcache->heads[class_index] == NULL && state->aside[state->bin] != NULL &&
        !heap_has_room(tcache->heap, class_index)) {
        /* The bin's list goes back to its slabs. If it stayed where its first block is chosen, blocks would be sampled
         * too often (0.8% in a loop of two mallocs and a free). */
        tcache->heads[class_index] = aside_pop(state);
        aside_give_back(state, state->bin);
    }
    tcache_busy_end(tcache);
    return false;
}

void sampler_parked_any(struct tcache *tcache, uint32_t class_index, bool had_list)
{
    struct sampler *sampler = class_index != CLASS_EMPTY ? sampler_of(tcache) : NULL;
    if (sampler == NULL) return;
    struct sampler_class *state = &sampler->classes[class_index];
    tcache_busy_begin(tcache);
    uint8_t now = sampler_magazines(tcache, class_index);
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
        enter(tcache, sampler, class_index, block);
    }
    sampler_arm(tcache, state, class_index);
    tcache_busy_end(tcache);
}

void sampler_watch(void *of, bool begins)
{
    struct tcache *tcache = of;
    struct sampler *sampler = tcache->heap->sampler;
    tcache->sampler = NULL; /* until the next slow path */
    if (begins) {
        if (sampling_now() != 0 && tcache->state != THREAD_ENDED) sampler_begin(tcache);
        return;
    }
    if (sampler == NULL) return;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        struct sampler_class *state = &sampler->classes[class_index];
        count_pushes(tcache, state, class_index);
        aside_empty(tcache, state, class_index);
        state->kept = 0;
    }
}

/* guard_sample.c: see guard_sample.h. */
#include "guard/guard_sample.h"

#include "base/bits.h"
#include "base/config.h"
#include "base/sizeclass.h"
#include "guard/guard.h"
#include "report/broken.h"

enum {
    DUE_MAX = 64, /* samples that may be due at one time; where N is small, */
    LATE_MIN = 4096, /* the samples of this many allocations */
};

struct sampler {
    int64_t left;    /* allocations until the next sample; below 0: late by that many */
    uint64_t random; /* 0: the thread has not drawn yet */
    bool is_sampling; /* set during guard_alloc, whose unwinder may allocate */
};

static HAK_TLS struct sampler sampler;
static _Atomic(uint64_t) samplers;

static struct sampler *sampler_self(void)
{
    return &HAK_MINE(sampler);
}

_Atomic(uint64_t) sampling;

/* Replaces the half of the word that the mask does not keep. */
static void sampling_set(uint64_t kept_mask, uint64_t half)
{
    uint64_t word = atomic_load_explicit(&sampling, memory_order_relaxed);
    /* release: pairs with the acquire in guard_sample_is_on. */
    while (!atomic_compare_exchange_weak_explicit(&sampling, &word, (word & kept_mask) | half, memory_order_release,
                                                  memory_order_relaxed)) {}
}

void guard_sample_set(uint32_t rate)
{
    sampling_set((uint64_t)UINT32_MAX << 32, rate);
}

void sampling_profile_set(uint32_t generation)
{
    sampling_set(UINT32_MAX, (uint64_t)generation << 32);
}

/* Each thread's seed is its number in the order of first draws, so a run that repeats its schedule repeats its samples. */
static int64_t draw(uint32_t rate)
{
    struct sampler *mine = sampler_self();
    if (mine->random == 0)
        mine->random = (atomic_fetch_add_explicit(&samplers, 1, memory_order_relaxed) + 1) * 0x9e3779b97f4a7c15u;
    return (int64_t)((bits_random(&mine->random) >> 32) % (2 * (uint64_t)rate)) + 1;
}

static void count(uint32_t allocations)
{
    struct sampler *mine = sampler_self();
    uint32_t rate = guard_sample_rate_now();
    if (rate == 0) return;
    if (mine->random == 0) mine->left = draw(rate);
    mine->left -= allocations;
    int64_t least = -(int64_t)rate * DUE_MAX;
    if (least > -LATE_MIN) least = -LATE_MIN;
    if (mine->left < least) mine->left = least;
}

static bool is_due(const struct tcache *tcache)
{
    struct sampler *mine = sampler_self();
    return mine->random != 0 && mine->left <= 0 && !mine->is_sampling && tcache->heap != NULL;
}

void *guard_sample_alloc(struct tcache *tcache, size_t size_bytes)
{
    struct sampler *mine = sampler_self();
    if (!is_due(tcache) || size_bytes == 0 || size_bytes > GUARD_BYTES_MAX) return NULL;
    uint32_t rate = guard_sample_rate_now();
    if (rate == 0) return NULL;
    mine->is_sampling = true;
    void *block = guard_alloc(size_bytes);
    mine->is_sampling = false;
    /* If no slot is free, the samples that are due are dropped. */
    mine->left = block != NULL ? mine->left + draw(rate) : draw(rate);
    return block;
}

struct guard_visit guard_visit_begin(struct tcache *tcache, uint32_t class_index)
{
    struct guard_visit visit = {.bin_was_empty = tcache->heads[class_index] == NULL};
    visit.counts = class_index != CLASS_EMPTY && sizeclass_bytes(class_index) <= GUARD_BYTES_MAX;
    if (tcache->heap == NULL) return visit;
    tcache_busy_begin(tcache); /* another thread may be giving back parked lists */
    visit.parked = tcache->heap->parked;
    visit.credit = heap_credit_now(tcache->heap, class_index);
    tcache_busy_end(tcache);
    return visit;
}

/* If another thread has given back parked lists meanwhile, a list counts as one that was parked: the credit instead of
 * its length. */
void guard_visit_refilled(struct guard_visit visit, struct tcache *tcache, uint32_t class_index)
{
    if (!visit.counts || !visit.bin_was_empty) return;
    tcache_busy_begin(tcache);
    bool took_parked = tcache->heap != NULL && tcache->heap->parked < visit.parked;
    tcache_busy_end(tcache);
    if (took_parked) {
        count(visit.credit);
        return;
    }
    /* Bound of the walk: the bin's blocks are among the heap's blocks in use. */
    size_t length_max =
        tcache->heap != NULL ? owner_used_bytes(&tcache->heap->owner) / sizeclass_bytes(class_index) : 0;
    uint32_t length = 1; /* the block that malloc returns */
    for (const struct block *block = tcache->heads[class_index]; block != NULL; block = link_get(&block->next))
        if (length++ >= length_max) broken(BROKEN_bin, class_index, block);
    count(length);
}

void guard_visit_parked(struct guard_visit visit, struct tcache *tcache, uint32_t class_index)
{
    if (!visit.counts || !visit.bin_was_empty) return;
    count(visit.credit);
    if (is_due(tcache)) tcache_empty_bin(tcache, class_index);
}

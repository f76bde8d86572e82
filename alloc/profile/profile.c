/* profile.c: see profile.h. All that a sample changes stands under the PROFILE lock. In a child that was forked while another
 * thread held it, each list is whole, since each is changed by one store; at most one sample is lost. */
#include "profile/profile.h"

#include <errno.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/hooks.h"
#include "base/sizeclass.h"
#include "os/lock.h"
#include "os/meta.h"
#include "report/modules.h"
#include "os/os.h"
#include "os/unwind.h"
#include "profile/poisson.h"
#include "profile/sampler.h"
#include "profile/sites.h"
#include "profile/stacks.h"
#include "report/writer.h"
#include "superslab/pagemap.h"
#include "superslab/purge.h"

enum {
    SAMPLE_BUCKETS_LOG2 = 16,
    SLOT_LOG2_MIN = 5,
    SLOT_LOG2_MAX = 15,
};

static_assert(SMALL_BYTES_MAX == 1 << SLOT_LOG2_MAX, "each class has a slot");

/* So that what a sample counts for fits 63 bits, in 1/65536 of a block and in bytes. */
static const uint64_t PROFILE_MEAN_BYTES_MAX = 1ull << 40;

/* A sampled block. Live: in its address's bucket. Else: in the list of free slots of its size, or of free samples. */
struct sample {
    struct sample *next;
    uintptr_t address;
    struct profile_site *site;
    uint64_t objects_16, bytes, wasted_bytes;
    struct class_terms *terms;
};

_Atomic(uint32_t) profile_was_started;
static _Atomic(uint32_t) generation; /* odd: on */
static _Atomic(uint64_t) mean, seed, seeds, used_bytes, slot_bytes, step;
static _Atomic(uint64_t) step_next = UINT64_MAX; /* that many bytes in use: none */

static _Atomic(struct sample *) *samples; /* buckets; made at the first start */
static struct sample *free_samples, *free_slots[SLOT_LOG2_MAX + 1];
static struct {
    char *next;
    size_t left_bytes;
} chunks[SLOT_LOG2_MAX + 1];
static char *range; /* where the next chunk will be */
static size_t range_left_bytes;

/* What the samples of a class have in common; the first is that of runs and huge blocks. */
static struct class_terms {
    uint64_t weight; /* how many blocks one counts for, at this mean; see times */
    uint64_t objects_16, block_bytes; /* the same in units of 1/65536, and in bytes of whole blocks */
    size_t size_bytes;
    struct sample **free_list;
    _Atomic(uint64_t) live_objects_16, live_wasted_bytes;
} class_terms[CLASS_COUNT] = {{.free_list = &free_samples}};

static uint64_t large_random;
static uint64_t large_left; /* bytes of runs and huge blocks until the next chosen one, that one included */
static uint32_t large_generation;

static uint64_t relaxed(const _Atomic(uint64_t) *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void add(_Atomic(uint64_t) *word, uint64_t more)
{
    atomic_store_explicit(word, relaxed(word) + more, memory_order_relaxed); /* under the lock */
}

uint32_t profile_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

uint64_t profile_mean_bytes(void)
{
    return relaxed(&mean);
}

uint64_t profile_seed_next(void)
{
    uint64_t number = atomic_fetch_add_explicit(&seeds, 1, memory_order_relaxed) + 1;
    uint64_t mixed = bits_mix((relaxed(&seed) + number) * 0x9e3779b97f4a7c15u); /* SplitMix64 */
    return mixed != 0 ? mixed : 1;
}

uint64_t profile_used_bytes(void)
{
    return relaxed(&used_bytes);
}

uint64_t profile_slot_bytes(void)
{
    return relaxed(&slot_bytes);
}

struct profile_class_figures profile_class_figures(uint32_t class_index)
{
    const struct class_terms *terms = &class_terms[class_index];
    return (struct profile_class_figures){(relaxed(&terms->live_objects_16) + 32768) >> 16,
                                          relaxed(&terms->live_wasted_bytes)};
}

/* --- samples ------------------------------------------------------------------------------------------------ */

static _Atomic(struct sample *) *bucket_of(uintptr_t address)
{
    return &samples[address * 0x9e3779b97f4a7c15u >> (64 - SAMPLE_BUCKETS_LOG2)];
}

static struct sample *first_in(_Atomic(struct sample *) *bucket)
{
    return atomic_load_explicit(bucket, memory_order_relaxed);
}

/* Weights are multiples of 2^-24. A block of 16 bytes is chosen with a probability of 2^-36 at least. */
enum { WEIGHT_LOG2 = 24 };

static uint64_t weight_of(uint64_t chosen_bytes)
{
    const uint64_t probability = poisson_probability(poisson_ratio(chosen_bytes, profile_mean_bytes()));
    return poisson_divide(POISSON_ONE, probability, WEIGHT_LOG2);
}

static uint64_t times(uint64_t weight, uint64_t value)
{
    return (uint64_t)(((unsigned __int128)weight * value + (1u << WEIGHT_LOG2) / 2) >> WEIGHT_LOG2);
}

/* Has a profile written, unless another thread has for the same step. `next` is the step_next that `used` bytes have reached;
 * step_next only grows. */
static HAK_COLD void step_dump(uint64_t used, uint64_t next)
{
    if (!atomic_compare_exchange_strong_explicit(&step_next, &next, used + relaxed(&step), memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    pool_tick_force();
    writer_want(STEP_DUE);
}

/* Ends the caller's hold of the lock. block_bytes: of the class's blocks, as many as the sample counts for. */
static inline void sample_enter(struct sample *sample, struct profile_site *site, struct class_terms *terms,
                                uint64_t objects_16, uint64_t bytes, uint64_t block_bytes)
{
    uint64_t wasted_bytes = block_bytes - bytes, used = relaxed(&used_bytes) + bytes;
    sample->site = site;
    sample->objects_16 = objects_16;
    sample->bytes = bytes;
    sample->wasted_bytes = wasted_bytes;
    sample->terms = terms;
    add(&slot_bytes, terms->size_bytes); /* 0 for runs and huge blocks */
    add(&terms->live_objects_16, objects_16);
    add(&terms->live_wasted_bytes, wasted_bytes);
    add(&site->objects_16, objects_16);
    add(&site->bytes, bytes);
    atomic_store_explicit(&used_bytes, used, memory_order_relaxed);
    _Atomic(struct sample *) *bucket = bucket_of(sample->address);
    sample->next = first_in(bucket);
    atomic_store_explicit(bucket, sample, memory_order_relaxed);
    lock_release(LOCK_PROFILE);
    uint64_t next = relaxed(&step_next);
    if (HAK_UNLIKELY(used >= next)) step_dump(used, next);
}

/* Takes the sample of this address out, if there is one, and counts its block as freed. */
static void sample_leave(uintptr_t address)
{
    _Atomic(struct sample *) *bucket = bucket_of(address);
    struct sample *before = NULL, *sample = first_in(bucket);
    for (; sample != NULL && sample->address != address; sample = sample->next) before = sample;
    if (HAK_UNLIKELY(sample == NULL)) return;
    if (HAK_UNLIKELY(before != NULL)) {
        before->next = sample->next;
    } else {
        atomic_store_explicit(bucket, sample->next, memory_order_relaxed);
    }
    struct profile_site *site = sample->site;
    struct class_terms *terms = sample->terms;
    struct sample **free_list = terms->free_list;
    uint64_t objects_16 = sample->objects_16, bytes = sample->bytes, wasted_bytes = sample->wasted_bytes;
    add(&site->freed_objects_16, objects_16);
    add(&site->freed_bytes, bytes);
    add(&used_bytes, -bytes);
    add(&slot_bytes, -(uint64_t)terms->size_bytes);
    add(&terms->live_objects_16, -objects_16);
    add(&terms->live_wasted_bytes, -wasted_bytes);
    sample->next = *free_list;
    *free_list = sample;
}

static struct sample *list_pop(struct sample **list)
{
    struct sample *sample = *list;
    if (sample == NULL) return meta_alloc(sizeof *sample);
    *list = sample->next;
    return sample;
}

/* --- slots ---------------------------------------------------------------------------------------------------- */

static char *chunk_make(void)
{
    if (range_left_bytes == 0) {
        range = pagemap_reserve(SUPERSLAB_BYTES, SUPERSLAB_BYTES);
        if (range == NULL) return NULL;
        range_left_bytes = SUPERSLAB_BYTES;
    }
    if (os->commit(range, PAGE_BYTES) != 0) return NULL;
    char *chunk = range;
    pagemap_tag_set(chunk, 1, CLASS_PROFILE);
    range += PAGE_BYTES;
    range_left_bytes -= PAGE_BYTES;
    return chunk;
}

/* A sample with the address of a slot that never had one. */
static HAK_COLD struct sample *slot_make(uint32_t slot_log2)
{
    if (chunks[slot_log2].left_bytes == 0) {
        char *chunk = chunk_make();
        if (chunk == NULL) return NULL;
        chunks[slot_log2].next = chunk;
        chunks[slot_log2].left_bytes = PAGE_BYTES;
    }
    struct sample *sample = meta_alloc(sizeof *sample);
    if (sample == NULL) return NULL;
    sample->address = (uintptr_t)chunks[slot_log2].next;
    chunks[slot_log2].next += (size_t)1 << slot_log2;
    chunks[slot_log2].left_bytes -= (size_t)1 << slot_log2;
    return sample;
}

static void class_terms_make(void)
{
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        uint32_t log2 = SLOT_LOG2_MIN;
        while ((uint32_t)1 << log2 < sizeclass_bytes(class_index)) log2++;
        const uint64_t weight = weight_of(sizeclass_bytes(class_index));
        class_terms[class_index].free_list = &free_slots[log2];
        class_terms[class_index].size_bytes = sizeclass_bytes(class_index);
        class_terms[class_index].weight = weight;
        class_terms[class_index].objects_16 = times(weight, 65536);
        class_terms[class_index].block_bytes = times(weight, sizeclass_bytes(class_index));
    }
}

void *profile_alloc_small(uint32_t class_index, size_t size_bytes)
{
    lock_acquire(LOCK_PROFILE);
    struct profile_site *site = stack_site((uintptr_t)__builtin_frame_address(0));
    struct class_terms *terms = &class_terms[class_index];
    struct sample *sample = *terms->free_list;
    if (HAK_UNLIKELY(sample == NULL)) {
        sample = slot_make((uint32_t)(terms->free_list - free_slots));
        if (sample == NULL) {
            lock_release(LOCK_PROFILE);
            return sampler_unsampled(class_index);
        }
    } else {
        *terms->free_list = sample->next;
    }
    void *slot = (void *)sample->address;
    if (size_bytes > terms->size_bytes) size_bytes = terms->size_bytes;
    sample_enter(sample, site, terms, terms->objects_16, times(terms->weight, size_bytes), terms->block_bytes);
    return slot;
}

void profile_free_small(void *pointer)
{
    lock_acquire(LOCK_PROFILE);
    sample_leave((uintptr_t)pointer);
    lock_release(LOCK_PROFILE);
}

size_t profile_usable_size(const void *pointer)
{
    lock_acquire(LOCK_PROFILE);
    const struct sample *sample = first_in(bucket_of((uintptr_t)pointer));
    while (sample != NULL && sample->address != (uintptr_t)pointer) sample = sample->next;
    size_t bytes = sample != NULL ? sample->terms->size_bytes : 0;
    lock_release(LOCK_PROFILE);
    return bytes;
}

/* --- runs and huge blocks --------------------------------------------------------------------------------------- */

static uint64_t large_draw(void)
{
    return poisson_times(poisson_distance(&sampler_table, &large_random), profile_mean_bytes(), POISSON_LOG2) + 1;
}

/* Whether a byte of this block is chosen. */
static bool large_is_chosen(size_t size_bytes)
{
    if (large_generation != profile_generation()) {
        large_generation = profile_generation();
        if (large_random == 0) large_random = profile_seed_next();
        large_left = large_draw();
    }
    if (size_bytes < large_left) {
        large_left -= size_bytes;
        return false;
    }
    large_left = large_draw(); /* the next block's bytes begin here */
    return true;
}

void profile_large_allocated(void *pointer, size_t size_bytes)
{
    lock_acquire(LOCK_PROFILE);
    bool is_chosen = (profile_generation() & 1) != 0 && large_is_chosen(size_bytes);
    lock_release(LOCK_PROFILE);
    if (!is_chosen) return;
    lock_acquire(LOCK_PROFILE);
    struct profile_site *site = stack_site((uintptr_t)__builtin_frame_address(0));
    struct sample *sample = list_pop(&free_samples);
    if (sample == NULL) {
        lock_release(LOCK_PROFILE);
        return;
    }
    sample->address = (uintptr_t)pointer;
    const uint64_t weight = weight_of(size_bytes);
    uint64_t bytes = times(weight, size_bytes);
    sample_enter(sample, site, &class_terms[0], times(weight, 65536), bytes, bytes);
}

void profile_large_freed(void *pointer)
{
    /* relaxed: the hand-over of the block has ordered its sample's entry. */
    if (first_in(bucket_of((uintptr_t)pointer)) == NULL) return;
    lock_acquire(LOCK_PROFILE);
    sample_leave((uintptr_t)pointer);
    lock_release(LOCK_PROFILE);
}

/* --- start and stop -------------------------------------------------------------------------------------------- */

static bool tables_make(void)
{
    if (samples != NULL) return true;
    _Atomic(struct sample *) *made = meta_alloc(sizeof *made << SAMPLE_BUCKETS_LOG2);
    if (made == NULL || !sites_start()) return false;
    samples = made;
    return true;
}

int profile_start(uint64_t mean_bytes, uint64_t new_seed)
{
    if (!PROFILES) return ENOTSUP;
    int saved = errno;
    const struct os_unwinder unwinder = os_unwind_find();
    modules_start();
    lock_acquire(LOCK_PROFILE);
    os_unwind_start(&unwinder);
    bool is_ready = tables_make();
    if (is_ready) {
        uint64_t within = mean_bytes < 1                        ? 1
                          : mean_bytes < PROFILE_MEAN_BYTES_MAX ? mean_bytes
                                                                : PROFILE_MEAN_BYTES_MAX;
        atomic_store_explicit(&mean, within, memory_order_relaxed);
        class_terms_make();
        atomic_store_explicit(&seed, new_seed != 0 ? new_seed : os_now_ms() ^ os_stack_address(), memory_order_relaxed);
        /* release: publishes the table of samples. Pairs with the acquire in profile_may_have. */
        atomic_store_explicit(&profile_was_started, 1, memory_order_release);
        atomic_store_explicit(&generation, (profile_generation() + 1) | 1, memory_order_relaxed);
        sampling_profile_set(true);
    }
    lock_release(LOCK_PROFILE);
    errno = saved;
    return is_ready ? 0 : ENOMEM;
}

void profile_stop(void)
{
    if (!PROFILES) return;
    lock_acquire(LOCK_PROFILE);
    if ((profile_generation() & 1) != 0)
        atomic_store_explicit(&generation, profile_generation() + 1, memory_order_relaxed);
    sampling_profile_set(false);
    lock_release(LOCK_PROFILE);
}

void profile_step_set(uint64_t step_bytes)
{
    atomic_store_explicit(&step, step_bytes, memory_order_relaxed);
    atomic_store_explicit(&step_next, step_bytes != 0 ? step_bytes : UINT64_MAX, memory_order_relaxed);
}

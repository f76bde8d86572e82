/* profile.c: see profile.h. All that a sample changes stands under the PROFILE lock. In a child that was forked while another
 * thread held it, each list is whole, since each is changed by one store; at most one sample is lost. */
#include "profile/profile.h"

#include <errno.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/hooks.h"
#include "base/sizeclass.h"
#include "guard/guard_sample.h"
#include "os/lock.h"
#include "os/meta.h"
#include "os/os.h"
#include "os/unwind.h"
#include "profile/poisson.h"
#include "profile/pops.h"
#include "profile/profile_write.h"
#include "profile/sites.h"
#include "profile/stacks.h"
#include "superslab/pagemap.h"

enum {
    SAMPLE_BUCKETS = 1 << 16,
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
    uint32_t class_index; /* 0: a run or huge block */
};

_Atomic(uint32_t) profile_was_started;
static _Atomic(uint32_t) generation; /* odd: on */
static _Atomic(uint64_t) mean, seed, seeds, used_bytes, step, step_next;

static _Atomic(struct sample *) *samples; /* SAMPLE_BUCKETS; made at the first start */
static struct sample *free_samples, *free_slots[SLOT_LOG2_MAX + 1];
static struct {
    char *next;
    size_t left_bytes;
} chunks[SLOT_LOG2_MAX + 1];
static char *range; /* where the next chunk will be */
static size_t range_left_bytes;

/* Of the live samples of each class. */
static struct {
    _Atomic(uint64_t) objects_16, wasted_bytes;
} class_sums[CLASS_COUNT];

static struct class_terms {
    double weight; /* how many blocks a sample counts for, at this mean */
    uint32_t slot_log2;
} class_terms[CLASS_COUNT];

static uint64_t large_random;
static double large_left; /* bytes of runs and huge blocks until the next chosen one; 0: not drawn */
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

double profile_mean_bytes(void)
{
    return (double)relaxed(&mean);
}

uint64_t profile_seed_next(void)
{
    uint64_t number = atomic_fetch_add_explicit(&seeds, 1, memory_order_relaxed) + 1;
    uint64_t mixed = (relaxed(&seed) + number) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u; /* splitmix64 */
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    mixed ^= mixed >> 31;
    return mixed != 0 ? mixed : 1;
}

uint64_t profile_used_bytes(void)
{
    return relaxed(&used_bytes);
}

struct profile_class_figures profile_class_figures(uint32_t class_index)
{
    uint64_t objects_16 = relaxed(&class_sums[class_index].objects_16);
    return (struct profile_class_figures){(objects_16 + 32768) >> 16, relaxed(&class_sums[class_index].wasted_bytes)};
}

/* --- samples ------------------------------------------------------------------------------------------------ */

static _Atomic(struct sample *) *bucket_of(uintptr_t address)
{
    return &samples[(address >> 4) * 0x9e3779b97f4a7c15u >> 48 & (SAMPLE_BUCKETS - 1)];
}

static struct sample *first_in(_Atomic(struct sample *) *bucket)
{
    return atomic_load_explicit(bucket, memory_order_relaxed);
}

static double weight_of(uint64_t chosen_bytes)
{
    return 1 / poisson_probability((double)chosen_bytes / profile_mean_bytes());
}

static void sample_enter(struct sample *sample, struct profile_site *site, double weight, uint64_t size_bytes)
{
    /* Through int64_t: one instruction where uint64_t takes six. */
    uint64_t objects_16 = (uint64_t)(int64_t)(weight * 65536 + 0.5);
    uint64_t bytes = (uint64_t)(int64_t)(weight * (double)(int64_t)size_bytes + 0.5);
    sample->site = site;
    sample->objects_16 = objects_16;
    sample->bytes = bytes;
    uint32_t class_index = sample->class_index;
    int64_t rounding_bytes = class_index != 0 ? (int64_t)sizeclass_bytes(class_index) - (int64_t)size_bytes : 0;
    sample->wasted_bytes = (uint64_t)(int64_t)(weight * (double)rounding_bytes + 0.5);
    add(&class_sums[class_index].objects_16, objects_16);
    add(&class_sums[class_index].wasted_bytes, sample->wasted_bytes);
    add(&site->objects_16, objects_16);
    add(&site->bytes, bytes);
    add(&used_bytes, bytes);
    _Atomic(struct sample *) *bucket = bucket_of(sample->address);
    sample->next = first_in(bucket);
    atomic_store_explicit(bucket, sample, memory_order_relaxed);
}

/* Takes the sample of this address out, and counts its block as freed. NULL: there is none. */
static struct sample *sample_leave(uintptr_t address)
{
    _Atomic(struct sample *) *bucket = bucket_of(address);
    struct sample *before = NULL, *sample = first_in(bucket);
    for (; sample != NULL && sample->address != address; sample = sample->next) before = sample;
    if (sample == NULL) return NULL;
    if (before != NULL) {
        before->next = sample->next;
    } else {
        atomic_store_explicit(bucket, sample->next, memory_order_relaxed);
    }
    add(&sample->site->freed_objects_16, sample->objects_16);
    add(&sample->site->freed_bytes, sample->bytes);
    add(&used_bytes, -sample->bytes);
    add(&class_sums[sample->class_index].objects_16, -sample->objects_16);
    add(&class_sums[sample->class_index].wasted_bytes, -sample->wasted_bytes);
    return sample;
}

static struct sample *list_pop(struct sample **list)
{
    struct sample *sample = *list;
    if (sample == NULL) return meta_alloc(sizeof *sample);
    *list = sample->next;
    return sample;
}

static void list_push(struct sample **list, struct sample *sample)
{
    sample->next = *list;
    *list = sample;
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

/* A sample with the address of a free slot. */
static struct sample *slot_take(uint32_t class_index)
{
    uint32_t slot_log2 = class_terms[class_index].slot_log2;
    struct sample *sample = free_slots[slot_log2];
    if (sample != NULL) {
        free_slots[slot_log2] = sample->next;
    } else {
        if (chunks[slot_log2].left_bytes == 0) {
            char *chunk = chunk_make();
            if (chunk == NULL) return NULL;
            chunks[slot_log2].next = chunk;
            chunks[slot_log2].left_bytes = PAGE_BYTES;
        }
        sample = meta_alloc(sizeof *sample);
        if (sample == NULL) return NULL;
        sample->address = (uintptr_t)chunks[slot_log2].next;
        chunks[slot_log2].next += (size_t)1 << slot_log2;
        chunks[slot_log2].left_bytes -= (size_t)1 << slot_log2;
    }
    sample->class_index = class_index;
    return sample;
}

static void class_terms_make(void)
{
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        uint32_t log2 = SLOT_LOG2_MIN;
        while ((uint32_t)1 << log2 < sizeclass_bytes(class_index)) log2++;
        class_terms[class_index].slot_log2 = log2;
        class_terms[class_index].weight = weight_of(sizeclass_bytes(class_index));
    }
}

/* Writes a profile where the bytes in use have grown by the step. */
static void step_check(void)
{
    uint64_t next = relaxed(&step_next), used = relaxed(&used_bytes);
    if (relaxed(&step) == 0 || used < next) return;
    if (!atomic_compare_exchange_strong_explicit(&step_next, &next, used + relaxed(&step), memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    int saved = errno;
    profile_dump_next("step");
    errno = saved;
}

void *profile_alloc_small(uint32_t class_index, size_t size_bytes)
{
    lock_acquire(LOCK_PROFILE);
    struct profile_site *site = stack_site((uintptr_t)__builtin_frame_address(0));
    struct sample *sample = slot_take(class_index);
    if (sample != NULL) sample_enter(sample, site, class_terms[class_index].weight, size_bytes);
    lock_release(LOCK_PROFILE);
    step_check();
    return sample != NULL ? (void *)sample->address : NULL;
}

void profile_free_small(void *pointer)
{
    lock_acquire(LOCK_PROFILE);
    struct sample *sample = sample_leave((uintptr_t)pointer);
    if (sample != NULL) list_push(&free_slots[class_terms[sample->class_index].slot_log2], sample);
    lock_release(LOCK_PROFILE);
}

size_t profile_usable_size(const void *pointer)
{
    lock_acquire(LOCK_PROFILE);
    const struct sample *sample = first_in(bucket_of((uintptr_t)pointer));
    while (sample != NULL && sample->address != (uintptr_t)pointer) sample = sample->next;
    size_t bytes = sample != NULL ? sizeclass_bytes(sample->class_index) : 0;
    lock_release(LOCK_PROFILE);
    return bytes;
}

/* --- runs and huge blocks --------------------------------------------------------------------------------------- */

/* Whether a byte of this block is chosen. */
static bool large_is_chosen(size_t size_bytes)
{
    if (large_generation != profile_generation()) {
        large_generation = profile_generation();
        if (large_random == 0) large_random = profile_seed_next();
        large_left = poisson_distance(&large_random, profile_mean_bytes());
    }
    large_left -= (double)size_bytes;
    if (large_left > 0) return false;
    large_left = poisson_distance(&large_random, profile_mean_bytes()); /* the next block's bytes begin here */
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
    if (sample != NULL) {
        sample->address = (uintptr_t)pointer;
        sample->class_index = 0;
        sample_enter(sample, site, weight_of(size_bytes), size_bytes);
    }
    lock_release(LOCK_PROFILE);
    step_check();
}

void profile_large_freed(void *pointer)
{
    /* relaxed: the hand-over of the block has ordered its sample's entry. */
    if (first_in(bucket_of((uintptr_t)pointer)) == NULL) return;
    lock_acquire(LOCK_PROFILE);
    struct sample *sample = sample_leave((uintptr_t)pointer);
    if (sample != NULL) list_push(&free_samples, sample);
    lock_release(LOCK_PROFILE);
}

/* --- start and stop -------------------------------------------------------------------------------------------- */

static bool tables_make(void)
{
    if (samples != NULL) return true;
    _Atomic(struct sample *) *made = meta_alloc(SAMPLE_BUCKETS * sizeof *made);
    if (made == NULL || !sites_start()) return false;
    samples = made;
    return true;
}

int profile_start(uint64_t mean_bytes, uint64_t new_seed)
{
    if (!PROFILES) return ENOTSUP;
    int saved = errno;
    os_unwind_start();
    lock_acquire(LOCK_PROFILE);
    bool is_ready = tables_make();
    if (is_ready) {
        uint64_t within = mean_bytes < 1                        ? 1
                          : mean_bytes < PROFILE_MEAN_BYTES_MAX ? mean_bytes
                                                                : PROFILE_MEAN_BYTES_MAX;
        atomic_store_explicit(&mean, within, memory_order_relaxed);
        class_terms_make();
        atomic_store_explicit(&seed, new_seed != 0 ? new_seed : os_now_ms() ^ os_stack_address(), memory_order_relaxed);
        if (relaxed(&step) != 0 && relaxed(&step_next) == 0)
            atomic_store_explicit(&step_next, relaxed(&step), memory_order_relaxed);
        atomic_store_explicit(&profile_was_started, 1, memory_order_relaxed);
        atomic_store_explicit(&generation, (profile_generation() + 1) | 1, memory_order_relaxed);
        /* release: pairs with the acquire in cache_watch_call. */
        atomic_store_explicit(&hooks.cache_watch, pops_watch, memory_order_release);
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
}

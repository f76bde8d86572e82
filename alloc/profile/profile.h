/* profile.h: the heap profile: which call stacks allocated the bytes that are in use, and all that were ever allocated,
 * estimated from a sample.
 *
 * Each byte allocated is chosen with probability 1/mean, and a block with a chosen byte is sampled (poisson.h). A sample
 * of a block of b bytes stands for 1 / (1 - exp(-b / mean)) blocks of its kind, so the estimates are unbiased, whatever
 * the sizes. b is the size by which the choice is made: the class's for a small block, what was asked for for a run or
 * huge block. The bytes of a sample are that weight times the size that was asked for (of an aligned small block, the
 * block's size: the slow path does not know more).
 *
 * The hit paths know nothing of this. sampler.h makes the allocation that is to be sampled reach a slow path. A sampled small
 * block is served from a slot of its own: in the page map slots have the tag CLASS_PROFILE, which belongs to no thread,
 * so that free finds it on its slow path. A slot is the next power of two of the class's size. Slots stand in chunks of
 * 64 KiB and are reused, never returned. A sampled run or huge block is an ordinary one, found by its address.
 *
 * A small block that realloc leaves in place keeps its sample. A run or huge block that realloc resizes counts as freed
 * and allocated again.
 *
 * Any thread may call anything here; nothing is async-signal-safe.
 *
 * The method is tcmalloc's (heap_v2 profiles); the cut lists are ours. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"

/* Starts sampling with this mean, at least 1, or changes the mean. seed decides which blocks are sampled, as long as threads
 * do the same; 0: any. Returns 0, or ENOMEM, or ENOTSUP in builds that have frames or a sanitizer. */
int profile_start(uint64_t mean_bytes, uint64_t seed);

/* No more samples. Those that there are stay, and the frees of their blocks are counted. */
void profile_stop(void);

/* Whether there ever was a sample: whether a run or huge block that is freed has to be looked up. */
extern HAK_HIDDEN _Atomic(uint32_t) profile_was_started;
static inline bool profile_may_have(void)
{
    /* acquire: pairs with the release in profile_start, which publishes the table of samples: a block may be older. */
    return atomic_load_explicit(&profile_was_started, memory_order_acquire) != 0;
}

/* What samples are drawn with now. generation changes with each start; odd values mean that sampling is on. */
uint32_t profile_generation(void);
uint64_t profile_mean_bytes(void);
uint64_t profile_seed_next(void);

/* A slot of this class with a sample of size_bytes for the calling stack; sampler_unsampled if the system has no memory. */
void *profile_alloc_small(uint32_t class_index, size_t size_bytes);

/* For pointers with the tag CLASS_PROFILE. */
void profile_free_small(void *pointer);
size_t profile_usable_size(const void *pointer);

/* Called with each run or huge block that was allocated, or is about to be freed. */
void profile_large_allocated(void *pointer, size_t size_bytes);
void profile_large_freed(void *pointer);

/* The estimate of the bytes in use. */
uint64_t profile_used_bytes(void);

/* Exactly: the bytes of the live blocks in slots. They are in no slab, so no slab counts them. */
uint64_t profile_slot_bytes(void);

/* Estimates for the live blocks of a class that were allocated while sampling was on: how many there are, and the bytes
 * by which the class is larger than what was asked for. */
struct profile_class_figures {
    uint64_t live_blocks, wasted_bytes;
};
struct profile_class_figures profile_class_figures(uint32_t class_index);

/* When the bytes in use have grown by this many since the last such profile, one is due (report/writer.h). 0: never. */
void profile_step_set(uint64_t step_bytes);

/* counters.h: what the debug-validation build counts for each class: the stage at which a refill found blocks, and the
 * way that a free took. The release build has no code for them.
 *
 * Each owner has a set of counters. Only the thread that holds the owner writes it; any thread may sum the sets. All
 * accesses are relaxed, so the sums are exact only while no other thread is in the allocator. Threads without an owner
 * share one more set. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/policy.h"
#include "base/sizeclass.h"

/* X(name, text). The stages are in the order in which a refill tries them. They count refills, not blocks. */
#define COUNTERS(X)                                                               \
    X(refill_magazine, "refills from a parked magazine")                          \
    X(refill_drained, "from blocks that other threads gave back")                 \
    X(refill_slab, "from a slab's free list")                                     \
    X(refill_borrowed, "idle blocks of a larger class")                           \
    X(refill_hollow, "from trimmed memory of a slab")                             \
    X(refill_carved, "from fresh memory of a slab")                               \
    X(slab_pool, "slabs made from pages of the pool")                             \
    X(slab_superslab, "slabs that needed a new superslab")                        \
    X(free_own, "frees to the thread's own cache")                                \
    X(free_parked, "of these, that parked the list")                              \
    X(free_overflow, "lists that went back to their slabs, the cache being full") \
    X(free_staged, "frees of another heap's blocks, staged")                      \
    X(free_unstaged, "such frees in a thread without a heap, posted one by one")  \
    X(free_posted, "lists posted to other heaps")                                 \
    X(alloc_large, "mallocs of page runs and of huge blocks")                     \
    X(free_large, "their frees")

enum counter {
#define X(name, text) COUNTER_##name,
    COUNTERS(X)
#undef X
        COUNTER_COUNT
};

/* Runs and huge blocks have their counters after those of the classes. */
enum { COUNTED_RUN = CLASS_COUNT, COUNTED_HUGE, COUNTED_COUNT };

struct counters {
    _Atomic(uint64_t) values[COUNTER_COUNT][COUNTED_COUNT];
};

/* Adds one. Only the thread that holds the set's owner may call it. */
static inline void counter_add(struct counters *counters, enum counter counter, uint32_t class_index)
{
    _Atomic(uint64_t) *value = &counters->values[counter][class_index];
    atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* The set that threads without an owner share. Any thread may add to it. */
extern struct counters counters_heapless;
void counters_heapless_add(enum counter counter, uint32_t class_index);

static inline uint64_t counter_get(const struct counters *counters, enum counter counter, uint32_t class_index)
{
    return atomic_load_explicit(&counters->values[counter][class_index], memory_order_relaxed);
}

/* The large blocks of a captured process, so that a trace can say how much of each the program touched: a replay that
 * touched all of them would take more memory than the program did. Any thread; takes no lock and no memory; keeps errno. */
#ifndef HAKMEM_RECORDER_LARGE_H
#define HAKMEM_RECORDER_LARGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { LARGE_BYTES = 1 << 15, LARGE_SETS_LOG2 = 14, LARGE_WAYS = 4, LARGE_PAGE_SHIFT = 12 };

struct large_way {
    _Atomic(uintptr_t) start; /* 0: free */
    _Atomic(size_t) bytes;
};

extern struct large_way large_sets[1 << LARGE_SETS_LOG2][LARGE_WAYS] __attribute__((visibility("hidden")));

/* A block of at least LARGE_BYTES was allocated. One that finds its set full is not noted. An older one at the same address
 * was freed past the recorder, and is forgotten. */
void large_note(const void *start, size_t size_bytes) __attribute__((visibility("hidden")));

/* Forgets a block, of *size_bytes. Returns how many of its bytes are resident, in whole pages of the system. SIZE_MAX: the
 * system does not say. */
size_t large_forget_way(struct large_way *way, size_t *size_bytes) __attribute__((visibility("hidden")));

/* Calls `tell` for each block that is noted, with its resident bytes; near enough while other threads allocate and free. */
void large_each(void (*tell)(const void *start, size_t resident)) __attribute__((visibility("hidden")));

static inline struct large_way *large_set(const void *start)
{
    return large_sets[((uintptr_t)start >> LARGE_PAGE_SHIFT) * 0x9e3779b97f4a7c15ULL >> (64 - LARGE_SETS_LOG2)];
}

/* As large_forget_way; SIZE_MAX, and 0 bytes, also if the block was not noted. */
static inline size_t large_forget(const void *start, size_t *size_bytes)
{
    *size_bytes = 0;
    struct large_way *set = large_set(start);
    for (unsigned way = 0; way < LARGE_WAYS; ++way)
        /* relaxed, here and in recorder_large.c: the thread that frees a block got it from the one that noted it. */
        if (__builtin_expect(atomic_load_explicit(&set[way].start, memory_order_relaxed) == (uintptr_t)start, 0))
            return large_forget_way(&set[way], size_bytes);
    return SIZE_MAX;
}

#endif

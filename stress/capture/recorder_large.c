/* recorder_large.c: see recorder_large.h. */
#define _GNU_SOURCE
#include "capture/recorder_large.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

_Alignas(64) struct large_way large_sets[1 << LARGE_SETS_LOG2][LARGE_WAYS];

void large_note(const void *start, size_t size_bytes)
{
    struct large_way *set = large_set(start);
    for (unsigned way = 0; way < LARGE_WAYS; ++way)
        if (atomic_load_explicit(&set[way].start, memory_order_relaxed) == (uintptr_t)start) {
            atomic_store_explicit(&set[way].bytes, size_bytes, memory_order_relaxed);
            return;
        }
    for (unsigned way = 0; way < LARGE_WAYS; ++way) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong_explicit(&set[way].start, &none, (uintptr_t)start, memory_order_relaxed,
                                                     memory_order_relaxed))
            continue;
        atomic_store_explicit(&set[way].bytes, size_bytes, memory_order_relaxed);
        return;
    }
}

static size_t resident_bytes(uintptr_t start, size_t size_bytes)
{
    if (start == 0 || size_bytes == 0) return SIZE_MAX; /* another thread is about to note it, or has forgotten it */
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char pages[1024];
    size_t count = 0;
    for (uintptr_t at = start / page_bytes * page_bytes; at < start + size_bytes; at += sizeof pages * page_bytes) {
        const size_t left = (start + size_bytes - at + page_bytes - 1) / page_bytes;
        const size_t some = left < sizeof pages ? left : sizeof pages;
        const int error = errno;
        const int refused = mincore((void *)at, some * page_bytes, pages);
        errno = error;
        if (refused != 0) return SIZE_MAX;
        for (size_t i = 0; i < some; ++i) count += pages[i] & 1;
    }
    return count * page_bytes;
}

size_t large_forget_way(struct large_way *way, size_t *size_bytes)
{
    *size_bytes = atomic_load_explicit(&way->bytes, memory_order_relaxed);
    const size_t resident = resident_bytes(atomic_load_explicit(&way->start, memory_order_relaxed), *size_bytes);
    atomic_store_explicit(&way->bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&way->start, 0, memory_order_relaxed);
    return resident;
}

void large_each(void (*tell)(const void *start, size_t resident))
{
    for (size_t i = 0; i < sizeof large_sets / sizeof large_sets[0][0]; ++i) {
        struct large_way *way = &large_sets[i / LARGE_WAYS][i % LARGE_WAYS];
        const uintptr_t start = atomic_load_explicit(&way->start, memory_order_relaxed);
        const size_t resident = resident_bytes(start, atomic_load_explicit(&way->bytes, memory_order_relaxed));
        const bool is_there = atomic_load_explicit(&way->start, memory_order_relaxed) == start;
        if (resident != SIZE_MAX && is_there) tell((const void *)start, resident);
    }
}

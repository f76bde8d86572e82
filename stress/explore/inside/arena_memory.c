/* arena_memory.c: see arena_memory.h. */
#include "explore/inside/arena_memory.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/config.h"
#include "explore/inside/resident.h"
#include "explore/fibers/zero_page.h"

enum {
    RANGES_MAX = 64,      /* found at once */
    KEPT_PAGES_MAX = 128, /* for blocks of up to a superslab; for larger ones, as many as can be known */
    KNOWN_PAGES_MAX = 512,
    CLEAN_RUNS_MAX = 64,
    SPARSE_BYTES = 1 << 15,
    STATIC_PAGES_MAX = 1 << 14,
};

static uintptr_t arena, arena_end;

/* --- pages -----------------------------------------------------------------------------------------------------------
 */

/* memset is fastest, but a sanitizer would check the memory that it keeps between static variables. */
static void zero_page(uintptr_t start)
{
    if (start >= arena && start < arena_end) {
        memset((void *)start, 0, SYSTEM_PAGE_BYTES);
        return;
    }
    uint64_t *words = (uint64_t *)start;
    for (size_t i = 0; i < SYSTEM_PAGE_BYTES / sizeof *words; i++) words[i] = 0;
}

/* The pages of the arena and of static variables that are known to have memory. Each has its bit set, and is in the
 * list until its memory is given back. A page gets memory only through a page fault of the process, so after a run
 * without faults there is no need to look. */
#define ARENA_PAGES (ARENA_BYTES / SYSTEM_PAGE_BYTES)
static uintptr_t known[KNOWN_PAGES_MAX];
static uint8_t known_clean[KNOWN_PAGES_MAX]; /* for how many runs in a row nothing was written there */
static uint32_t known_count;
static bool too_many; /* the list has no room for all pages found */
static uint64_t known_bits[(ARENA_PAGES + STATIC_PAGES_MAX + 63) / 64];
static struct arena_range statics;
static uint64_t faults_before, faults_in_run = 1; /* 1 for a run whose end is not told */

static uint64_t faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_minflt : 0;
}

static uint64_t bit_index(uintptr_t page)
{
    bool is_static = page >= statics.start && page < statics.end;
    return is_static ? ARENA_PAGES + (page - statics.start) / SYSTEM_PAGE_BYTES : (page - arena) / SYSTEM_PAGE_BYTES;
}

static bool is_known(uintptr_t page)
{
    uint64_t index = bit_index(page);
    return known_bits[index / 64] >> index % 64 & 1;
}

static void know(uintptr_t page, bool yes)
{
    uint64_t index = bit_index(page), bit = (uint64_t)1 << index % 64;
    if (yes) {
        known_clean[known_count] = 0;
        known[known_count++] = page;
    }
    known_bits[index / 64] = yes ? known_bits[index / 64] | bit : known_bits[index / 64] & ~bit;
}

/* Taking a little memory away and faulting it in again costs ten times as much as zeroing it. */
static void take_away(uintptr_t start, uintptr_t end)
{
    madvise((void *)start, end - start, MADV_DONTNEED);
    uint32_t count = known_count;
    known_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (known[i] < start || known[i] >= end) {
            known_clean[known_count] = known_clean[i];
            known[known_count++] = known[i];
        } else {
            know(known[i], false);
        }
    }
}

static bool is_within(const struct arena_range *sorted, uint32_t count, uintptr_t page)
{
    uint32_t i = 0;
    while (i < count && sorted[i].end <= page) i++;
    return i < count && sorted[i].start <= page;
}

/* Zeroes the known pages, and gives back pages that no run has written to for long. */
static void zero_known(const struct arena_range *touched, uint32_t touched_count)
{
    uint32_t count = known_count;
    known_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uintptr_t page = known[i];
        bool is_static = page >= statics.start && page < statics.end;
        uint8_t clean = known_clean[i];
        if (is_static || is_within(touched, touched_count, page)) {
            bool was_clean = stress_page_is_zero((const void *)page);
            if (!was_clean) zero_page(page);
            clean = was_clean ? (uint8_t)(clean + (clean < CLEAN_RUNS_MAX)) : 0;
        }
        if (clean == CLEAN_RUNS_MAX && !is_static) {
            madvise((void *)page, SYSTEM_PAGE_BYTES, MADV_DONTNEED);
            know(page, false);
            continue;
        }
        known_clean[known_count] = clean;
        known[known_count++] = page;
    }
}

/* Calls the function for each page from start to end that has memory; if there are many, takes the memory from all of
 * them instead. */
static void for_resident(uintptr_t start, uintptr_t end, void (*call)(uintptr_t page))
{
    const uint32_t kept_max = end - start > SUPERSLAB_BYTES ? KNOWN_PAGES_MAX : KEPT_PAGES_MAX;
    struct resident_range ranges[RANGES_MAX];
    for (uintptr_t next = end; start < end; start = next, next = end) {
        uint32_t count = resident_ranges(start, &next, ranges, RANGES_MAX), pages = 0;
        for (uint32_t i = 0; i < count; i++) pages += (uint32_t)((ranges[i].end - ranges[i].start) / SYSTEM_PAGE_BYTES);
        if (pages > kept_max) {
            take_away(start, next);
            continue;
        }
        for (uint32_t i = 0; i < count; i++)
            for (uintptr_t page = ranges[i].start; page < ranges[i].end; page += SYSTEM_PAGE_BYTES) call(page);
    }
}

/* Zeroes a newly found page; the list takes care of known ones. */
static void zero_new(uintptr_t page)
{
    if (is_known(page)) return;
    zero_page(page);
    if (known_count < KNOWN_PAGES_MAX) know(page, true);
    else too_many = true;
}

bool arena_statics(uintptr_t start, uintptr_t end)
{
    statics = (struct arena_range){start, end};
    return (end - start) / SYSTEM_PAGE_BYTES <= STATIC_PAGES_MAX;
}

void memory_zero_all(const struct arena_range *touched, uint32_t touched_count)
{
    if (faults_in_run != 0) {
        for (uint32_t i = 0; i < touched_count; i++) for_resident(touched[i].start, touched[i].end, zero_new);
        for_resident(statics.start, statics.end, zero_new);
    }
    if (too_many) {
        take_away(arena, arena_end);
        take_away(statics.start, statics.end);
        too_many = false;
    }
    zero_known(touched, touched_count);
}

void arena_run(bool begins)
{
    uint64_t now = faults();
    if (begins) faults_before = now;
    faults_in_run = begins ? 1 : now - faults_before;
}

void memory_begin(uintptr_t start, uintptr_t end)
{
    arena = start;
    arena_end = end;
}

void memory_zero(uintptr_t start, uintptr_t end)
{
    for_resident(start, end, zero_page);
}

/* --- the allocator's memset and memcpy -------------------------------------------------------------------------------
 */

static uintptr_t page_of(uintptr_t address)
{
    return address & ~(uintptr_t)(SYSTEM_PAGE_BYTES - 1);
}

/* Calls the function for the parts from start to end that have memory. */
static void for_parts(uintptr_t start, uintptr_t end, ptrdiff_t to,
                      void (*call)(uintptr_t part, size_t bytes, ptrdiff_t to))
{
    uintptr_t page = page_of(start), pages_end = page_of(end + SYSTEM_PAGE_BYTES - 1);
    struct resident_range ranges[RANGES_MAX];
    for (uintptr_t next = pages_end; page < pages_end; page = next, next = pages_end) {
        uint32_t count = resident_ranges(page, &next, ranges, RANGES_MAX);
        for (uint32_t i = 0; i < count; i++) {
            uintptr_t from = ranges[i].start > start ? ranges[i].start : start;
            call(from, (ranges[i].end < end ? ranges[i].end : end) - from, to);
        }
    }
}

static void zero_part(uintptr_t part, size_t bytes, ptrdiff_t to)
{
    (void)to;
    memset((void *)part, 0, bytes);
}

static void copy_part(uintptr_t part, size_t bytes, ptrdiff_t to)
{
    memcpy((char *)part + to, (const void *)part, bytes);
}

/* Whether it pays to find out which pages have memory. ThreadSanitizer then sees only those pages. To let it see a
 * whole block of 400 MB would take 2 GiB, and nobody has written to the other pages. */
static bool is_sparse(uintptr_t start, size_t size_bytes)
{
    return size_bytes >= SPARSE_BYTES && start >= arena && start < arena_end && size_bytes <= arena_end - start;
}

void *stress_fiber_memset(void *to, int value, size_t size_bytes)
{
    uintptr_t target = (uintptr_t)to;
    if (value != 0 || !is_sparse(target, size_bytes)) return memset(to, value, size_bytes);
    for_parts(target, target + size_bytes, 0, zero_part);
    return to;
}

void *stress_fiber_memcpy(void *to, const void *from, size_t size_bytes)
{
    uintptr_t source = (uintptr_t)from, target = (uintptr_t)to;
    if (!is_sparse(source, size_bytes) || !is_sparse(target, size_bytes)) return memcpy(to, from, size_bytes);
    for_parts(target, target + size_bytes, 0, zero_part);
    for_parts(source, source + size_bytes, (ptrdiff_t)(target - source), copy_part);
    return to;
}

/* arena.c: see arena.h. All memory is readable and writable at all times, so an access to memory that was not committed
 * goes unnoticed here. What is checked: commit, purge and the others are only called for reserved memory. */
#include "explore/inside/arena.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/config.h"
#include "explore/inside/arena_memory.h"
#include "os/os.h"

static uintptr_t arena, arena_end;
static struct arena_books books;
static const char *complaint;
static uint64_t fail_in; /* calls until one fails, including that one; 0: none will */
static bool fail_for_ever;
static uint64_t failed;

/* Candidates, because AddressSanitizer and ThreadSanitizer leave different parts of the address space free. */
static const uintptr_t places[] = {0x1000000000, 0x200000000000, 0x100000000000, 0x7a0000000000};

/* The kernel takes memory from one thread before it gives it to another, so a reservation is ordered after the release.
 * A purge orders nothing, and races with the threads that use the memory. NULL without ThreadSanitizer. */
[[gnu::weak]] void __tsan_acquire(void *address);
[[gnu::weak]] void __tsan_release(void *address);

static void complain(const char *text)
{
    if (complaint == NULL) complaint = text;
}

/* --- sorted lists of ranges -----------------------------------------------------------------------------------------
 */

/* Index of the first range that ends above the address. */
static uint32_t find(const struct arena_range *ranges, uint32_t count, uintptr_t address)
{
    uint32_t low = 0;
    while (low < count && ranges[low].end <= address) low++;
    return low;
}

static bool covers(const struct arena_range *ranges, uint32_t count, uintptr_t start, uintptr_t end)
{
    uint32_t at = find(ranges, count, start);
    return at < count && ranges[at].start <= start && end <= ranges[at].end;
}

/* memmove without its interceptor, because for ThreadSanitizer these books belong to the kernel. */
static void move_ranges(struct arena_range *to, const struct arena_range *from, uint32_t count)
{
    if (to < from)
        for (uint32_t i = 0; i < count; i++) to[i] = from[i];
    else
        for (uint32_t i = count; i-- > 0;) to[i] = from[i];
}

/* Adds a range that may overlap others. False: no room in the list. */
static bool add(struct arena_range *ranges, uint32_t *count, uintptr_t start, uintptr_t end)
{
    uint32_t first = 0;
    while (first < *count && ranges[first].end < start) first++;
    uint32_t last = first;
    for (; last < *count && ranges[last].start <= end; last++) {
        if (ranges[last].start < start) start = ranges[last].start;
        if (ranges[last].end > end) end = ranges[last].end;
    }
    if (first == last && *count == ARENA_RANGES_MAX) return false;
    move_ranges(&ranges[first + 1], &ranges[last], *count - last);
    ranges[first] = (struct arena_range){start, end};
    *count = *count - (last - first) + 1;
    return true;
}

/* Removes a range from the one that covers it. False: no room in the list. */
static bool take(struct arena_range *ranges, uint32_t *count, uintptr_t start, uintptr_t end)
{
    uint32_t at = find(ranges, *count, start);
    struct arena_range whole = ranges[at];
    uint32_t kept = (whole.start < start ? 1u : 0u) + (end < whole.end ? 1u : 0u);
    if (kept == 2 && *count == ARENA_RANGES_MAX) return false;
    move_ranges(&ranges[at + kept], &ranges[at + 1], *count - at - 1);
    if (whole.start < start) ranges[at++] = (struct arena_range){whole.start, start};
    if (end < whole.end) ranges[at] = (struct arena_range){end, whole.end};
    *count = *count - 1 + kept;
    return true;
}

static bool is_reserved(const void *start, size_t size_bytes)
{
    uintptr_t from = (uintptr_t)start;
    return covers(books.reserved, books.reserved_count, from, from + size_bytes);
}

/* The lowest free place. */
static uintptr_t place(size_t size_bytes, size_t align_bytes)
{
    uintptr_t at = round_up(arena, align_bytes);
    for (uint32_t i = 0; i < books.reserved_count; i++) {
        if (at + size_bytes <= books.reserved[i].start) break;
        if (books.reserved[i].end > at) at = round_up(books.reserved[i].end, align_bytes);
    }
    return at < arena_end && size_bytes <= arena_end - at ? at : 0;
}

static bool fails(void)
{
    if (fail_in == 0 || --fail_in != 0) return false;
    fail_in = fail_for_ever;
    failed++;
    return true;
}

/* --- os.h ------------------------------------------------------------------------------------------------------------
 */

static void *reserve(void *at, size_t size_bytes, size_t align_bytes)
{
    if (size_bytes > arena_end - arena || align_bytes > arena_end - arena) return NULL;
    uintptr_t start = at != NULL ? (uintptr_t)at : place(size_bytes, align_bytes);
    if (start < arena || start >= arena_end || size_bytes > arena_end - start) return NULL;
    uint32_t next = find(books.reserved, books.reserved_count, start);
    if (next < books.reserved_count && books.reserved[next].start < start + size_bytes) return NULL;
    if (__tsan_acquire != NULL) __tsan_acquire(&books);
    return add(books.reserved, &books.reserved_count, start, start + size_bytes) ? (void *)start : NULL;
}

static void *arena_reserve(void *at, size_t size_bytes, size_t align_bytes)
{
    if (fails()) return NULL;
    return reserve(at, size_bytes, align_bytes);
}

static int arena_expose(void *start, size_t size_bytes)
{
    if (fails()) return ENOMEM;
    if (!is_reserved(start, size_bytes)) complain("expose of memory that is not reserved");
    return 0;
}

static int commit(void *start, size_t size_bytes)
{
    uintptr_t from = (uintptr_t)start;
    if (!is_reserved(start, size_bytes)) complain("commit of memory that is not reserved");
    return add(books.touched, &books.touched_count, from, from + size_bytes) ? 0 : ENOMEM;
}

static int arena_commit(void *start, size_t size_bytes)
{
    return fails() ? ENOMEM : commit(start, size_bytes);
}

static int arena_purge(void *start, size_t size_bytes)
{
    if (fails()) return EINVAL;
    if (!is_reserved(start, size_bytes)) complain("purge of memory that is not reserved");
    memory_zero((uintptr_t)start, (uintptr_t)start + size_bytes);
    return 0;
}

static int release(void *start, size_t size_bytes)
{
    if (!is_reserved(start, size_bytes)) {
        complain("release of memory that is not reserved");
        return EINVAL;
    }
    uintptr_t from = (uintptr_t)start;
    if (!take(books.reserved, &books.reserved_count, from, from + size_bytes)) return ENOMEM;
    memory_zero((uintptr_t)start, (uintptr_t)start + size_bytes);
    if (__tsan_release != NULL) __tsan_release(&books);
    return 0;
}

static void *arena_map(void *at, size_t size_bytes, size_t align_bytes)
{
    if (fails()) return NULL;
    void *start = reserve(at, size_bytes, align_bytes);
    if (start == NULL || commit(start, size_bytes) == 0) return start;
    release(start, size_bytes);
    return NULL;
}

static int arena_release(void *start, size_t size_bytes)
{
    return fails() ? ENOMEM : release(start, size_bytes);
}

static int arena_grow(void *start, size_t old_bytes, size_t new_bytes)
{
    if (fails()) return ENOMEM;
    if (!is_reserved(start, old_bytes)) complain("grow of memory that is not reserved");
    char *more = (char *)start + old_bytes;
    if (reserve(more, new_bytes - old_bytes, PAGE_BYTES) == NULL) return ENOMEM;
    return commit(more, new_bytes - old_bytes);
}

static int arena_move(void *start, size_t old_bytes, void *target, size_t new_bytes)
{
    if (fails()) return ENOMEM;
    if (!is_reserved(start, old_bytes) || !is_reserved(target, new_bytes))
        complain("move of memory that is not reserved");
    int error = commit(target, new_bytes);
    if (error != 0) return error;
    stress_fiber_memcpy(target, start, old_bytes < new_bytes ? old_bytes : new_bytes);
    return release(start, old_bytes);
}

static size_t arena_page_bytes(void)
{
    return os_linux_ops.page_bytes();
}

static const struct os_ops arena_ops = {
    .reserve = arena_reserve,
    .map = arena_map,
    .expose = arena_expose,
    .commit = arena_commit,
    .purge = arena_purge,
    .seal = arena_purge,
    .release = arena_release,
    .grow = arena_grow,
    .move = arena_move,
    .page_bytes = arena_page_bytes,
};

bool arena_begin(void)
{
    const size_t bytes = ARENA_BYTES;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        void *wanted = (void *)places[i];
        void *start = mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (start == wanted) {
            arena = (uintptr_t)start;
            arena_end = arena + bytes;
            memory_begin(arena, arena_end);
            os = &arena_ops;
            return true;
        }
        if (start != MAP_FAILED) munmap(start, bytes);
    }
    return false;
}

void arena_zero(void)
{
    memory_zero_all(books.touched, books.touched_count);
}

void arena_fail(uint64_t nth, bool for_ever)
{
    fail_in = nth;
    fail_for_ever = for_ever;
}

uint64_t arena_failed(void)
{
    return failed;
}

struct arena_books *arena_now(void)
{
    return &books;
}

uintptr_t arena_start(void)
{
    return arena;
}

const char *arena_complaint(void)
{
    return complaint;
}

void arena_complaint_forget(void)
{
    complaint = NULL;
}

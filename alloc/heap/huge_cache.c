/* huge_cache.c: see huge_cache.h. More than 400 lines: what the cache holds, and what it learns from that. */
#include "heap/huge_cache.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/policy.h"
#include "os/os.h"
#include "os/sanitizer.h"
#include "superslab/limit.h"

/* Under the lock, and in the order in which a call needs it, so that a thread that takes the lock fetches few cache lines. An
 * interval is a purge delay, a window WINDOW_DELAYS intervals. */
static struct {
    alignas(64) size_t live_bytes;
    size_t live_count, live_peak, live_peak_before; /* peaks: of this interval, and of the one before */
    size_t slack_bytes; /* of all live blocks */
    size_t cached_bytes;
    uint32_t cache_count;
    bool used; /* in this interval */
    /* The most that was committed in all when the cache or the huge blocks changed in this interval, or when it began.
     * relaxed: huge_cache_is_in_the_way may read it at any time. */
    _Atomic(size_t) committed_peak;

    size_t cached_low, cached_peak, cached_peak_before; /* of this window, and of the one before */
    size_t cached_most; /* the most that cached_peak was */
    uint64_t due_ms; /* end of the interval */
    size_t early_live_bytes; /* the fewest in use when early_bytes were taken back */
    struct huge *cache[HUGE_KEEP_ENTRIES]; /* the first cache_count are set */

    size_t early_bytes; /* taken back lately, and not wanted again yet */
    size_t early_largest_bytes; /* the largest mapping among them */
    uint32_t unused_intervals; /* in a row, before this one */
    uint32_t window_intervals; /* that have passed */
    bool swung_before; /* in the window before */
} books = {.early_live_bytes = SIZE_MAX};

static _Atomic(bool) any_cached; /* books.cache_count > 0, for readers without the lock: relaxed */
static size_t cache_bytes_max = HUGE_CACHE_BYTES_MAX;

static void any_cached_set(void)
{
    atomic_store_explicit(&any_cached, books.cache_count > 0, memory_order_relaxed);
}

/* --- bytes to keep --------------------------------------------------------------------------------------- */

size_t huge_keep_bytes; /* 0: it learned nothing */
size_t huge_keep_live_bytes = SIZE_MAX; /* with fewer bytes in use nothing is kept */
static size_t committed_peak_get(void)
{
    return atomic_load_explicit(&books.committed_peak, memory_order_relaxed);
}

static void committed_peak_set(size_t bytes)
{
    atomic_store_explicit(&books.committed_peak, bytes, memory_order_relaxed);
}

static void committed_peak_update(size_t committed_bytes)
{
    if (committed_bytes > committed_peak_get()) committed_peak_set(committed_bytes);
}

/* The bytes in the cache or in use have changed. */
static void note(void)
{
    books.used = true;
    if (books.cached_bytes < books.cached_low) books.cached_low = books.cached_bytes;
    if (books.cached_bytes > books.cached_peak) books.cached_peak = books.cached_bytes;
    if (books.cached_bytes > books.cached_most) books.cached_most = books.cached_bytes;
    if (books.live_bytes > books.live_peak) books.live_peak = books.live_bytes;
}

/* A limit took a mapping back. */
static void note_released(size_t bytes)
{
    books.early_bytes += bytes;
    if (bytes > books.early_largest_bytes) books.early_largest_bytes = bytes;
    if (books.live_bytes < books.early_live_bytes) books.early_live_bytes = books.live_bytes;
}

static void early_forget(void)
{
    books.early_bytes = books.early_largest_bytes = 0;
    books.early_live_bytes = SIZE_MAX;
}

/* The cache had no mapping for a block. The bytes to keep stop once at the limit in bytes: blocks may take longer mappings
 * than they need from them, so that is often enough. */
static void note_missed(size_t bytes)
{
    if (bytes > books.early_largest_bytes) return;
    size_t learned = bytes < books.early_bytes ? bytes : books.early_bytes;
    /* Half of it, since the bytes in use swing. */
    if (books.early_live_bytes / 2 < huge_keep_live_bytes) huge_keep_live_bytes = books.early_live_bytes / 2;
    size_t more = huge_keep_bytes + learned + learned / 2;
    if (huge_keep_bytes < cache_bytes_max && more >= cache_bytes_max) {
        huge_keep_bytes = cache_bytes_max;
        early_forget();
        return;
    }
    size_t keep_max = 2 * books.live_peak + cache_bytes_max;
    if (keep_max > HUGE_KEEP_FACTOR * cache_bytes_max) keep_max = HUGE_KEEP_FACTOR * cache_bytes_max;
    if (more > keep_max) more = keep_max;
    if (more > huge_keep_bytes) huge_keep_bytes = more;
    books.early_bytes -= learned;
    if (books.early_bytes == 0) early_forget();
}

static bool swings(void)
{
    return books.cached_peak - books.cached_low >= huge_keep_bytes / 8;
}

/* At most what the cache has held lately, and a half, stays as long as it swings. */
static void fade(void)
{
    const bool in_use = swings() || books.swung_before;
    const size_t peak = books.cached_peak > books.cached_peak_before ? books.cached_peak : books.cached_peak_before;
    size_t floor = in_use ? peak + peak / 2 : 0;
    size_t less = huge_keep_bytes - huge_keep_bytes / (in_use ? 64 : 8);
    if (huge_keep_bytes > floor) huge_keep_bytes = less > floor ? less : floor;
}

static void window_turn(void)
{
    books.swung_before = swings();
    books.cached_peak_before = books.cached_peak;
    books.cached_low = books.cached_peak = books.cached_bytes;
    books.early_bytes /= 2;
    books.window_intervals = 0;
}

void huge_cache_forget(void)
{
    huge_keep_bytes = 0;
    huge_keep_live_bytes = SIZE_MAX;
    early_forget();
}

void huge_cache_tick(uint64_t now_ms, uint64_t delay_ms)
{
    if (now_ms < books.due_ms) return;
    /* Intervals, of which only the first can have had a slow path. */
    uint64_t passed = delay_ms > 0 ? 1 + (now_ms - books.due_ms) / delay_ms : 1;
    books.due_ms =
        now_ms + delay_ms - delay_ms / 8; /* the background thread wakes once in a delay, or a little earlier */
    books.unused_intervals = books.used ? (uint32_t)(passed - 1) : books.unused_intervals + (uint32_t)passed;
    if (books.used) fade();
    books.window_intervals += (uint32_t)passed;
    if (books.unused_intervals >= WINDOW_DELAYS) {
        huge_cache_forget();
        books.live_peak = books.live_bytes;
    }
    if (books.window_intervals >= WINDOW_DELAYS) window_turn();
    books.used = false;
    if (passed > 1) books.live_peak = books.live_bytes;
    books.live_peak_before = books.live_peak;
    books.live_peak = books.live_bytes;
    committed_peak_set(limit_committed_bytes());
}

size_t huge_cache_learned_bytes(void)
{
    size_t most = books.cached_most + books.cached_most / 2;
    return huge_keep_bytes < most ? huge_keep_bytes : most;
}

/* How many bytes the cache may keep whatever its limits are; 0: it learned nothing. */
static size_t keep(void)
{
    if (books.live_bytes < huge_keep_live_bytes || limit_soft_exceeded()) return 0;
    return books.live_bytes == 0 && huge_keep_bytes > cache_bytes_max ? cache_bytes_max : huge_keep_bytes;
}

/* --- the cache ------------------------------------------------------------------------------------------ */

static struct huge *cache_remove(uint32_t index)
{
    struct huge *huge = books.cache[index];
    books.cache[index] = books.cache[--books.cache_count];
    any_cached_set();
    books.cached_bytes -= huge->mapped_bytes;
    return huge;
}

/* Whether a block may have this much of its mapping to spare: an eighth, or any part if it fits the bytes to keep. */
static bool may_spare(size_t size_bytes, size_t more_bytes)
{
    return more_bytes <= size_bytes / 8 || books.slack_bytes + more_bytes <= keep();
}

/* Changes how much of the mapping of a live block is to spare. */
static void slack_set(struct huge *huge, size_t bytes)
{
    books.slack_bytes += bytes - huge->slack_bytes;
    huge->slack_bytes = bytes;
    /* relaxed: huge_find may read it at any time, and needs nothing else with it. */
    atomic_store_explicit(&huge->usable_bytes, huge->mapped_bytes - bytes, memory_order_relaxed);
}

struct huge *huge_cache_take(size_t align_bytes, size_t size_bytes)
{
    uint32_t best = HUGE_KEEP_ENTRIES;
    for (uint32_t i = 0; i < books.cache_count; i++) {
        const struct huge *huge = books.cache[i];
        if (huge->mapped_bytes >= size_bytes && may_spare(size_bytes, huge->mapped_bytes - size_bytes) &&
            ((uintptr_t)huge->start & (align_bytes - 1)) == 0 &&
            (best == HUGE_KEEP_ENTRIES || huge->mapped_bytes < books.cache[best]->mapped_bytes))
            best = i;
    }
    struct huge *taken = NULL;
    if (best < HUGE_KEEP_ENTRIES) {
        taken = cache_remove(best);
        books.live_bytes += taken->mapped_bytes;
        books.live_count++;
        slack_set(taken, taken->mapped_bytes - size_bytes);
        note();
    }
    return taken;
}

/* Whether most of a mapping holds data: some places of it do. It reads no memory in that the system has not given. */
static bool is_dense(const char *start, size_t bytes)
{
    enum { PROBES = 8, PROBE_BYTES = 64 };
    uint32_t with_data = 0;
    for (uint32_t i = 0; i < PROBES; i++) {
        const uint64_t *at =
            (const void *)(start + ((bytes / PROBES * i + bytes / (2 * PROBES)) & ~(os_page_bytes() - 1)));
        uint64_t any = 0;
        for (uint32_t word = 0; word < PROBE_BYTES / sizeof *at; word++) any |= at[word];
        with_data += any != 0;
    }
    return 2 * with_data >= PROBES;
}

void huge_cache_clear(const struct huge *huge)
{
    size_t usable_bytes = huge->mapped_bytes - huge->slack_bytes;
    if (ASAN) sanitizer_open(huge->start, huge->mapped_bytes);
    if (!MSAN && !is_dense(huge->start, usable_bytes) && os->purge(huge->start, huge->mapped_bytes) == 0) return;
    memset(huge->start, 0, usable_bytes);
}

size_t huge_cache_new_bytes(size_t size_bytes)
{
    size_t step = ((size_t)1 << (63 - __builtin_clzll(size_bytes))) / 4;
    size_t more_bytes = round_up(size_bytes, step) - size_bytes;
    return books.slack_bytes + more_bytes <= keep() ? size_bytes + more_bytes : size_bytes;
}

static uint32_t cache_oldest(void)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < books.cache_count; i++)
        if (books.cache[i]->cached_ms < books.cache[oldest]->cached_ms) oldest = i;
    return oldest;
}

/* Moves the oldest mapping of the cache to a list of those taken back. Returns the list. */
static struct huge *cache_remove_oldest(struct huge *over)
{
    struct huge *oldest = cache_remove(cache_oldest());
    note_released(oldest->mapped_bytes);
    oldest->next = over;
    return oldest;
}

struct huge *huge_cache_put(struct huge *huge, uint64_t now_ms, uint64_t delay_ms)
{
    struct huge *over = NULL;
    slack_set(huge, 0);
    books.live_bytes -= huge->mapped_bytes;
    books.live_count--;
    size_t kept = keep();
    size_t bytes_max = kept > cache_bytes_max ? kept : cache_bytes_max;
    uint32_t entries_max = kept > 0 ? HUGE_KEEP_ENTRIES : HUGE_CACHE_ENTRIES;
    /* A mapping that has shrunk to a run's length serves no other block. */
    bool is_wanted = delay_ms > 0 && (huge->is_exact || huge->mapped_bytes > RUN_BYTES_MAX);
    /* One mapping may fill the cache if a loop over it has taught that; else half of it, so that it displaces no others. */
    bool is_cached = is_wanted && huge->mapped_bytes <= (kept > 0 ? bytes_max : bytes_max / 2);
    /* Also for a mapping that is not cached: the bytes to keep may have ended with the block. */
    size_t more_bytes = is_cached ? huge->mapped_bytes : 0;
    uint32_t more_entries = is_cached ? 1 : 0;
    while (books.cache_count > 0 &&
           (books.cache_count + more_entries > entries_max || books.cached_bytes + more_bytes > bytes_max))
        over = cache_remove_oldest(over);
    if (is_cached) {
        if (ASAN) sanitizer_close(huge->start, huge->mapped_bytes);
        books.cache[books.cache_count++] = huge;
        any_cached_set();
        books.cached_bytes += huge->mapped_bytes;
        huge->cached_ms = now_ms;
    } else {
        if (is_wanted) note_released(huge->mapped_bytes);
        huge->next = over;
        over = huge;
    }
    note();
    committed_peak_update(limit_committed_bytes());
    return over;
}

struct huge *huge_cache_take_old(uint64_t before_ms)
{
    struct huge *old = NULL;
    if (books.cached_bytes > keep()) {
        uint32_t oldest = cache_oldest();
        if (books.cache[oldest]->cached_ms < before_ms) old = cache_remove(oldest);
        if (old != NULL) note_released(old->mapped_bytes);
    }
    return old;
}

struct huge *huge_cache_count_live(size_t blocks, size_t bytes)
{
    books.live_count += blocks;
    books.live_bytes += bytes;
    if (blocks == 1) note_missed(bytes);
    note();
    struct huge *over = NULL;
    size_t peak = books.live_peak > books.live_peak_before ? books.live_peak : books.live_peak_before,
           committed = limit_committed_bytes();
    while (books.live_bytes + books.cached_bytes > peak && books.cached_bytes > keep()) {
        over = cache_remove_oldest(over);
        committed -= over->mapped_bytes;
    }
    committed_peak_update(committed);
    return over;
}

bool huge_cache_is_in_the_way(void)
{
    return huge_cache_any() && limit_committed_bytes() > committed_peak_get();
}

struct huge *huge_cache_make_way(void)
{
    struct huge *over = NULL;
    size_t committed = limit_committed_bytes();
    while (committed > committed_peak_get() && books.cached_bytes > keep()) {
        over = cache_remove_oldest(over);
        committed -= over->mapped_bytes;
    }
    committed_peak_update(committed); /* what stays is not in the way until more is committed */
    return over;
}

bool huge_cache_resize(struct huge *huge, size_t size_bytes)
{
    if (size_bytes > huge->mapped_bytes) return false;
    size_t slack = huge->mapped_bytes - size_bytes;
    if (slack > huge->slack_bytes && books.slack_bytes - huge->slack_bytes + slack > keep()) return false;
    slack_set(huge, slack);
    return true;
}

void huge_cache_drop(void)
{
    books.cache_count = 0;
    books.cached_bytes = 0;
    any_cached_set();
    huge_cache_forget();
}

bool huge_cache_has(const void *address)
{
    bool found = false;
    for (uint32_t i = 0; i < books.cache_count && !found; i++)
        found = (uintptr_t)address - (uintptr_t)books.cache[i]->start < books.cache[i]->mapped_bytes;
    return found;
}

bool huge_cache_any(void)
{
    return atomic_load_explicit(&any_cached, memory_order_relaxed);
}

void huge_cache_set_bytes(size_t bytes_max)
{
    cache_bytes_max = bytes_max;
}

struct huge_figures huge_cache_figures(void)
{
    return (struct huge_figures){.live_count = books.live_count,
                                 .live_bytes = books.live_bytes,
                                 .cached_bytes = books.cached_bytes,
                                 .slack_bytes = books.slack_bytes};
}

/* --- links ------------------------------------------------------------------------------------------------ */

void *huge_start_of(const struct huge_link *link)
{
    return ((const struct huge *)link)->start; /* the link is the descriptor's first member */
}

size_t huge_usable_of(const struct huge_link *link)
{
    return atomic_load_explicit(&((const struct huge *)link)->usable_bytes, memory_order_relaxed);
}

bool huge_is_mapped(const struct huge_link *link)
{
    const struct huge *huge = (const struct huge *)link;
    return pagemap_huge(huge->start) == link && !atomic_load_explicit(&huge->is_moving, memory_order_relaxed);
}

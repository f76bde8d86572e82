/* huge.c: see huge.h. */
#include "heap/huge.h"

#include <errno.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/sizeclass.h"
#include "os/lock.h"
#include "os/meta.h"
#include "os/os.h"
#include "os/sanitizer.h"
#include "report/failfast.h"
#include "slab/validate.h"
#include "superslab/limit.h"
#include "superslab/pagemap.h"

/* Describes a mapping. It is in one place: in the page map (the block is live), in `cache`, in `stuck`, or, without a
 * mapping, in `spare`. */
struct huge {
    struct huge_link link; /* first: huge_link_of */
    char *start;
    size_t mapped_bytes;
    uint64_t cached_ms;
    struct huge *next; /* in the list spare, stuck, or the one that cache_put returns */
};

static struct huge *spare;                     /* descriptors without a mapping */
static struct huge *stuck;                     /* mappings that the system refused to release */
static struct huge *cache[HUGE_CACHE_ENTRIES]; /* the first cache_count are set */
static uint32_t cache_count;
static _Atomic(bool) any_cached; /* cache_count > 0, for readers without the lock: relaxed */
static size_t cached_bytes, live_bytes, live_count, cache_bytes_max = HUGE_CACHE_BYTES_MAX;
static _Atomic(uint32_t) delay_ms = PURGE_DELAY_MS;
static _Atomic(uint64_t) tick_due_ms;

static void enter(struct huge *huge)
{
    if (ASAN) sanitizer_root(huge->start, huge->mapped_bytes);
    pagemap_descriptor_set(huge->start, huge);
    pagemap_tag_set(huge->start, 1, CLASS_HUGE);
}

static void leave(struct huge *huge)
{
    pagemap_tag_set(huge->start, 1, 0);
    pagemap_descriptor_set(huge->start, NULL);
    if (ASAN) sanitizer_unroot(huge->start, huge->mapped_bytes);
}

/* Changes the length of a block that is in the page map. */
static void mapped_bytes_set(struct huge *huge, size_t mapped_bytes)
{
    if (ASAN) sanitizer_unroot(huge->start, huge->mapped_bytes);
    huge->mapped_bytes = mapped_bytes;
    if (ASAN) sanitizer_root(huge->start, mapped_bytes);
}

static void any_cached_set(bool any)
{
    atomic_store_explicit(&any_cached, any, memory_order_relaxed);
}

/* Takes the lock. If another thread held it when this process was forked, the lists may be half changed: drops them.
 * Their mappings then stay mapped for good. */
static void huge_lock(void)
{
    if (!lock_acquire(LOCK_HUGE)) return;
    spare = stuck = NULL;
    cache_count = 0;
    cached_bytes = 0;
    any_cached_set(false);
}

static uint64_t delay(void)
{
    return atomic_load_explicit(&delay_ms, memory_order_relaxed);
}

/* --- descriptors -------------------------------------------------------------------------------------- */

static struct huge *list_pop(struct huge **list)
{
    huge_lock();
    struct huge *huge = *list;
    if (huge != NULL) *list = huge->next;
    lock_release(LOCK_HUGE);
    return huge;
}

static void list_push(struct huge **list, struct huge *huge)
{
    huge_lock();
    huge->next = *list;
    *list = huge;
    lock_release(LOCK_HUGE);
}

/* --- the cache ---------------------------------------------------------------------------------------- */

static struct huge *cache_remove(uint32_t index)
{
    struct huge *huge = cache[index];
    cache[index] = cache[--cache_count];
    any_cached_set(cache_count > 0);
    cached_bytes -= huge->mapped_bytes;
    return huge;
}

/* Takes the smallest cached mapping that fits and wastes at most an eighth of the size. */
static struct huge *cache_take(size_t align_bytes, size_t size_bytes)
{
    huge_lock();
    uint32_t best = HUGE_CACHE_ENTRIES;
    for (uint32_t i = 0; i < cache_count; i++) {
        const struct huge *huge = cache[i];
        if (huge->mapped_bytes >= size_bytes && huge->mapped_bytes - size_bytes <= size_bytes / 8 &&
            ((uintptr_t)huge->start & (align_bytes - 1)) == 0 &&
            (best == HUGE_CACHE_ENTRIES || huge->mapped_bytes < cache[best]->mapped_bytes))
            best = i;
    }
    struct huge *taken = NULL;
    if (best < HUGE_CACHE_ENTRIES) {
        taken = cache_remove(best);
        live_bytes += taken->mapped_bytes;
        live_count++;
    }
    lock_release(LOCK_HUGE);
    return taken;
}

static uint32_t cache_oldest(void)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < cache_count; i++)
        if (cache[i]->cached_ms < cache[oldest]->cached_ms) oldest = i;
    return oldest;
}

/* Releases a mapping. If the system refuses (too many mappings), gives back at least its memory, keeps it in `stuck` for
 * a later call to try again, and returns false. */
static bool release_or_keep(struct huge *huge)
{
    bool released = os->release(huge->start, huge->mapped_bytes) == 0;
    if (!released) os->purge(huge->start, huge->mapped_bytes);
    list_push(released ? &spare : &stuck, huge);
    return released;
}

static void stuck_retry(void)
{
    for (struct huge *huge; (huge = list_pop(&stuck)) != NULL;)
        if (!release_or_keep(huge)) return;
}

static void destroy(struct huge *huge)
{
    limit_count_huge(-huge->mapped_bytes); /* those in `stuck` are counted no more: they have no memory */
    if (release_or_keep(huge)) stuck_retry();
}

/* Moves a mapping from the live ones to the cache. Returns the list of mappings that the cache has no room for, which
 * the caller must destroy outside of the lock. */
static struct huge *cache_put(struct huge *huge)
{
    struct huge *over = NULL;
    huge_lock();
    live_bytes -= huge->mapped_bytes;
    live_count--;
    if (huge->mapped_bytes > cache_bytes_max / 2 || delay() == 0) {
        huge->next = NULL;
        over = huge;
    } else {
        while (cache_count == HUGE_CACHE_ENTRIES || cached_bytes + huge->mapped_bytes > cache_bytes_max) {
            struct huge *oldest = cache_remove(cache_oldest());
            oldest->next = over;
            over = oldest;
        }
        if (ASAN) sanitizer_close(huge->start, huge->mapped_bytes);
        cache[cache_count++] = huge;
        any_cached_set(true);
        cached_bytes += huge->mapped_bytes;
        huge->cached_ms = os_now_ms();
    }
    lock_release(LOCK_HUGE);
    return over;
}

/* Takes a mapping out that was cached before the given time; NULL if there is none. */
static struct huge *cache_take_old(uint64_t before_ms)
{
    struct huge *old = NULL;
    huge_lock();
    if (cache_count > 0) {
        uint32_t oldest = cache_oldest();
        if (cache[oldest]->cached_ms < before_ms) old = cache_remove(oldest);
    }
    lock_release(LOCK_HUGE);
    return old;
}

static size_t cache_trim(uint64_t before_ms)
{
    size_t bytes = 0;
    for (struct huge *old; (old = cache_take_old(before_ms)) != NULL;) {
        bytes += old->mapped_bytes;
        destroy(old);
    }
    stuck_retry();
    return bytes;
}

bool huge_any_cached(void)
{
    return atomic_load_explicit(&any_cached, memory_order_relaxed);
}

void huge_tick(uint64_t now_ms)
{
    /* relaxed: the thread that advances the time does the work, and does it under the lock. */
    uint64_t due = atomic_load_explicit(&tick_due_ms, memory_order_relaxed);
    if (now_ms < due || now_ms < delay()) return;
    if (atomic_compare_exchange_strong_explicit(&tick_due_ms, &due, now_ms + delay() / 2 + 1, memory_order_relaxed,
                                                memory_order_relaxed))
        cache_trim(now_ms - delay());
}

size_t huge_purge_all(void)
{
    return cache_trim(UINT64_MAX);
}

/* --- alloc and free ------------------------------------------------------------------------------------ */

static bool mapped_size(size_t size_bytes, size_t *mapped_bytes)
{
    if (__builtin_add_overflow(size_bytes, (size_t)PAGE_BYTES - 1, mapped_bytes)) return false;
    *mapped_bytes &= ~((size_t)PAGE_BYTES - 1);
    if (*mapped_bytes == 0) *mapped_bytes = PAGE_BYTES;
    return true;
}

/* A new mapping, with its descriptor; NULL when the system refuses. */
static struct huge *map_new(size_t align_bytes, size_t mapped_bytes)
{
    if (!limit_allows(mapped_bytes)) return NULL;
    struct huge *huge = list_pop(&spare);
    if (huge == NULL) huge = meta_alloc(sizeof *huge);
    if (huge == NULL) return NULL;
    huge->start = pagemap_reserve(mapped_bytes, align_bytes);
    huge->mapped_bytes = mapped_bytes;
    if (huge->start != NULL && os->commit(huge->start, mapped_bytes) == 0) return huge;
    if (huge->start == NULL) list_push(&spare, huge);
    else release_or_keep(huge);
    return NULL;
}

/* Adds to the figures; to subtract, pass the negated number: the sum wraps. */
static void count_live(size_t blocks, size_t bytes)
{
    limit_count_huge(bytes);
    huge_lock();
    live_count += blocks;
    live_bytes += bytes;
    lock_release(LOCK_HUGE);
}

void *huge_alloc(size_t align_bytes, size_t size_bytes, bool *zero)
{
    size_t mapped_bytes;
    if (!mapped_size(size_bytes, &mapped_bytes)) return NULL;
    if (align_bytes < SUPERSLAB_BYTES) align_bytes = SUPERSLAB_BYTES; /* each needs a cell of the page map */
    *zero = false;
    struct huge *huge = cache_take(align_bytes, mapped_bytes);
    if (huge == NULL) {
        *zero = true;
        huge = map_new(align_bytes, mapped_bytes);
        if (huge == NULL && huge_purge_all() > 0) huge = map_new(align_bytes, mapped_bytes);
        if (huge == NULL) return NULL;
        count_live(1, mapped_bytes);
    }
    enter(huge);
    return huge->start;
}

void huge_free(void *pointer)
{
    struct huge *huge = pagemap_descriptor_take(pointer);
    if (HAK_UNLIKELY(huge == NULL)) { /* freed twice at once: only the first thread may cache the mapping */
        if (VALIDATE) failfast_refused(FAILFAST_double_free, pointer, "another thread frees it at the same time");
        return;
    }
    leave(huge);
    struct huge *over = cache_put(huge);
    while (over != NULL) {
        struct huge *next = over->next;
        destroy(over);
        over = next;
    }
    huge_tick(os_now_ms());
}

bool huge_is_cached(const void *address)
{
    bool found = false;
    huge_lock();
    for (uint32_t i = 0; i < cache_count && !found; i++)
        found = (uintptr_t)address - (uintptr_t)cache[i]->start < cache[i]->mapped_bytes;
    lock_release(LOCK_HUGE);
    return found;
}

size_t huge_usable_size(const void *pointer)
{
    return ((struct huge *)pagemap_descriptor(pointer))->mapped_bytes;
}

/* --- realloc -------------------------------------------------------------------------------------------- */

static bool shrink(struct huge *huge, size_t mapped_bytes)
{
    size_t less = huge->mapped_bytes - mapped_bytes;
    if (less == 0) return true;
    if (os->release(huge->start + mapped_bytes, less) != 0) return false;
    mapped_bytes_set(huge, mapped_bytes);
    count_live(0, -less);
    return true;
}

static bool move(struct huge *huge, size_t mapped_bytes)
{
    if (MSAN) return false; /* its shadow would not move along */
    char *target = pagemap_reserve(mapped_bytes, SUPERSLAB_BYTES);
    if (target == NULL) return false;
    leave(huge);
    bool moved = os->move(huge->start, huge->mapped_bytes, target, mapped_bytes) == 0;
    if (moved) {
        huge->start = target;
    } else if (os->reserve(target, mapped_bytes, PAGE_BYTES) == target) {
        os->release(target, mapped_bytes); /* it was unmapped, and nobody had mapped it since */
    } /* else it is still ours or another's mapping by now. That cannot be known, so leave it */
    enter(huge);
    return moved;
}

void *huge_realloc(void *pointer, size_t size_bytes)
{
    size_t mapped_bytes;
    if (!mapped_size(size_bytes, &mapped_bytes)) return NULL;
    struct huge *huge = pagemap_descriptor(pointer);
    size_t old_bytes = huge->mapped_bytes;
    if (mapped_bytes <= old_bytes) {
        /* Small differences are not worth a system call. */
        if (mapped_bytes < old_bytes - old_bytes / 4) shrink(huge, mapped_bytes);
        return pointer;
    }
    int error = limit_allows(mapped_bytes - old_bytes) ? os->grow(huge->start, old_bytes, mapped_bytes) : EFAULT;
    /* EFAULT: the limit, or the program has split the mapping, so it cannot be moved as one either. */
    if (error != 0 && (error == EFAULT || !move(huge, mapped_bytes))) return NULL;
    mapped_bytes_set(huge, mapped_bytes);
    count_live(0, mapped_bytes - old_bytes);
    return huge->start;
}

/* --- start, figures ------------------------------------------------------------------------------------ */

void huge_set_cache_bytes(size_t bytes_max)
{
    huge_lock();
    cache_bytes_max = bytes_max;
    lock_release(LOCK_HUGE);
}

void huge_set_delay_ms(uint32_t new_delay_ms)
{
    atomic_store_explicit(&delay_ms, new_delay_ms, memory_order_relaxed);
}

/* Only the first 4 MiB of a block have a descriptor, so this searches backwards for it, through all of the address
 * space if need be. The page map knows at once which parts are empty. */
bool huge_find(const void *address, char **start, size_t *mapped_bytes)
{
    uintptr_t at;
    const struct huge *huge = pagemap_descriptor_below(address, &at);
    /* A descriptor without this tag is a superslab's. */
    if (huge == NULL || !tag_is_huge(pagemap_tag_checked((const void *)at))) return false;
    *start = (char *)at;
    *mapped_bytes = huge->mapped_bytes;
    return (uintptr_t)address - at < *mapped_bytes;
}

struct huge_figures huge_figures(void)
{
    huge_lock();
    struct huge_figures figures = {.live_count = live_count, .live_bytes = live_bytes, .cached_bytes = cached_bytes};
    lock_release(LOCK_HUGE);
    return figures;
}

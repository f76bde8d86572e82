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
#include "superslab/pagemap.h"

/* A mapping. In use: found through the page map. Cached: in `cache`. Neither: in `spare`. */
struct huge {
    char *start;
    size_t mapped_bytes;
    uint64_t cached_ms;
    struct huge *next; /* in a list: spare, stuck, what the cache gave up */
};

static struct huge *spare;                     /* descriptors without a mapping */
static struct huge *stuck;                     /* mappings that the system did not take back */
static struct huge *cache[HUGE_CACHE_ENTRIES]; /* the first cache_count are set */
static uint32_t cache_count;
static _Atomic(bool) any_cached; /* cache_count > 0, for those without the lock: relaxed everywhere */
static size_t cached_bytes, live_bytes, live_count;
static size_t cache_bytes_max = HUGE_CACHE_BYTES_MAX;
static _Atomic(uint32_t) delay_ms = PURGE_DELAY_MS;
static _Atomic(uint64_t) tick_due_ms;

static struct huge *descriptor_of(const void *pointer)
{
    return pagemap_descriptor(pointer);
}

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

/* A block that is entered has another length from now on. */
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

/* Takes the lock. Where fork caught a thread of the parent in here, the lists may be half changed:
 * what they held is forgotten, and stays mapped. */
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

static struct huge *descriptor_take(void)
{
    struct huge *huge = list_pop(&spare);
    return huge != NULL ? huge : meta_alloc(sizeof *huge);
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

/* The smallest cached mapping that fits and wastes no more than an eighth. */
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

/* Unmaps and forgets. If the system refuses (too many mappings) the memory at least goes back, and
 * the mapping waits in `stuck` for a later call to try again. */
static void destroy(struct huge *huge)
{
    while (huge != NULL) {
        if (os->release(huge->start, huge->mapped_bytes) != 0) {
            os->purge(huge->start, huge->mapped_bytes);
            list_push(&stuck, huge);
            return;
        }
        list_push(&spare, huge);
        huge = list_pop(&stuck);
    }
}

/* The mapping leaves the live ones for the cache. What the cache has no room for any more is
 * returned as a list, for the caller to destroy without the lock. */
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

/* Removes a mapping that was cached before the given time, NULL if there is none. */
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
    return bytes;
}

bool huge_any_cached(void)
{
    return atomic_load_explicit(&any_cached, memory_order_relaxed);
}

void huge_tick(uint64_t now_ms)
{
    /* relaxed: whoever moves the time on does the work, which is under the lock. */
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

static char *map(size_t align_bytes, size_t mapped_bytes)
{
    char *start = pagemap_reserve(mapped_bytes, align_bytes);
    if (start == NULL) return NULL;
    if (os->commit(start, mapped_bytes) == 0) return start;
    os->release(start, mapped_bytes);
    return NULL;
}

/* Modulo SIZE_MAX + 1: a negative change is a large one. */
static void count_live(size_t blocks, size_t bytes)
{
    huge_lock();
    live_count += blocks;
    live_bytes += bytes;
    lock_release(LOCK_HUGE);
}

void *huge_alloc(size_t align_bytes, size_t size_bytes, bool *zero)
{
    size_t mapped_bytes;
    if (!mapped_size(size_bytes, &mapped_bytes)) return NULL;
    if (align_bytes < SUPERSLAB_BYTES) align_bytes = SUPERSLAB_BYTES; /* one descriptor each */
    *zero = false;
    struct huge *huge = cache_take(align_bytes, mapped_bytes);
    if (huge == NULL) {
        *zero = true;
        huge = descriptor_take();
        if (huge == NULL) return NULL;
        huge->start = map(align_bytes, mapped_bytes);
        if (huge->start == NULL && huge_purge_all() > 0) huge->start = map(align_bytes, mapped_bytes);
        if (huge->start == NULL) {
            list_push(&spare, huge);
            return NULL;
        }
        huge->mapped_bytes = mapped_bytes;
        count_live(1, mapped_bytes);
    }
    enter(huge);
    return huge->start;
}

void huge_free(void *pointer)
{
    struct huge *huge = pagemap_descriptor_take(pointer);
    if (HAK_UNLIKELY(huge == NULL)) { /* else the mapping would be cached twice, and given to two threads */
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
    return descriptor_of(pointer)->mapped_bytes;
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
    if (MSAN) return false; /* what it holds about the content would stay behind */
    char *target = pagemap_reserve(mapped_bytes, SUPERSLAB_BYTES);
    if (target == NULL) return false;
    leave(huge);
    bool moved = os->move(huge->start, huge->mapped_bytes, target, mapped_bytes) == 0;
    if (moved) {
        huge->start = target;
    } else if (os->reserve(target, mapped_bytes, PAGE_BYTES) == target) {
        os->release(target, mapped_bytes); /* it was gone, and nobody else's yet */
    } /* else still ours, or another's by now: which, nobody can tell; it is left */
    enter(huge);
    return moved;
}

void *huge_realloc(void *pointer, size_t size_bytes)
{
    size_t mapped_bytes;
    if (!mapped_size(size_bytes, &mapped_bytes)) return NULL;
    struct huge *huge = descriptor_of(pointer);
    size_t old_bytes = huge->mapped_bytes;
    if (mapped_bytes <= old_bytes) {
        /* Small differences are left: they would cost a system call each. */
        if (mapped_bytes < old_bytes - old_bytes / 4) shrink(huge, mapped_bytes);
        return pointer;
    }
    int error = os->grow(huge->start, old_bytes, mapped_bytes);
    /* EFAULT: the program has split the mapping, and no more can it be moved as one. */
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

/* Only the first 4 MiB of a block have a descriptor, so the search goes back to it: over all of the address space if
 * need be, of which the page map knows at once what holds nothing. */
bool huge_find(const void *address, char **start, size_t *mapped_bytes)
{
    uintptr_t at;
    const struct huge *huge = pagemap_descriptor_below(address, &at);
    if (huge == NULL || pagemap_tag_checked((const void *)at) != CLASS_HUGE) return false; /* or a superslab's */
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

/* huge.c: see huge.h. More than 400 lines: what makes, takes and gives back mappings shares their lists. */
#include "heap/huge.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/config.h"
#include "base/sizeclass.h"
#include "heap/huge_cache.h"
#include "os/lock.h"
#include "os/meta.h"
#include "os/os.h"
#include "os/sanitizer.h"
#include "report/failfast.h"
#include "superslab/limit.h"
#include "superslab/pagemap.h"

static struct huge *spare; /* descriptors without a mapping */
static struct huge *stuck; /* mappings that the system refused to release */
static _Atomic(uint32_t) delay_ms = PURGE_DELAY_MS;
static _Atomic(uint64_t) tick_due_ms;

/* Changes the length of a live block's mapping. */
static void mapped_bytes_set(struct huge *huge, size_t mapped_bytes)
{
    if (ASAN) sanitizer_unroot(huge->start, huge->mapped_bytes);
    huge->mapped_bytes = mapped_bytes;
    if (ASAN) sanitizer_root(huge->start, mapped_bytes);
}

/* Takes the lock. If another thread held it when this process was forked, the lists may be half changed: drops them.
 * Their mappings then stay mapped for good. */
/* unreached: by chance: a fork while another thread is in here */
static void huge_lock(void)
{
    if (!lock_acquire(LOCK_HUGE)) return;
    spare = stuck = NULL;
    huge_cache_drop();
}

static uint64_t delay(void)
{
    return atomic_load_explicit(&delay_ms, memory_order_relaxed);
}

/* --- mappings ----------------------------------------------------------------------------------------- */

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

/* Releases a mapping that is not in the page map. If the system refuses (too many mappings), gives back at least its memory,
 * keeps it in `stuck` for a later call to try again, and returns false. */
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
    pagemap_huge_leave(huge->start, huge);
    limit_count_huge(-huge->mapped_bytes); /* those in `stuck` are counted no more: they have no memory */
    if (release_or_keep(huge)) stuck_retry();
}

static void destroy_all(struct huge *list)
{
    while (list != NULL) {
        struct huge *next = list->next;
        destroy(list);
        list = next;
    }
}

/* Maps memory and enters it into the page map. False: the system refuses (start is NULL), or another mapping begins in the
 * same cell. */
static bool map_entered(struct huge *huge, size_t align_bytes, size_t mapped_bytes)
{
    huge->start = pagemap_map(mapped_bytes, align_bytes);
    huge->mapped_bytes = mapped_bytes;
    huge->slack_bytes = 0;
    atomic_store_explicit(&huge->usable_bytes, mapped_bytes, memory_order_relaxed); /* as in slack_set */
    return huge->start != NULL && pagemap_huge_enter(huge->start, mapped_bytes, huge);
}

static struct huge *descriptor_take(void)
{
    struct huge *huge = list_pop(&spare);
    return huge != NULL ? huge : meta_alloc(sizeof *huge);
}

/* A new mapping that is in the page map; NULL when the system or the limit refuses. Of two that would begin in one cell one is
 * shorter than a cell. The second is mapped again, with a cell of its own. */
static struct huge *map_new(size_t align_bytes, size_t mapped_bytes)
{
    if (!limit_allows(mapped_bytes)) return NULL;
    struct huge *huge = descriptor_take();
    if (huge == NULL || map_entered(huge, align_bytes, mapped_bytes)) return huge;
    if (huge->start == NULL) {
        list_push(&spare, huge);
        return NULL;
    }
    release_or_keep(huge);
    return map_new(align_bytes > CELL_BYTES ? align_bytes : CELL_BYTES,
                   mapped_bytes > CELL_BYTES ? mapped_bytes : CELL_BYTES);
}

/* --- the cache ---------------------------------------------------------------------------------------- */

static struct huge *take_old(uint64_t before_ms)
{
    huge_lock();
    struct huge *old = huge_cache_take_old(before_ms);
    lock_release(LOCK_HUGE);
    return old;
}

static size_t cache_trim(uint64_t before_ms)
{
    size_t bytes = 0;
    for (struct huge *old; (old = take_old(before_ms)) != NULL;) {
        bytes += old->mapped_bytes;
        destroy(old);
    }
    stuck_retry();
    return bytes;
}

bool huge_any_cached(void)
{
    return huge_cache_any();
}

static HAK_COLD void make_way(void)
{
    huge_lock();
    struct huge *over = huge_cache_make_way();
    lock_release(LOCK_HUGE);
    destroy_all(over);
}

void huge_tick(uint64_t now_ms)
{
    if (HAK_UNLIKELY(huge_cache_is_in_the_way())) make_way();
    /* relaxed: the thread that advances the time does the work, and does it under the lock. */
    uint64_t due = atomic_load_explicit(&tick_due_ms, memory_order_relaxed);
    if (now_ms < due || now_ms < delay()) return;
    if (!atomic_compare_exchange_strong_explicit(&tick_due_ms, &due, now_ms + delay() / 2 + 1, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    huge_lock();
    huge_cache_tick(now_ms, delay());
    lock_release(LOCK_HUGE);
    cache_trim(now_ms - delay());
}

static void keep_forget(void)
{
    huge_lock();
    huge_cache_forget();
    lock_release(LOCK_HUGE);
}

size_t huge_purge_all(void)
{
    keep_forget();
    size_t bytes = cache_trim(UINT64_MAX);
    keep_forget(); /* here memory matters more than speed: none of it was taken back too early */
    return bytes;
}

size_t huge_learned_bytes(void)
{
    huge_lock();
    size_t learned_bytes = huge_cache_learned_bytes();
    lock_release(LOCK_HUGE);
    return learned_bytes;
}

/* --- alloc and free ------------------------------------------------------------------------------------ */

static bool mapped_size(size_t size_bytes, bool is_exact, size_t *mapped_bytes)
{
    size_t page_bytes = is_exact ? os_page_bytes() : PAGE_BYTES;
    if (__builtin_add_overflow(size_bytes, page_bytes - 1, mapped_bytes)) return false;
    *mapped_bytes &= ~(page_bytes - 1);
    if (*mapped_bytes == 0) *mapped_bytes = page_bytes;
    return true;
}

/* As huge_cache_count_live, and destroys what that returns. */
static void count_live(size_t blocks, size_t bytes)
{
    limit_count_huge(bytes);
    huge_lock();
    struct huge *over = huge_cache_count_live(blocks, bytes);
    lock_release(LOCK_HUGE);
    destroy_all(over);
}

/* As huge_cache_resize. */
static bool resize_within(struct huge *huge, size_t size_bytes)
{
    huge_lock();
    bool fits = huge_cache_resize(huge, size_bytes);
    lock_release(LOCK_HUGE);
    return fits;
}

/* Gives back the end of a mapping, where the system takes it. */
static void shrink(struct huge *huge, size_t mapped_bytes)
{
    size_t less = huge->mapped_bytes - mapped_bytes;
    if (less == 0 || os->release(huge->start + mapped_bytes, less) != 0) return;
    mapped_bytes_set(huge, mapped_bytes);
    count_live(0, -less);
    resize_within(huge, mapped_bytes);
}

static void *alloc(size_t align_bytes, size_t size_bytes, bool is_exact, bool zeroed)
{
    size_t mapped_bytes;
    if (!mapped_size(size_bytes, is_exact, &mapped_bytes)) return NULL;
    if (align_bytes < PAGE_BYTES) align_bytes = PAGE_BYTES;
    if (mapped_bytes < CELL_BYTES && align_bytes < CELL_BYTES)
        align_bytes = CELL_BYTES; /* so that it shares its cell with no other */
    bool fits = true, is_cached = true;
    huge_lock();
    struct huge *huge = huge_cache_take(align_bytes, mapped_bytes);
    size_t new_bytes = is_exact ? mapped_bytes : huge_cache_new_bytes(mapped_bytes);
    lock_release(LOCK_HUGE);
    if (huge == NULL) {
        is_cached = false;
        huge = map_new(align_bytes, new_bytes);
        if (huge == NULL && new_bytes > mapped_bytes) huge = map_new(align_bytes, mapped_bytes);
        if (huge == NULL) return NULL;
        count_live(1, huge->mapped_bytes);
        fits = resize_within(huge, mapped_bytes);
    }
    huge->is_exact = is_exact;
    if (zeroed && is_cached) huge_cache_clear(huge);
    if (ASAN) sanitizer_root(huge->start, huge->mapped_bytes);
    pagemap_tag_set(huge->start, 1, CLASS_HUGE);
    /* The soft limit is exceeded now, or another thread has purged: nothing may be to spare any more. */
    if (HAK_UNLIKELY(!fits)) shrink(huge, mapped_bytes);
    return huge->start;
}

void *huge_alloc(size_t align_bytes, size_t size_bytes, bool zeroed)
{
    return alloc(align_bytes, size_bytes, false, zeroed);
}

void *huge_alloc_exact(size_t align_bytes, size_t size_bytes, bool zeroed)
{
    return alloc(align_bytes, size_bytes, true, zeroed);
}

void huge_free(void *pointer)
{
    if (HAK_UNLIKELY(!pagemap_tag_take(pointer, CLASS_HUGE))) { /* only the first thread may cache the mapping */
        if (VALIDATE) failfast_refused(FAILFAST_double_free, pointer, "another thread frees it at the same time");
        return;
    }
    struct huge *huge = pagemap_huge(pointer);
    if (ASAN) sanitizer_unroot(huge->start, huge->mapped_bytes);
    uint64_t now_ms = os_now_ms();
    huge_lock();
    struct huge *over = huge_cache_put(huge, now_ms, delay());
    lock_release(LOCK_HUGE);
    destroy_all(over);
    huge_tick(now_ms);
}

bool huge_is_cached(const void *address)
{
    huge_lock();
    bool found = huge_cache_has(address);
    lock_release(LOCK_HUGE);
    return found;
}

size_t huge_usable_size(const void *pointer)
{
    return huge_usable_of(huge_link_of(pointer));
}

/* --- realloc -------------------------------------------------------------------------------------------- */

/* Gives back a place that the block did not move to. The system may have unmapped it, and others may have mapped it since:
 * that cannot be known, so it then stays as it is. */
static void target_release(char *target, size_t size_bytes)
{
    if (os->reserve(target, size_bytes, PAGE_BYTES) == target) os->release(target, size_bytes);
}

static bool move(struct huge *huge, size_t mapped_bytes)
{
    if (MSAN) return false; /* its shadow would not move along */
    char *start = huge->start, *target = pagemap_reserve(mapped_bytes, CELL_BYTES);
    if (target == NULL) return false;
    bool moved = pagemap_huge_enter(target, mapped_bytes, huge);
    if (!moved) {
        os->release(target, mapped_bytes);
        return false;
    }
    if (ASAN) sanitizer_unroot(start, huge->mapped_bytes);
    pagemap_tag_set(start, 1, 0);
    /* A child that is forked before the end does not know where the block is. relaxed: it has one thread. */
    atomic_store_explicit(&huge->is_moving, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    moved = os->move(start, huge->mapped_bytes, target, mapped_bytes) == 0;
    if (moved) huge->start = target;
    pagemap_huge_leave(moved ? start : target, huge);
    if (!moved) target_release(target, mapped_bytes);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&huge->is_moving, false, memory_order_relaxed);
    pagemap_tag_set(huge->start, 1, CLASS_HUGE);
    if (ASAN) sanitizer_root(huge->start, huge->mapped_bytes);
    return moved;
}

bool huge_may_stay(const void *pointer, size_t size_bytes)
{
    if (size_bytes > RUN_BYTES_MAX) return true;
    const struct huge *huge = pagemap_huge(pointer);
    if (huge->is_exact) return size_bytes > SMALL_BYTES_MAX;
    return size_bytes >= HUGE_SHRUNK_BYTES_MIN && huge_figures().live_count <= HUGE_SHRUNK_LIVE_MAX;
}

void *huge_realloc(void *pointer, size_t size_bytes)
{
    size_t mapped_bytes;
    struct huge *huge = pagemap_huge(pointer);
    if (!mapped_size(size_bytes, huge->is_exact, &mapped_bytes)) return NULL;
    size_t old_bytes = huge->mapped_bytes, had_bytes = old_bytes - huge->slack_bytes;
    if (mapped_bytes <= had_bytes) {
        /* Small differences are not worth a system call. */
        if (mapped_bytes < had_bytes - had_bytes / 4 && !resize_within(huge, mapped_bytes)) shrink(huge, mapped_bytes);
        return pointer;
    }
    if (resize_within(huge, mapped_bytes)) return pointer;
    int error = limit_allows(mapped_bytes - old_bytes) ? os->grow(huge->start, old_bytes, mapped_bytes) : EFAULT;
    /* EFAULT: the limit, or the program has split the mapping, so it cannot be moved as one either. */
    if (error != 0 && (error == EFAULT || !move(huge, mapped_bytes))) return NULL;
    /* Counted first: a child that is forked between the two must not free more than was counted. */
    count_live(0, mapped_bytes - old_bytes);
    mapped_bytes_set(huge, mapped_bytes);
    resize_within(huge, mapped_bytes);
    return huge->start;
}

/* --- start, figures ------------------------------------------------------------------------------------ */

void huge_set_cache_bytes(size_t bytes_max)
{
    huge_lock();
    huge_cache_set_bytes(bytes_max);
    lock_release(LOCK_HUGE);
}

void huge_set_delay_ms(uint32_t new_delay_ms)
{
    atomic_store_explicit(&delay_ms, new_delay_ms, memory_order_relaxed);
}

/* The page map has only the beginnings of blocks, so this searches backwards, through all of the address space if need be.
 * The map knows at once which parts are empty. */
bool huge_find(const void *address, char **start, size_t *block_bytes)
{
    uintptr_t at;
    const struct huge *huge = pagemap_huge_below(address, &at);
    if (huge == NULL || !tag_is_huge(pagemap_tag_checked((const void *)at))) return false; /* no tag: it is cached */
    *start = (char *)at;
    /* relaxed: the block may be freed or resized meanwhile. Frames lie at the ends of these bytes. */
    *block_bytes = atomic_load_explicit(&huge->usable_bytes, memory_order_relaxed);
    return (uintptr_t)address - at < *block_bytes;
}

struct huge_figures huge_figures(void)
{
    huge_lock();
    struct huge_figures figures = huge_cache_figures();
    lock_release(LOCK_HUGE);
    return figures;
}

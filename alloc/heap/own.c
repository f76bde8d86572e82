/* own.c: see own.h. */
#include "heap/own.h"

#include <errno.h>
#include <string.h>

#include "base/hooks.h"
#include "cache/thread.h"
#include "hakmem/hakmem.h"
#include "heap/bound.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/own_inside.h"
#include "os/meta.h"
#include "os/sanitizer.h"
#include "report/failfast.h"
#include "slab/slab.h"
#include "slab/validate.h"
#include "superslab/pool.h"

/* A heap's body is taken again only when this number of others were destroyed since, so that a call on a destroyed heap
 * is found. */
enum { SPARES_MIN = VALIDATE ? 32 : 0 };

/* Under LOCK_OWN_HEAPS, but for readers of `all`. */
static _Atomic(struct hak_heap *) all;
static struct hak_heap *spare_first, *spare_last;
static uint32_t spare_count;

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

struct hak_heap *own_first(void)
{
    /* acquire: pairs with the release in body_take. */
    return atomic_load_explicit(&all, memory_order_acquire);
}

/* Under VALIDATE: whether the program may use the heap; reports it if not. */
static bool may_use(const struct hak_heap *heap, const char *call)
{
    if (!VALIDATE || own_is_live(heap)) return true;
    const char *before = failfast_call_set(call);
    failfast_refused(FAILFAST_destroyed_heap, heap, "the address is that of the heap itself");
    failfast_call_set(before);
    return false;
}

/* --- heaps ---------------------------------------------------------------------------------------------- */

void own_heaps_lock(void)
{
    if (!lock_acquire(LOCK_OWN_HEAPS)) return;
    spare_count = 0;
    if (VALIDATE) own_dead_drop();
}

/* Under LOCK_OWN_HEAPS. A body that was never used, or was emptied by destroy. */
static struct hak_heap *body_take(void)
{
    struct hak_heap *heap = spare_first;
    if (spare_count > SPARES_MIN) {
        spare_first = heap->next_spare;
        spare_count--;
        return heap;
    }
    heap = meta_alloc(sizeof *heap);
    if (heap == NULL) return NULL;
    heap->owner.tag = CLASS_OWN;
    heap->owner.keeps_empty = true;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++)
        owner_limit_set(&heap->owner, class_index, 1);
    heap->next = atomic_load_explicit(&all, memory_order_relaxed);
    /* release: publishes the body. Pairs with own_first. */
    atomic_store_explicit(&all, heap, memory_order_release);
    return heap;
}

/* As a fresh body, though the heap before may have left a limit, or a trim that had not ended. */
static void body_begin(struct hak_heap *heap)
{
    struct owner *owner = &heap->owner;
    owner->has_limit = owner->trimmed_is_wanted = false;
    owner->trims_wanted = owner->trim_class = 0;
    owner->trimmed_pages_released = owner->trim_ahead = 0;
    owner->trimmed_ms = owner->put_off_ms = 0;
    owner->put_off_bytes = owner->idle_bytes_kept = 0;
    owner->trim_at = NULL;
    heap->limit_bytes = SIZE_MAX;
    heap->peak_bytes = heap->seen_bytes = 0;
    heap->kept_bytes = 0;
    heap->is_purged = false;
}

struct hak_heap *hak_heap_new(void)
{
    if (!thread_process_start()) return no_memory();
    own_heaps_lock();
    struct hak_heap *heap = body_take();
    lock_release(LOCK_OWN_HEAPS);
    if (heap == NULL) return no_memory();
    own_lock(heap); /* a purge may hold a body that was another heap's */
    body_begin(heap);
    atomic_store_explicit(&heap->live, true, memory_order_relaxed);
    own_unlock(heap);
    return heap;
}

/* Frees pages of which the program had blocks. */
static void pages_discard(struct slab *slab, uint32_t slab_eighths)
{
    struct superslab *superslab = superslab_of(slab);
    uint32_t first = slab->page_index, pages = slab->page_count;
    char *start = superslab_page_start(superslab, slab);
    if (VALIDATE) hooks.blocks_discarded(slab);
    if (slab_eighths == 0) large_end(slab);
    if (SANITIZED) sanitizer_returned(start, (size_t)pages * PAGE_BYTES);
    if (VALIDATE) {
        validate_discarded(start, pages);
        own_dead_put(superslab, first, pages, slab_eighths);
        return;
    }
    pagemap_tag_set(start, pages, 0);
    pool_free(superslab, first, pages, slab_eighths);
}

static void slabs_discard(struct slab **list, bool are_runs)
{
    for (struct slab *slab; (slab = *list) != NULL;) {
        uint32_t eighths = are_runs ? 0 : slab_fill_eighths(slab);
        if (are_runs || slab->full) own_list_remove(list, slab);
        if (!are_runs) slab_discard(slab);
        pages_discard(slab, eighths);
    }
}

/* Gives back every block, and what the heap keeps. The program has no call on the heap or its blocks under way. */
static void empty(struct hak_heap *heap)
{
    own_lock(heap);
    /* A purge by another thread may have given the lock back a moment ago and not looked at the list again (own_unlock).
     * relaxed: nobody posts now. */
    atomic_store_explicit(&heap->posted, NULL, memory_order_relaxed);
    memset(heap->bins, 0, sizeof heap->bins);
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++)
        slabs_discard(&heap->owner.slabs[class_index], false);
    slabs_discard(&heap->full, false);
    slabs_discard(&heap->runs, true);
    struct huge_link *huge = heap->huges;
    heap->huges = NULL;
    heap->slab_bytes = heap->large_bytes = 0;
    heap->owner.used_bytes_peak = 0;
    own_unlock(heap);
    for (struct huge_link *next; huge != NULL; huge = next) {
        next = huge->next;
        if (VALIDATE) hooks.block_discarded(huge_start_of(huge));
        if (SANITIZED) heap_tell_returned(huge_start_of(huge));
        pagemap_tag_set(huge_start_of(huge), 1, CLASS_HUGE);
        huge_free(huge_start_of(huge));
    }
}

void hak_heap_free_all(struct hak_heap *heap)
{
    if (VALIDATE && !may_use(heap, "hak_heap_free_all")) return;
    empty(heap);
}

void hak_heap_destroy(struct hak_heap *heap)
{
    if (heap == NULL || (VALIDATE && !may_use(heap, "hak_heap_destroy"))) return;
    atomic_store_explicit(&heap->live, false, memory_order_relaxed);
    empty(heap);
    own_heaps_lock();
    heap->next_spare = NULL;
    if (spare_count++ == 0) spare_first = heap;
    else spare_last->next_spare = heap;
    spare_last = heap;
    lock_release(LOCK_OWN_HEAPS);
}

void hak_heap_limit_set(struct hak_heap *heap, size_t limit_bytes)
{
    if (VALIDATE && !may_use(heap, "hak_heap_limit_set")) return;
    own_lock(heap);
    heap->limit_bytes = limit_bytes;
    heap->owner.has_limit = limit_bytes != SIZE_MAX;
    own_unlock(heap);
}

size_t hak_heap_limit_get(struct hak_heap *heap)
{
    if (VALIDATE && !may_use(heap, "hak_heap_limit_get")) return 0;
    own_lock(heap);
    size_t limit_bytes = heap->limit_bytes;
    own_unlock(heap);
    return limit_bytes;
}

size_t own_purge_all(void)
{
    size_t bytes = 0;
    for (struct hak_heap *heap = own_first(); heap != NULL; heap = heap->next) {
        if (!own_is_live(heap) || !own_try_lock(heap)) continue;
        bytes += own_give_back_unused(heap);
        own_unlock(heap);
    }
    return bytes;
}

size_t own_purge_idle(void)
{
    size_t bytes = 0;
    for (struct hak_heap *heap = own_first(); heap != NULL; heap = heap->next) {
        if (!own_is_live(heap) || !own_try_lock(heap)) continue;
        bool is_idle = owner_used_bytes(&heap->owner) + own_binned_bytes(heap) == heap->seen_bytes;
        if (is_idle && !heap->is_purged) bytes += own_give_back_unused(heap);
        heap->is_purged = is_idle;
        heap->seen_bytes = owner_used_bytes(&heap->owner) + own_binned_bytes(heap);
        own_unlock(heap);
    }
    return bytes;
}

/* --- blocks --------------------------------------------------------------------------------------------- */

static void *alloc_once(struct hak_heap *heap, size_t align_bytes, size_t size_bytes, bool zeroed, bool *at_limit)
{
    if (size_bytes > SMALL_BYTES_MAX || align_bytes > SMALL_BYTES_MAX)
        return own_large_alloc(heap, align_bytes, size_bytes, zeroed, at_limit);
    if (size_bytes == 0) size_bytes = 1;
    uint32_t class_index =
        align_bytes <= GRANULE_BYTES ? sizeclass_of(size_bytes) : sizeclass_of_aligned(size_bytes, align_bytes);
    return own_small_alloc(heap, class_index, at_limit);
}

/* If the bin has no block, another thread has the lock, or the block is large or aligned. */
static HAK_NOINLINE void *alloc_slow(struct hak_heap *heap, size_t align_bytes, size_t size_bytes, bool zeroed)
{
    if (VALIDATE && !may_use(heap, "hak_heap_malloc")) return no_memory();
    if (size_bytes > PTRDIFF_MAX || align_bytes > PTRDIFF_MAX) return no_memory();
    bool at_limit = false;
    void *block = alloc_once(heap, align_bytes, size_bytes, zeroed, &at_limit);
    if (HAK_UNLIKELY(block == NULL && !at_limit)) { /* the system has no memory, or the process is at its limit */
        do {
            if (bound_make_room(size_bytes)) block = alloc_once(heap, align_bytes, size_bytes, zeroed, &at_limit);
            if (block != NULL || at_limit || !bound_ask(size_bytes)) break;
            block = alloc_once(heap, align_bytes, size_bytes, zeroed, &at_limit);
        } while (block == NULL && !at_limit);
    }
    return block != NULL ? heap_given(block, size_bytes) : no_memory();
}

/* It saves no registers: it calls nothing but at its end. */
void *own_alloc(struct hak_heap *heap, size_t align_bytes, size_t size_bytes, bool zeroed)
{
    const bool is_plain = size_bytes - 1 < SMALL_BYTES_MAX && align_bytes <= GRANULE_BYTES;
    if (HAK_LIKELY(is_plain && (!VALIDATE || own_is_live(heap))) && HAK_LIKELY(lock_word_try(&heap->lock, LOCK_OWN))) {
        const uint32_t class_index = sizeclass_of(size_bytes);
        if (HAK_LIKELY(heap->bins[class_index].head != NULL && !heap->torn)) {
            struct block *block = own_bin_pop(heap, class_index);
            if (HAK_UNLIKELY(!own_unlock_soon(heap))) block = own_unlock_posted(heap, block);
            return heap_given(block, size_bytes);
        }
        lock_word_release(&heap->lock, LOCK_OWN);
    }
    return alloc_slow(heap, align_bytes, size_bytes, zeroed);
}

void *own_calloc(struct hak_heap *heap, size_t count, size_t size_bytes)
{
    size_t total_bytes;
    if (__builtin_mul_overflow(count, size_bytes, &total_bytes)) return no_memory();
    void *block = own_alloc(heap, GRANULE_BYTES, total_bytes, true);
    if (block == NULL) return NULL;
    if (total_bytes <= SMALL_BYTES_MAX) memset(block, 0, SANITIZED ? total_bytes : own_usable_size(block));
    else if (MSAN) sanitizer_zeroed(block, total_bytes);
    return block;
}

size_t own_usable_size(const void *pointer)
{
    uint32_t tag = pagemap_tag_checked(pointer), class_index = tag_slab_class(tag);
    if (class_index != CLASS_EMPTY) return sizeclass_bytes(class_index);
    if (tag == CLASS_OWN) return large_usable_size(pointer);
    return tag == CLASS_OWN_HUGE ? huge_usable_size(pointer) : 0;
}

struct hak_heap *own_of(const void *pointer)
{
    uint32_t tag = pagemap_tag_checked(pointer);
    if (tag == CLASS_OWN_HUGE) return huge_link_of(pointer)->heap;
    bool is_own = tag >= CLASS_OWN && tag < CLASS_OWN_DEAD;
    return is_own ? own_heap_of(slab_of(pointer)) : NULL;
}

void own_free(void *pointer, uint32_t tag)
{
    const uint32_t class_index = tag - CLASS_OWN;
    if (HAK_LIKELY(class_index - 1 < CLASS_COUNT - 1)) {
        own_small_free(own_heap_of(slab_of(pointer)), pointer, class_index);
    } else if (tag == CLASS_OWN_HUGE) {
        own_huge_free(pointer);
    } else if (tag == CLASS_OWN) {
        own_run_free(own_heap_of(slab_of(pointer)), pointer);
    } /* else CLASS_OWN_DEAD */
}

/* --- realloc --------------------------------------------------------------------------------------------- */

static void *resize_in_place(struct hak_heap *heap, void *pointer, size_t usable_bytes, size_t size_bytes)
{
    uint32_t tag = pagemap_tag(pointer);
    bool is_large = (tag == CLASS_OWN && size_bytes > SMALL_BYTES_MAX && size_bytes <= RUN_BYTES_MAX) ||
                    (tag == CLASS_OWN_HUGE && size_bytes > RUN_BYTES_MAX);
    if (is_large) return own_large_resize(heap, pointer, usable_bytes, size_bytes);
    return size_bytes <= usable_bytes && size_bytes >= usable_bytes / 2 ? pointer : NULL;
}

void *own_realloc(struct hak_heap *heap, void *pointer, size_t size_bytes)
{
    if (VALIDATE && !may_use(heap, "hak_heap_realloc")) return no_memory();
    size_t usable_bytes = heap_usable_size(pointer);
    bool is_own = own_of(pointer) == heap;
    void *resized = is_own ? resize_in_place(heap, pointer, usable_bytes, size_bytes) : NULL;
    if (resized != NULL) return heap_told_resized(resized, usable_bytes, size_bytes);
    int saved = errno;
    void *moved = own_alloc(heap, GRANULE_BYTES, size_bytes, false);
    if (moved == NULL && size_bytes <= usable_bytes && is_own) { /* the old block is too large, but it will do */
        errno = saved;
        return heap_told_resized(pointer, usable_bytes, size_bytes);
    }
    if (moved == NULL) return NULL;
    if (ASAN) sanitizer_open(pointer, usable_bytes);
    memcpy(moved, pointer, usable_bytes < size_bytes ? usable_bytes : size_bytes);
    heap_free(pointer);
    return moved;
}

void *own_realloc_any(struct hak_heap *heap, void *pointer, size_t size_bytes)
{
    if (VALIDATE && !heap_may_resize(pointer)) return NULL;
    if (size_bytes > PTRDIFF_MAX) return no_memory();
    if (size_bytes != 0) return own_realloc(heap, pointer, size_bytes);
    heap_free(pointer);
    return NULL;
}

/* --- figures ---------------------------------------------------------------------------------------------- */

size_t hak_heap_figures_get(struct hak_heap *heap, struct hak_heap_figures *out, size_t size_bytes)
{
    struct hak_heap_figures all_of_them = {0};
    if (!VALIDATE || may_use(heap, "hak_heap_figures_get")) {
        own_lock(heap);
        all_of_them = (struct hak_heap_figures){
            .used_bytes = owner_used_bytes(&heap->owner) - own_binned_bytes(heap) + heap->large_bytes,
            .resident_bytes = own_resident_bytes(heap),
            .resident_peak_bytes = heap->peak_bytes,
            .committed_bytes = heap->slab_bytes + heap->large_bytes,
            .limit_bytes = heap->limit_bytes != SIZE_MAX ? heap->limit_bytes : 0,
        };
        own_unlock(heap);
    }
    size_t known_bytes = size_bytes < sizeof all_of_them ? size_bytes : sizeof all_of_them;
    memcpy(out, &all_of_them, known_bytes);
    memset((char *)out + known_bytes, 0, size_bytes - known_bytes);
    return sizeof all_of_them;
}

size_t own_add_figures(struct hak_figures *out)
{
    size_t carved_bytes = 0;
    for (const struct hak_heap *heap = own_first(); heap != NULL; heap = heap->next) {
        out->own_heaps += own_is_live(heap);
        carved_bytes += atomic_load_explicit(&heap->owner.carved_bytes, memory_order_relaxed);
        out->idle_bytes += owner_idle_bytes(&heap->owner);
#define X(name) out->name += atomic_load_explicit(&heap->owner.events[OWNER_EVENT_##name], memory_order_relaxed);
        OWNER_EVENTS(X)
#undef X
    }
    return carved_bytes;
}

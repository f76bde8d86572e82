/* heap.c: the slow paths of malloc and free, and the other public functions, for small blocks, runs and huge blocks. */
#include "heap/heap.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/bits.h"
#include "cache/owed.h"
#include "cache/thread.h"
#include "cache/visit.h"
#include "guard/guard.h"
#include "heap/bound.h"
#include "heap/huge.h"
#include "heap/large.h"
#include "heap/own.h"
#include "heap/tick.h"
#include "os/sanitizer.h"
#include "profile/profile.h"
#include "profile/sampler.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
#include "superslab/round.h"

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

/* The bound on calls ends before the program's callback is asked, which may purge all. */
HAK_INLINE void *refill_now(struct tcache *tcache, uint32_t class_index)
{
    void *block = tcache_refill(tcache, class_index);
    round_call_ends();
    return HAK_LIKELY(block != NULL) ? block : bound_refill(tcache, class_index);
}

/* It has the parameters of heap_refill, though it needs no size, so that they stay in their registers. */
static HAK_NOINLINE void *refill_plain(size_t size_bytes, struct tcache *tcache, uint32_t class_index)
{
    (void)size_bytes;
    round_call_begins();
    tick(tcache);
    return refill_now(tcache, class_index);
}

/* heap_refill while blocks are sampled. The calls that may take a sample are the last, so that its stack has no frame of
 * this library. The tick comes first: it may give parked lists back, which the counts must see. */
static HAK_NOINLINE void *refill_sampled(size_t size_bytes, struct tcache *tcache, uint32_t class_index)
{
    round_call_begins();
    tick(tcache);
    if (HAK_UNLIKELY(class_index == CLASS_EMPTY)) class_index = 1; /* whose bin may have blocks */
    if (HAK_UNLIKELY(sampler_is_due(tcache, class_index))) {
        round_call_ends();
        return sampler_serve(size_bytes, tcache, class_index);
    }
    void *block = refill_now(tcache, class_index);
    return sampler_refilled(size_bytes, tcache, class_index, block);
}

void *heap_refill(size_t size_bytes, struct tcache *tcache, size_t class_index)
{
    if (HAK_UNLIKELY(size_bytes > SMALL_BYTES_MAX)) return no_memory(); /* the sum in heap_alloc wrapped */
    if (HAK_UNLIKELY(sampling_is_on())) return refill_sampled(size_bytes, tcache, (uint32_t)class_index);
    return refill_plain(size_bytes, tcache, (uint32_t)class_index);
}

static HAK_NOINLINE void park_counted(void *pointer, struct tcache *tcache, uint32_t class_index)
{
    if (HAK_UNLIKELY(sampler_parks(pointer, tcache, class_index))) return;
    bool had_list = tcache->heads[class_index] != NULL;
    round_call_begins();
    tcache_park(tcache, pointer, class_index);
    sampler_parked(tcache, class_index, had_list);
    tick(tcache);
    round_call_ends();
}

static HAK_NOINLINE void park_plain(void *pointer, struct tcache *tcache, uint32_t class_index)
{
    round_call_begins();
    tcache_park(tcache, pointer, class_index);
    tick(tcache);
    round_call_ends();
}

void heap_park(void *pointer, struct tcache *tcache, size_t class_index)
{
    if (HAK_LIKELY(!sampling_is_on())) park_plain(pointer, tcache, (uint32_t)class_index);
    else if (sampler_is_chosen(tcache, (uint32_t)class_index))
        sampler_park_chosen(pointer, tcache, (uint32_t)class_index);
    else park_counted(pointer, tcache, (uint32_t)class_index);
}

/* A run or huge block, for a size or an alignment above SMALL_BYTES_MAX. grows, zeroed: see large_alloc. */
static void *alloc_pages(size_t align_bytes, size_t size_bytes, bool grows, bool zeroed)
{
    if (size_bytes > PTRDIFF_MAX || align_bytes > PTRDIFF_MAX) return no_memory();
    if (!thread_process_start()) return no_memory();
    round_call_begins();
    tick(tcache_self());
    void *pointer = large_alloc_any(align_bytes, size_bytes, grows, zeroed);
    round_call_ends();
    if (HAK_UNLIKELY(pointer == NULL)) {
        do {
            if (bound_make_room(size_bytes)) pointer = large_alloc_any(align_bytes, size_bytes, grows, zeroed);
            if (pointer != NULL || !bound_ask(size_bytes)) break;
            pointer = large_alloc_any(align_bytes, size_bytes, grows, zeroed);
        } while (pointer == NULL);
    }
    if (pointer == NULL) return no_memory();
    tcache_note_growth(tcache_self());
    if (HAK_UNLIKELY(profile_may_have())) profile_large_allocated(pointer, size_bytes);
    return pointer;
}

void *heap_alloc_large(size_t size_bytes)
{
    void *kept = large_take_kept(size_bytes, tcache_self());
    if (kept == NULL) return heap_given(alloc_pages(GRANULE_BYTES, size_bytes, false, false), size_bytes);
    return heap_given(kept, size_bytes);
}

void *heap_alloc_aligned(size_t align_bytes, size_t size_bytes)
{
    if (align_bytes <= GRANULE_BYTES) return heap_alloc(size_bytes);
    /* The slow path gets a size that is never sampled, since it does not know the alignment. */
    if (align_bytes <= SMALL_BYTES_MAX && size_bytes <= SMALL_BYTES_MAX)
        return heap_given(heap_alloc_class(SMALL_BYTES_MAX, sizeclass_of_aligned(size_bytes, align_bytes)), size_bytes);
    return heap_given(alloc_pages(align_bytes, size_bytes, false, false), size_bytes);
}

/* Apart, so that heap_free_other saves no registers for other blocks. */
static HAK_NOINLINE void free_run(void *pointer, struct tcache *tcache)
{
    round_call_begins();
    large_keep(pointer, tcache);
    round_call_ends();
}

void heap_free_other(void *pointer, struct tcache *tcache, size_t mixed_tag)
{
    if (pointer == NULL) return; /* asked first, since many programs free NULL often */
    uint32_t tag = (uint32_t)mixed_tag ^ tcache->tag;
    uint32_t class_index = tag & TAG_CLASS_MASK;
    if (tag >> TAG_OWNER_SHIFT != 0) {
        tcache_free_remote(tcache, pointer, tag);
    } else if (class_index == CLASS_RUN) {
        free_run(pointer, tcache);
    } else if (class_index == CLASS_HUGE) {
        if (HAK_UNLIKELY(profile_may_have())) profile_large_freed(pointer);
        huge_free(pointer);
    } else if (class_index == CLASS_GUARD) {
        guard_free(pointer);
    } else if (class_index == CLASS_PROFILE) {
        profile_free_small(pointer);
    } else if (class_index >= CLASS_OWN) {
        own_free(pointer, tag);
    } /* else a foreign pointer: ignored. Under VALIDATE it has been reported before */
}

/* How many bytes of a block calloc must clear: all that the program may use. Blocks of up to SMALL_LINEAR_BYTES_MAX
 * have the size rounded up to a granule, and so have sampled blocks. Under a sanitizer the bytes behind the size are
 * poisoned. */
HAK_INLINE size_t to_clear(const void *block, size_t size_bytes)
{
    if (SANITIZED) return size_bytes;
    if (HAK_UNLIKELY(size_bytes == 0)) return GRANULE_BYTES;
    if (HAK_LIKELY(size_bytes <= SMALL_LINEAR_BYTES_MAX)) return round_up(size_bytes, GRANULE_BYTES);
    return heap_usable_size(block);
}

void *heap_calloc(size_t count, size_t size_bytes)
{
    size_t total_bytes;
    if (__builtin_mul_overflow(count, size_bytes, &total_bytes)) return no_memory();
    if (HAK_LIKELY(total_bytes <= SMALL_BYTES_MAX)) {
        void *block = heap_alloc(total_bytes);
        if (HAK_LIKELY(block != NULL)) memset(block, 0, to_clear(block, total_bytes));
        return block;
    }
    void *pointer = heap_given(alloc_pages(GRANULE_BYTES, total_bytes, false, true), total_bytes);
    if (MSAN && pointer != NULL) sanitizer_zeroed(pointer, total_bytes);
    return pointer;
}

size_t heap_usable_size(const void *pointer)
{
    uint32_t tag = pagemap_tag_checked(pointer);
    uint32_t class_index = tag & TAG_CLASS_MASK;
    if (tag >> TAG_OWNER_SHIFT != 0) return sizeclass_bytes(class_index);
    if (class_index == CLASS_RUN) return large_usable_size(pointer);
    if (class_index == CLASS_HUGE) return huge_usable_size(pointer);
    if (class_index == CLASS_GUARD) return guard_usable_size(pointer);
    if (class_index == CLASS_PROFILE) return profile_usable_size(pointer);
    return class_index >= CLASS_OWN ? own_usable_size(pointer) : 0; /* 0: NULL, or not ours */
}

size_t heap_good_size(size_t size_bytes)
{
    if (size_bytes <= SMALL_BYTES_MAX) return sizeclass_bytes(size_bytes != 0 ? sizeclass_of(size_bytes) : 1);
    return size_bytes <= PTRDIFF_MAX - PAGE_BYTES ? round_up(size_bytes, PAGE_BYTES) : size_bytes;
}

/* --- sanitizers ---------------------------------------------------------------------------------------- */

/* unreached: of a sanitizer's tree: the tests of asan, tsan and msan reach it */
void heap_tell_given(void *block, size_t size_bytes)
{
    sanitizer_given(block, heap_usable_size(block), block, size_bytes);
}

/* Of a huge block only the start is closed here: huge.c closes the whole mapping if it caches it, or else releases
 * it. */
/* unreached: as heap_tell_given */
void heap_tell_returned(void *block)
{
    size_t bytes = heap_usable_size(block);
    sanitizer_returned(block, bytes < RUN_BYTES_MAX ? bytes : RUN_BYTES_MAX);
}

/* unreached: as heap_tell_given */
void heap_tell_shorter(char *block, size_t usable_bytes, size_t size_bytes)
{
    size_t kept_bytes = round_up(size_bytes, GRANULE_BYTES);
    if (kept_bytes >= usable_bytes) return;
    size_t more_bytes = usable_bytes - kept_bytes;
    sanitizer_returned(block + kept_bytes, more_bytes < RUN_BYTES_MAX ? more_bytes : RUN_BYTES_MAX);
}

/* unreached: as heap_tell_given */
void *heap_told_resized(char *block, size_t old_usable_bytes, size_t size_bytes)
{
    if (!SANITIZED) return block;
    size_t usable_bytes = heap_usable_size(block);
    if (MSAN && usable_bytes > old_usable_bytes)
        sanitizer_fresh(block + old_usable_bytes, usable_bytes - old_usable_bytes);
    sanitizer_resized(block, usable_bytes, block, size_bytes);
    return block;
}

/* --- realloc ------------------------------------------------------------------------------------------ */

/* Whether a block of usable_bytes may stay for size_bytes: it is large enough, and not more than half of it would be
 * unused. */
static bool fits_in_place(size_t usable_bytes, size_t size_bytes)
{
    return size_bytes <= usable_bytes && size_bytes >= usable_bytes / 2;
}

/* The heap profile takes a resized run or huge block as freed and allocated again. One that stays loses its sample. */
static void resize_begins(void *pointer)
{
    if (HAK_UNLIKELY(profile_may_have())) profile_large_freed(pointer);
}

static void *resized_large(void *block, size_t size_bytes)
{
    if (HAK_UNLIKELY(profile_may_have()) && block != NULL) profile_large_allocated(block, size_bytes);
    return block;
}

/* Resizes a sampled block, a run or a huge block in place, or by moving its pages. NULL: it must be copied. */
static void *resize_pages(void *pointer, uint32_t class_index, size_t usable_bytes, size_t size_bytes)
{
    if (class_index == CLASS_GUARD) return guard_resize(pointer, size_bytes) ? pointer : NULL;
    /* The system refuses also if the program has split the mapping (mprotect, madvise). */
    if (class_index == CLASS_HUGE && huge_may_stay(pointer, size_bytes)) {
        resize_begins(pointer);
        return resized_large(huge_realloc(pointer, size_bytes), size_bytes);
    }
    if (class_index == CLASS_RUN && size_bytes > SMALL_BYTES_MAX && size_bytes <= RUN_BYTES_MAX) {
        if (SANITIZED) heap_tell_shorter(pointer, usable_bytes, size_bytes);
        resize_begins(pointer);
        return resized_large(large_resize(pointer, size_bytes) ? pointer : NULL, size_bytes);
    }
    return fits_in_place(usable_bytes, size_bytes) ? pointer : NULL;
}

static void *realloc_move(void *pointer, size_t usable_bytes, size_t size_bytes)
{
    bool grows = size_bytes > usable_bytes && size_bytes > SMALL_BYTES_MAX;
    void *moved =
        grows ? heap_given(alloc_pages(GRANULE_BYTES, size_bytes, true, false), size_bytes) : heap_alloc(size_bytes);
    if (moved == NULL) return NULL;
    if (ASAN) sanitizer_open(pointer, usable_bytes); /* all of it: the heap does not know the size that was asked for */
    memcpy(moved, pointer, usable_bytes < size_bytes ? usable_bytes : size_bytes);
    heap_free(pointer);
    return moved;
}

void *heap_realloc(void *pointer, size_t size_bytes)
{
    if (pointer == NULL) return heap_alloc(size_bytes);
    if (VALIDATE && !heap_may_resize(pointer)) return NULL;
    if (size_bytes == 0) {
        heap_free(pointer);
        return NULL;
    }
    if (size_bytes > PTRDIFF_MAX) return no_memory();
    uint32_t class_index = pagemap_tag(pointer) & TAG_CLASS_MASK;
    if (HAK_UNLIKELY(class_index >= CLASS_OWN && class_index < CLASS_GUARD))
        return own_realloc(own_of(pointer), pointer, size_bytes);
    size_t usable_bytes = heap_usable_size(pointer);
    if (HAK_UNLIKELY(class_index >= CLASS_GUARD)) {
        void *resized = resize_pages(pointer, class_index, usable_bytes, size_bytes);
        if (resized != NULL) return heap_told_resized(resized, usable_bytes, size_bytes);
    } else if (fits_in_place(usable_bytes, size_bytes)) {
        return heap_told_resized(pointer, usable_bytes, size_bytes);
    }
    int saved = errno;
    void *moved = realloc_move(pointer, usable_bytes, size_bytes);
    if (moved == NULL && size_bytes <= usable_bytes) { /* the old block is too large, but it will do */
        errno = saved;
        return heap_told_resized(pointer, usable_bytes, size_bytes);
    }
    return moved;
}

void *heap_reallocarray(void *pointer, size_t count, size_t size_bytes)
{
    size_t total_bytes;
    if (__builtin_mul_overflow(count, size_bytes, &total_bytes)) return no_memory();
    return heap_realloc(pointer, total_bytes);
}

/* --- purge -------------------------------------------------------------------------------------------- */

size_t heap_purge(void)
{
    if (!thread_process_start()) return 0;
    struct tcache *tcache = tcache_self();
    thread_settle_left(); /* first, since that posts blocks to this heap too */
    size_t trimmed_bytes = tcache->heap != NULL ? tcache_shrink(tcache) : 0;
    thread_flush_orphans();
    return trimmed_bytes + huge_purge_all() + pool_purge_all();
}

size_t heap_purge_all(void)
{
    round_call_ends(); /* a callback that left by longjmp has not ended it */
    size_t trimmed_bytes = visit_all() + own_purge_all();
    return trimmed_bytes + heap_purge();
}

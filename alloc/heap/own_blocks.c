/* own_blocks.c: see own_inside.h. */
#include "heap/own_inside.h"

#include "base/bits.h"
#include "base/sync_point.h"
#include "cache/thread.h"
#include "heap/heap.h"
#include "os/os.h"
#include "slab/slab.h"
#include "slab/take.h"
#include "slab/trim.h"
#include "slab/validate.h"
#include "superslab/pagemap.h"
#include "superslab/purge.h"
#include "superslab/round.h"

/* What frees add to a bin beyond its last refill, at most: a guess. */
enum { BIN_BYTES = 8 << 10, BIN_BLOCKS = 64 };

static uint32_t bin_room(uint32_t class_index)
{
    return sizeclass_clamp(BIN_BYTES / sizeclass_bytes(class_index), 0, BIN_BLOCKS);
}

/* --- lists ------------------------------------------------------------------------------------------- */

void own_list_add(struct slab **list, struct slab *slab)
{
    struct slab *first = *list;
    slab->next = first != NULL ? first : slab;
    slab->prev = first != NULL ? first->prev : slab;
    slab->next->prev = slab->prev->next = slab;
    *list = slab;
}

void own_list_remove(struct slab **list, struct slab *slab)
{
    slab->next->prev = slab->prev;
    slab->prev->next = slab->next;
    if (*list == slab) *list = slab->next != slab ? slab->next : NULL;
}

/* --- the lock ---------------------------------------------------------------------------------------- */

void own_lock(struct hak_heap *heap)
{
    lock_word_acquire(&heap->lock, LOCK_OWN);
    if (HAK_UNLIKELY(heap->torn)) own_mend(heap);
}

bool own_try_lock(struct hak_heap *heap)
{
    if (!lock_word_try(&heap->lock, LOCK_OWN)) return false;
    if (HAK_UNLIKELY(heap->torn)) own_mend(heap);
    return true;
}

/* Gives a block back to its slab. */
static void give_back(struct hak_heap *heap, struct block *block)
{
    struct slab *slab = slab_of(block);
    size_t slab_bytes = (size_t)slab->page_count * PAGE_BYTES;
    const _Atomic(uint64_t) *released = &heap->owner.events[OWNER_EVENT_slabs_released];
    uint64_t released_before = atomic_load_explicit(released, memory_order_relaxed);
    if (slab->full) own_list_remove(&heap->full, slab);
    else if (!slab_has_free(slab)) slab_list_first(slab);
    slab_give_back(slab, block);
    if (atomic_load_explicit(released, memory_order_relaxed) != released_before) heap->slab_bytes -= slab_bytes;
}

static void bin_give_back(struct hak_heap *heap, struct own_bin *bin, uint32_t count)
{
    for (struct block *block; count > 0 && (block = bin->head) != NULL; count--) {
        bin->head = link_get(&block->next);
        bin->count--;
        give_back(heap, block);
    }
}

static void flush_bins(struct hak_heap *heap)
{
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        struct own_bin *bin = &heap->bins[class_index];
        bin_give_back(heap, bin, bin->count);
        bin->count_max = bin_room(class_index);
    }
}

static void post(struct hak_heap *heap, struct block *block)
{
    struct block *head = atomic_load_explicit(&heap->posted, memory_order_relaxed);
    do {
        link_set(&block->next, head);
        sync_point("own_post");
        /* release: publishes the link, and this thread's last writes to the block. Pairs with drain. seq_cst: see
         * own_unlock. Relaxed on failure: the head is stored, not followed. */
    } while (!atomic_compare_exchange_weak_explicit(&heap->posted, &head, block, memory_order_seq_cst,
                                                    memory_order_relaxed));
}

static void drain(struct hak_heap *heap)
{
    if (atomic_load_explicit(&heap->posted, memory_order_relaxed) == NULL) return;
    /* acquire: pairs with post. */
    struct block *block = atomic_exchange_explicit(&heap->posted, NULL, memory_order_acquire), *next;
    for (; block != NULL; block = next) {
        next = link_get(&block->next);
        give_back(heap, block);
    }
}

void own_unlock(struct hak_heap *heap)
{
    do {
        drain(heap);
    } while (!own_unlock_soon(heap) && lock_word_try(&heap->lock, LOCK_OWN));
}

struct block *own_unlock_posted(struct hak_heap *heap, struct block *block)
{
    if (lock_word_try(&heap->lock, LOCK_OWN)) own_unlock(heap);
    return block;
}

/* --- the limit --------------------------------------------------------------------------------------- */

size_t own_resident_bytes(const struct hak_heap *heap)
{
    return atomic_load_explicit(&heap->owner.carved_bytes, memory_order_relaxed) + heap->large_bytes;
}

size_t own_binned_bytes(const struct hak_heap *heap)
{
    size_t bytes = 0;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++)
        bytes += (size_t)heap->bins[class_index].count * sizeclass_bytes(class_index);
    return bytes;
}

/* How much has to go so that the heap may have this much more. */
static size_t missing_bytes(const struct hak_heap *heap, size_t bytes)
{
    const size_t then_bytes = own_resident_bytes(heap) + bytes;
    return then_bytes > heap->limit_bytes ? then_bytes - heap->limit_bytes : 0;
}

static bool has_room(const struct hak_heap *heap, size_t bytes)
{
    return missing_bytes(heap, bytes) == 0;
}

void own_note_peak(struct hak_heap *heap)
{
    if (own_resident_bytes(heap) > heap->peak_bytes) heap->peak_bytes = own_resident_bytes(heap);
}

static void empty_bins(struct hak_heap *heap)
{
    flush_bins(heap);
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        const struct slab *first = heap->owner.slabs[class_index];
        if (first == NULL || atomic_load_explicit(&first->prev->used_count, memory_order_relaxed) != 0) continue;
        heap->slab_bytes -= (size_t)first->prev->page_count * PAGE_BYTES;
    }
    slab_release_empty(&heap->owner);
}

size_t own_give_back_unused(struct hak_heap *heap)
{
    empty_bins(heap);
    const size_t bytes = slab_trim_all(&heap->owner);
    own_note_peak(heap); /* a trim counts blocks that were never carved, on pages that stay */
    return bytes;
}

/* Whether a 16th of the limit more lies free than stayed when a whole trim made no room: a program that frees a block at each
 * NULL pays for little. */
static bool is_worth_a_trim(struct hak_heap *heap)
{
    const size_t free_bytes = own_binned_bytes(heap) + owner_idle_bytes(&heap->owner),
                 least_bytes = heap->limit_bytes >> 4;
    if (free_bytes < heap->kept_bytes) heap->kept_bytes = free_bytes;
    return free_bytes != 0 && (heap->kept_bytes == 0 || free_bytes - heap->kept_bytes >= least_bytes);
}

bool own_make_room(struct hak_heap *heap, size_t bytes)
{
    if (has_room(heap, bytes)) return true;
    drain(heap);
    struct owner *owner = &heap->owner;
    if (!slab_trim_is_due(owner) && !is_worth_a_trim(heap)) return false;
    for (bool is_whole = false; !is_whole;) {
        is_whole = !slab_trim_is_due(owner);
        if (is_whole) {
            empty_bins(heap);
            slab_trim_begin(owner);
        }
        size_t missing;
        while ((missing = missing_bytes(heap, bytes)) > 0 && slab_trim_is_due(owner)) slab_trim_some(owner, missing);
        own_note_peak(heap);
        if (missing == 0) return true;
    }
    heap->kept_bytes = owner_idle_bytes(owner);
    return false;
}

/* --- small blocks ------------------------------------------------------------------------------------ */

/* At most this much is carved at once. */
static size_t carve_bytes(uint32_t class_index)
{
    size_t block_bytes = sizeclass_bytes(class_index), part_bytes = os_page_bytes();
    if (part_bytes < CARVE_BYTES) part_bytes = CARVE_BYTES;
    return block_bytes >= part_bytes ? block_bytes : part_bytes + block_bytes;
}

/* A slab that can give blocks. NULL: at the limit, or the system has no memory. */
static struct slab *slab_to_take(struct hak_heap *heap, uint32_t class_index, bool *at_limit)
{
    drain(heap);
    struct slab *slab = heap->owner.slabs[class_index];
    if (slab != NULL && (slab_has_free(slab) || has_room(heap, carve_bytes(class_index)))) return slab;
    if (slab != NULL && slab_has_free(slab->prev)) { /* it has no block in use */
        slab_list_first(slab->prev);
        return slab->prev;
    }
    *at_limit = !own_make_room(heap, carve_bytes(class_index));
    if (*at_limit) return NULL;
    slab = heap->owner.slabs[class_index];
    if (slab == NULL && (slab = slab_make(&heap->owner, class_index)) != NULL)
        heap->slab_bytes += (size_t)slab->page_count * PAGE_BYTES;
    return slab;
}

static bool refill(struct hak_heap *heap, uint32_t class_index, bool *at_limit)
{
    struct slab *slab = slab_to_take(heap, class_index, at_limit);
    if (slab == NULL) return false;
    struct own_bin *bin = &heap->bins[class_index];
    size_t used_before = owner_used_bytes(&heap->owner);
    bin->head = slab_take(slab);
    bin->count = (uint32_t)((owner_used_bytes(&heap->owner) - used_before) / sizeclass_bytes(class_index));
    bin->count_max = bin->count + bin_room(class_index);
    if (slab->full) own_list_add(&heap->full, slab);
    else if (!slab_has_free(slab)) slab_list_back(slab);
    owner_count_event(&heap->owner, OWNER_EVENT_refills);
    own_note_peak(heap);
    return true;
}

void own_tick(void)
{
    if (purge_dirty_pages() == 0 && !huge_any_cached() && !thread_any_warm()) return;
    uint64_t now_ms = os_now_ms();
    round_call_begins();
    thread_tick(pool_tick(now_ms));
    huge_tick(now_ms);
    round_call_ends();
}

void *own_small_alloc(struct hak_heap *heap, uint32_t class_index, bool *at_limit)
{
    own_lock(heap);
    bool refilled = heap->bins[class_index].head == NULL;
    if (refilled && !refill(heap, class_index, at_limit)) {
        own_unlock(heap);
        return NULL;
    }
    struct block *block = own_bin_pop(heap, class_index);
    own_unlock(heap);
    if (refilled) own_tick();
    return block;
}

static void bin_push(struct own_bin *bin, struct block *block)
{
    link_set(&block->next, bin->head);
    sync_point("own_bin_push");
    bin->head = block;
    bin->count++;
}

/* Another thread has the lock: it drains. */
static HAK_NOINLINE void free_posted(struct hak_heap *heap, struct block *block)
{
    post(heap, block);
    if (own_try_lock(heap)) own_unlock(heap);
}

/* The bin is full, or the heap is trimmed or mended. Under the lock. */
static HAK_NOINLINE void free_slow(struct hak_heap *heap, struct block *block, uint32_t class_index)
{
    struct owner *owner = &heap->owner;
    if (HAK_UNLIKELY(heap->torn)) own_mend(heap);
    struct own_bin *bin = &heap->bins[class_index];
    bin_push(bin, block);
    const uint32_t room = bin_room(class_index) / 2, kept = bin->count_max > room ? bin->count_max - room - 1 : 0;
    if (bin->count > kept) bin_give_back(heap, bin, bin->count - kept);
    if (HAK_UNLIKELY(owner_has_shrunk(owner)) ||
        (HAK_UNLIKELY(owner->put_off_ms != 0) && slab_trim_put_off(owner, os_now_ms()))) {
        flush_bins(heap);
        slab_trim_shrunk(owner);
    }
    if (HAK_UNLIKELY(slab_trim_is_due(owner))) {
        slab_trim_step(owner);
        own_note_peak(heap);
    }
    own_unlock(heap);
}

/* It saves no registers: it calls nothing but at its end. */
void own_small_free(struct hak_heap *heap, struct block *block, uint32_t class_index)
{
    if (HAK_UNLIKELY(!lock_word_try(&heap->lock, LOCK_OWN))) {
        free_posted(heap, block);
        return;
    }
    const struct owner *owner = &heap->owner;
    struct own_bin *bin = &heap->bins[class_index];
    if (HAK_UNLIKELY(bin->count >= bin->count_max || heap->torn || slab_trim_is_due(owner) || owner->put_off_ms != 0)) {
        free_slow(heap, block, class_index);
        return;
    }
    bin_push(bin, block);
    if (HAK_UNLIKELY(!own_unlock_soon(heap))) own_unlock_posted(heap, block);
}

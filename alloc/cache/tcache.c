/* tcache.c: the slow path of small blocks. See tcache.h; the stages of a refill are in refill_live(). */
#include "cache/tcache.h"

#include "base/sync_point.h"
#include "cache/borrow.h"
#include "cache/credits.h"
#include "cache/ended.h"
#include "cache/kernel_thread.h"
#include "cache/owed.h"
#include "cache/thread.h"
#include "os/os.h"
#include "report/broken.h"
#include "slab/slab.h"
#include "slab/take.h"
#include "slab/trim.h"
#include "slab/validate.h"
#include "superslab/purge.h"

HAK_TLS struct tcache tcache_of_thread;

/* --- magazines ------------------------------------------------------------------------------------ */

static void count_add(struct parking *parking, int more)
{
    atomic_store_explicit(&parking->count, (uint8_t)(parking_count(parking) + more), memory_order_relaxed);
}

void magazine_push(struct heap *heap, struct block *list, uint32_t class_index)
{
    link_set(&list->next_magazine, heap->parking[class_index].magazines);
    heap->parking[class_index].magazines = list;
    count_add(&heap->parking[class_index], 1);
    heap->parked++;
}

struct block *magazine_pop(struct heap *heap, uint32_t class_index)
{
    struct block *list = heap->parking[class_index].magazines;
    if (list == NULL) return NULL;
    heap->parking[class_index].magazines = link_get(&list->next_magazine);
    count_add(&heap->parking[class_index], -1);
    heap->parked--;
    return list;
}

/* --- visits ---------------------------------------------------------------------------------------- */

void tcache_busy_again(struct tcache *tcache)
{
    uint32_t busy = atomic_load_explicit(&tcache->busy, memory_order_relaxed);
    if (busy != 0 && busy < BUSY_VISITED) { /* nested: no other thread changes the word */
        atomic_store_explicit(&tcache->busy, busy + 1, memory_order_relaxed);
        return;
    }
    for (;;) {
        busy = 0;
        /* acquire: as in tcache_busy_begin. */
        if (atomic_compare_exchange_strong_explicit(&tcache->busy, &busy, 1, memory_order_acquire,
                                                    memory_order_relaxed))
            return;
        /* Under a test's scheduler the visitor does not run until this thread yields, so it must not sleep in the
         * system. */
        if (sync_points_are_hooked()) {
            sync_point("lock_wait");
            continue;
        }
        uint32_t waited_for = busy | BUSY_WAITED_FOR;
        if (busy != waited_for && !atomic_compare_exchange_strong_explicit(&tcache->busy, &busy, waited_for,
                                                                           memory_order_relaxed, memory_order_relaxed))
            continue;
        os_wait((uint32_t *)&tcache->busy, waited_for);
    }
}

static uint32_t list_give_back_checked(struct block *list, uint32_t class_index)
{
    if (VALIDATE) validate_list(list, class_index);
    return slab_give_back_each(list);
}

/* --- refill ----------------------------------------------------------------------------------------- */

/* Takes back what other threads freed. */
static HAK_NOINLINE struct block *drain(struct tcache *tcache, uint32_t class_index)
{
    struct block *list = remote_drain_some(&tcache->heap->owner, class_index, DRAIN_SLABS_MAX);
    tcache_watch_idle(tcache);
    return list;
}

/* A list of blocks that the class has. */
static struct block *find_idle(struct tcache *tcache, uint32_t class_index)
{
    struct heap *heap = tcache->heap;
    struct block *list = magazine_pop(heap, class_index);
    if (list != NULL) {
        heap->parking[class_index].overflows = 0;
        if (!parking_is_grown(&heap->parking[class_index])) credit_grow(tcache, class_index);
        return list;
    }
    struct owner *owner = &heap->owner;
    if (remote_is_pending(owner)) {
        list = drain(tcache, class_index);
        if (HAK_UNLIKELY(owner_has_shrunk(owner))) {
            slab_trim_shrunk(owner);
            tcache_watch_idle(tcache);
        }
        if (list != NULL) return list;
    }
    struct slab *slab = owner->slabs[class_index];
    return slab != NULL && slab_has_free(slab) ? slab_take(slab) : NULL;
}

/* Called when borrow() has lent nothing. */
static struct block *take_fresh(struct tcache *tcache, uint32_t *class_index)
{
    struct owner *owner = &tcache->heap->owner;
    struct slab *slab = owner->slabs[*class_index];
    if (slab == NULL) {
        tcache_note_growth(tcache);
        slab = slab_make(owner, *class_index);
    }
    struct block *list = slab != NULL ? slab_take(slab) : NULL;
    if (HAK_UNLIKELY(list == NULL)) return borrow_again(tcache, class_index);
    tcache->heap->parking[*class_index].borrowed = 0;
    return list;
}

static void *refill_live(struct tcache *tcache, uint32_t class_index)
{
    tcache_busy_begin(tcache);
    /* The bin may hold blocks: for malloc(0), or if libc has allocated while the thread started. */
    struct block *list = tcache->heads[class_index];
    if (list == NULL) list = find_idle(tcache, class_index);
    if (list == NULL && class_index > CLASS_LINEAR_LAST) list = borrow(tcache, &class_index);
    if (list == NULL) list = take_fresh(tcache, &class_index);
    owner_count_event(&tcache->heap->owner, OWNER_EVENT_refills);
    if (list != NULL) {
        if (VALIDATE) validate_alloc(list, class_index, tcache->tag);
        tcache->heads[class_index] = link_get(&list->next);
        if (HAK_UNLIKELY((int32_t)tcache->heap->owner.blocks[class_index].room < 0))
            credit_outgrown(tcache, class_index);
    }
    tcache_busy_end(tcache);
    return list;
}

void *tcache_refill(struct tcache *tcache, uint32_t class_index)
{
    if (VALIDATE) kernel_thread_check(tcache);
    if (class_index == CLASS_EMPTY) class_index = 1;
    if (HAK_LIKELY(tcache->heap != NULL)) return refill_live(tcache, class_index);
    if (tcache->state == THREAD_ENDED) return ended_refill(class_index, tcache);
    if (!thread_start(tcache)) return NULL;
    void *block = refill_live(tcache, class_index);
    /* If libc refuses to remember a thread: pthread_setspecific fails without memory of its own. */
    if (tcache->state != THREAD_LIVE) thread_abandon_heap(tcache);
    return block;
}

/* --- free ------------------------------------------------------------------------------------------- */

/* The limit shrinks with the heap, so that what a burst left in the caches of many classes does not stay for good. */
bool heap_has_room(const struct heap *heap, uint32_t class_index)
{
    return parking_count(&heap->parking[class_index]) < heap->parking[class_index].count_max &&
           credit_is_paid(heap, class_index) &&
           heap->parked < PARKED_MIN + (owner_used_bytes(&heap->owner) >> PARKED_SHARE_LOG2);
}

/* Drains remote frees here too, since a thread whose own lists suffice makes no refill that would. If the heap has
 * shrunk, begins to empty the caches and to trim the slabs. */
void tcache_settle(struct tcache *tcache)
{
    struct owner *owner = &tcache->heap->owner;
    if (HAK_UNLIKELY(remote_is_pending(owner))) drain(tcache, CLASS_EMPTY);
    if (HAK_LIKELY(!owner_has_shrunk(owner))) return;
    const bool is_first = tcache->heap->flush_class == 0; /* else the bins are short, and stay */
    tcache_flush_begin(tcache);
    if (is_first) tcache_return_credits(tcache);
    slab_trim_shrunk(owner);
    tcache_watch_idle(tcache);
}

/* There is no room for another list. This one is given back and not an older one, since its blocks are still in the
 * processor's cache. */
static HAK_NOINLINE void overflow(struct tcache *tcache, struct block *list, uint32_t class_index)
{
    struct heap *heap = tcache->heap;
    owner_count_event(&heap->owner, OWNER_EVENT_overflows);
    slab_give_back_each(list);
    tcache_watch_idle(tcache);
    heap->parking[class_index].gave_back = true;
    if (heap->parking[class_index].overflows < OVERFLOWS_MAX) heap->parking[class_index].overflows++;
}

/* The bin takes no block: those of the class go to their slabs at once. */
static HAK_NOINLINE void give_straight_back(struct tcache *tcache, uint32_t class_index)
{
    struct block *list = tcache->heads[class_index]; /* NULL: the caches were emptied */
    tcache->heads[class_index] = NULL;
    tcache->credits[class_index] = 0;
    tcache->heap->parking[class_index].gave_back = true;
    slab_give_back_each(list);
    tcache_watch_idle(tcache);
}

void tcache_park(struct tcache *tcache, void *pointer, uint32_t class_index)
{
    if (class_index == CLASS_EMPTY) {
        tcache->credits[CLASS_EMPTY] = 0;
        return;
    }
    if (VALIDATE) kernel_thread_check(tcache);
    tcache_busy_begin(tcache);
    struct heap *heap = tcache->heap;
    struct block *list = tcache->heads[class_index];
    if (HAK_UNLIKELY(!credit_is_paid(heap, class_index))) credit_pay(tcache, class_index);
    if (list != NULL) {
        if (VALIDATE) validate_list(list, class_index);
        if (heap_has_room(heap, class_index)) {
            magazine_push(heap, list, class_index);
        } else {
            overflow(tcache, list, class_index);
        }
    }
    owner_count_event(&heap->owner, OWNER_EVENT_parks);
    struct block *block = pointer;
    link_set(&block->next, NULL);
    tcache->heads[class_index] = block;
    tcache_settle(tcache);
    uint32_t credit = heap_credit_now(heap, class_index);
    if (HAK_UNLIKELY(heap_owes(heap) || purge_is_owed())) {
        if (credit > CREDIT_OWING && (heap_owes_soon(heap) || purge_is_owed())) credit = CREDIT_OWING;
        tcache_watch_idle(tcache); /* a visit may have begun the work */
    }
    if (HAK_LIKELY(credit != 0)) tcache->credits[class_index] = credit - 1u;
    else give_straight_back(tcache, class_index);
    tcache_busy_end(tcache);
}

/* For a remote free by a thread without a heap. True when the thread now has a heap to stage the block in. Its first
 * EARLY_FREES_MAX frees take none: a thread that seldom frees needs none, and libc frees a few blocks after the last
 * destructor has run, when a heap taken would be lost, since the allocator does not learn of the thread's end any
 * more. */
static bool free_remote_start(struct tcache *tcache)
{
    if (tcache->state == THREAD_ENDED) return false;
    if (tcache->early_frees < EARLY_FREES_MAX) {
        tcache->early_frees++;
        return false;
    }
    if (!thread_start(tcache)) return false;
    if (tcache->state == THREAD_LIVE) return true;
    /* unreached: as in tcache_refill */
    thread_abandon_heap(tcache);
    return false;
}

/* Whether the thread has allocated from its own heap since the last call. A successor allocates as much as it frees; a
 * thread that only frees would take the heap away from the thread that needs it. */
static bool majority_drawn_update(struct tcache *tcache)
{
    size_t before = tcache->majority_used_bytes;
    tcache->majority_used_bytes = owner_used_bytes(&tcache->heap->owner);
    return tcache->majority_used_bytes >= before + SUCCESSION_DRAWN_BYTES;
}

/* Counts a remote free (Boyer and Moore's majority vote). True when this owner's blocks lead by SUCCESSION_FREES among
 * the recent remote frees, and the thread allocates too. */
static bool majority_vote(struct tcache *tcache, uint32_t owner_tag)
{
    if (tcache->majority_tag == owner_tag) {
        if (++tcache->majority_count < SUCCESSION_FREES) return false;
        tcache->majority_count = 0;
        return majority_drawn_update(tcache);
    }
    if (tcache->majority_count > 0) {
        tcache->majority_count--;
    } else {
        tcache->majority_tag = owner_tag;
        majority_drawn_update(tcache);
    }
    return false;
}

static void stage_block(struct tcache *tcache, struct block *block, uint32_t class_index)
{
    remote_stage(&tcache->heap->staging, block, class_index);
}

/* A free by a thread without a heap, or one that makes the thread a successor: it may have adopted the block's owner. */
static HAK_NOINLINE void free_remote_rare(struct tcache *tcache, struct block *block, uint32_t tag, bool succeeds)
{
    struct slab *slab = slab_of(block);
    uint32_t class_index = tag & TAG_CLASS_MASK, owner_tag = tag - class_index;
    if (tcache->heap == NULL) {
        if (!free_remote_start(tcache)) {
            tcache->freed_owner = slab->owner;
            remote_post_one(slab, block);
            return;
        }
        succeeds = majority_vote(tcache, owner_tag);
    }
    if (succeeds) thread_succeed(tcache, slab->owner);
    if (tcache->tag != owner_tag) {
        stage_block(tcache, block, class_index);
        return;
    }
    tcache_busy_begin(tcache);
    slab_give_back(slab, block);
    tcache_busy_end(tcache);
}

/* The rare cases are in a function of their own, so that this one saves no registers. */
void tcache_free_remote(struct tcache *tcache, void *pointer, uint32_t tag)
{
    if (VALIDATE) kernel_thread_check(tcache);
    bool has_heap = HAK_LIKELY(tcache->heap != NULL);
    bool succeeds = has_heap && majority_vote(tcache, tag & ~(uint32_t)TAG_CLASS_MASK);
    if (HAK_UNLIKELY(!has_heap || succeeds)) free_remote_rare(tcache, pointer, tag, succeeds);
    else stage_block(tcache, pointer, tag & TAG_CLASS_MASK);
}

/* --- the whole cache ---------------------------------------------------------------------------------------- */

void tcache_park_all(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    tcache_busy_begin(tcache);
    tcache_watch(tcache, false);
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        struct block *list = tcache->heads[class_index];
        tcache->heads[class_index] = NULL;
        if (list == NULL) continue;
        if (VALIDATE) validate_list(list, class_index);
        magazine_push(heap, list, class_index);
    }
    remote_post_all(&heap->staging);
    tcache_busy_end(tcache);
}

void tcache_unpark(struct tcache *tcache)
{
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++)
        tcache->heads[class_index] = magazine_pop(tcache->heap, class_index);
}

void heap_magazines_give_back(struct heap *heap)
{
    struct block *list;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        uint32_t count = parking_count(&heap->parking[class_index]);
        if (count != 0) heap->parking[class_index].gave_back = true;
        while ((list = magazine_pop(heap, class_index)) != NULL) {
            if (HAK_UNLIKELY(count-- == 0)) broken(BROKEN_magazines, class_index, list);
            list_give_back_checked(list, class_index);
        }
    }
    heap->flush_class = 0;
}

void tcache_flush(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    tcache_busy_begin(tcache);
    tcache_park_all(tcache);
    heap_magazines_give_back(heap);
    remote_drain(&heap->owner);
    slab_release_empty(&heap->owner);
    tcache_busy_end(tcache);
}

size_t tcache_shrink(struct tcache *tcache)
{
    struct owner *owner = &tcache->heap->owner;
    tcache_busy_begin(tcache);
    tcache_flush(tcache);
    tcache_return_credits(tcache);
    owner->used_bytes_peak = owner_used_bytes(owner);
    owner->trimmed_is_wanted = false; /* here memory matters more than speed */
    owner->trims_wanted = 0;
    owner->trimmed_pages_released = 0;
    size_t trimmed_bytes = slab_trim_all(owner);
    tcache_busy_end(tcache);
    return trimmed_bytes;
}

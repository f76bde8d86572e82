/* thread.c: see thread.h. More than 400 lines: one heap passes from its thread to the tick, to a purge and to the next thread. */
#include "cache/thread.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/sync_point.h"
#include "cache/credits.h"
#include "cache/fork.h"
#include "os/lock.h"
#include "os/meta.h"
#include "os/os.h"
#include "os/process/end_key.h"
#include "slab/trim.h"
#include "superslab/pagemap.h"
#include "superslab/purge.h"

static _Atomic(bool) started;

/* The thread that makes the key. Each compares it with itself, so it is relaxed everywhere. */
static _Atomic(struct tcache *) key_maker;

/* The number of orphans that are not REST_EMPTY. It orders nothing: relaxed everywhere. */
static _Atomic(uint32_t) warm_count;

/* The id of the heap that thread_tick flushed last; 0: it has been at all of them in this round. */
static _Atomic(uint32_t) ticked;

void thread_watch(thread_watch_fn *new_watch)
{
    /* release: publishes the data that the function uses. Pairs with the acquire in watch_call. */
    atomic_store_explicit(&hooks.thread_watch, new_watch, memory_order_release);
}

static void watch_call(bool begins)
{
    thread_watch_fn *function = atomic_load_explicit(&hooks.thread_watch, memory_order_acquire);
    if (function != NULL) function(begins);
}

void tcache_watch(struct tcache *tcache, bool begins)
{
    /* relaxed: it is the one function, whose data sampling_change publishes by another word. */
    cache_watch_fn *function = atomic_load_explicit(&hooks.cache_watch, memory_order_relaxed);
    if (function != NULL) function(tcache, begins);
}

void thread_end(void *value)
{
    (void)value; /* another C library may have set it: see end_key_make */
    struct tcache *self = tcache_self();
    if (self->state != THREAD_LIVE) return;
    hooks.background_end_with_first(); /* libc frees blocks of its thread */
    if (VALIDATE) hooks.thread_before_end();
    self->state = THREAD_ENDED;
    watch_call(false);
    if (self->heap != NULL) thread_abandon_heap(self);
}

/* What the program allocates within these functions of libc takes a heap for this thread. */
static void end_key_begin(struct tcache *self)
{
    end_key_make(thread_end);
    atomic_store_explicit(&key_maker, NULL, memory_order_relaxed);
    if (self->state != THREAD_LIVE || end_key_watch(self)) return;
    /* unreached: libc refuses a key, and the program allocates where it asks for one */
    self->state = THREAD_ENDED;
    thread_abandon_heap(self);
}

bool thread_process_start(void)
{
    /* acquire: pairs with the release below. */
    if (HAK_LIKELY(atomic_load_explicit(&started, memory_order_acquire))) return true;
    lock_acquire(LOCK_START);
    bool done = atomic_load_explicit(&started, memory_order_relaxed);
    bool first = !done && pagemap_start() == 0;
    if (first) {
        atomic_store_explicit(&key_maker, tcache_self(), memory_order_relaxed);
        /* release: publishes the page map. */
        atomic_store_explicit(&started, true, memory_order_release);
    }
    lock_release(LOCK_START);
    if (first) end_key_begin(tcache_self());
    /* Under no lock, since glibc allocates for its 49th handler. All layers share it: base/hooks.h. */
    if (first) pthread_atfork(NULL, NULL, fork_child);
    return done || first;
}

/* --- orphans' magazines ---------------------------------------------------------------------------- */

static void warm_count_change(uint32_t change)
{
    atomic_fetch_add_explicit(&warm_count, change, memory_order_relaxed);
}

struct block *left_list(const struct left *left, uint32_t class_index)
{
    uint32_t before = 0;
    for (uint32_t word = 0; word < class_index / 64; word++)
        before += (uint32_t)__builtin_popcountll(left->classes[word]);
    const uint64_t bits = left->classes[class_index / 64], bit = 1ull << class_index % 64;
    return (bits & bit) != 0 ? left->lists[before + (uint32_t)__builtin_popcountll(bits & (bit - 1))] : NULL;
}

/* Copies the bins of a thread to its heap's `left`. False if there is no memory for it. */
static bool left_make(struct heap *heap, const struct tcache *dead)
{
    uint32_t count = 0;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) count += dead->heads[class_index] != NULL;
    struct left *before = heap->left, *left = before;
    if (left == NULL || left->lists_max < count) {
        heap->left = left = meta_alloc(sizeof *left + count * sizeof *left->lists);
        if (left == NULL) return false;
        if (before != NULL) left->credits = before->credits;
        left->lists_max = count;
    }
    if (heap->sampler != NULL && left->credits == NULL) left->credits = meta_alloc(sizeof dead->credits);
    if (heap->sampler != NULL && left->credits == NULL) return false;
    if (left->credits != NULL) memcpy(left->credits, dead->credits, sizeof dead->credits);
    memset(left->classes, 0, sizeof left->classes);
    struct block **list = left->lists;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        if (dead->heads[class_index] == NULL) continue;
        left->classes[class_index / 64] |= 1ull << class_index % 64;
        *list++ = dead->heads[class_index];
    }
    return true;
}

void thread_leave(struct tcache *dead)
{
    struct heap *heap = dead->heap;
    atomic_store_explicit(&heap->tcache, NULL, memory_order_relaxed);
    if (!left_make(heap, dead)) return;
    atomic_store_explicit(&heap->rest, REST_LEFT, memory_order_relaxed);
    owner_leave(&heap->owner);
}

static bool is_left(const struct heap *heap)
{
    return atomic_load_explicit(&heap->rest, memory_order_relaxed) == REST_LEFT;
}

/* Makes a heap warm that was left and that the caller holds, as the thread that left it would have done at its end. */
static HAK_COLD void heap_settle(struct heap *heap)
{
    struct tcache dead = {.heap = heap};
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++)
        dead.heads[class_index] = left_list(heap->left, class_index);
    if (heap->left->credits != NULL) memcpy(dead.credits, heap->left->credits, sizeof dead.credits);
    remote_recount(&heap->staging);
    tcache_park_all(&dead);
    atomic_store_explicit(&heap->rest, REST_WARM, memory_order_relaxed);
}

void thread_settle_left(void)
{
    for (struct heap *heap = NULL; (heap = heap_next(heap)) != NULL;) {
        if (!is_left(heap) || !owner_adopt_this(&heap->owner)) continue;
        if (is_left(heap)) heap_settle(heap);
        remote_abandon(&heap->owner);
    }
}

/* Ends the rest of a heap that the caller holds. True if the heap has magazines. */
static bool heap_wake(struct heap *heap)
{
    /* relaxed: taking the orphan's bit has acquired the heap. */
    if (atomic_load_explicit(&heap->rest, memory_order_relaxed) == REST_EMPTY) return false;
    if (HAK_UNLIKELY(is_left(heap))) heap_settle(heap);
    atomic_store_explicit(&heap->rest, REST_EMPTY, memory_order_relaxed);
    owner_prefer(&heap->owner, false);
    warm_count_change(-1u);
    return true;
}

/* For a heap that the caller holds and is about to leave for long: releases its empty slabs, and trims the others if
 * the heap has shrunk or a trim is under way. */
static void owner_strip(struct owner *owner)
{
    owner->keeps_empty = false;
    slab_release_empty(owner);
    slab_trim_left(owner);
}

static void warm_begin(struct heap *heap)
{
    atomic_store_explicit(&heap->rest, REST_WARM, memory_order_relaxed);
    owner_prefer(&heap->owner, true); /* the next thread wants it sooner than an empty one */
    warm_count_change(1);
}

/* Adopts an orphan, gives back what it has cached, and makes it an orphan again. False if the owner is no orphan. */
static bool orphan_flush(struct owner *owner)
{
    if (!owner_adopt_this(owner)) return false;
    struct heap *heap = (struct heap *)owner;
    if (heap_wake(heap)) heap_magazines_give_back(heap);
    remote_drain(owner);
    heap_credits_pay_back(heap);
    heap_credits_decay(heap);
    owner_strip(owner);
    remote_abandon(owner);
    return true;
}

uint32_t thread_count_warm(void)
{
    uint32_t count = 0;
    for (struct heap *heap = NULL; (heap = heap_next(heap)) != NULL;)
        if (owner_is_orphan(&heap->owner) && atomic_load_explicit(&heap->rest, memory_order_relaxed) != REST_EMPTY)
            count++;
    return count;
}

void thread_recount_warm(void)
{
    atomic_store_explicit(&warm_count, thread_count_warm(), memory_order_relaxed);
}

uint32_t thread_warm_count(void)
{
    return atomic_load_explicit(&warm_count, memory_order_relaxed);
}

bool thread_any_warm(void)
{
    return thread_warm_count() != 0;
}

bool thread_tick(bool begins)
{
    /* relaxed: if two threads walk at once, or one sees an old mark, a heap is flushed a round early at worst. A thread that does
     * not see the heap with this id yet ends the round. */
    uint32_t id = atomic_load_explicit(&ticked, memory_order_relaxed);
    const bool any_warm = thread_any_warm();
    if (!any_warm && id != 0) atomic_store_explicit(&ticked, 0, memory_order_relaxed);
    if (!any_warm || (id == 0 && !begins)) return false;
    struct owner *owner = NULL;
    bool flushed = false;
    while (!flushed && (owner = owner_with_id(++id)) != NULL) {
        if (!owner_is_orphan(owner)) continue;
        uint32_t rest = REST_WARM;
        struct heap *heap = (struct heap *)owner; /* owner is a heap's first part */
        if (!atomic_compare_exchange_strong_explicit(&heap->rest, &rest, REST_COLD, memory_order_relaxed,
                                                     memory_order_relaxed) &&
            rest != REST_EMPTY)
            flushed = orphan_flush(owner);
    }
    const bool is_over = owner == NULL || !thread_any_warm();
    atomic_store_explicit(&ticked, is_over ? 0 : id, memory_order_relaxed);
    return !is_over;
}

void thread_tick_whole(void)
{
    atomic_store_explicit(&ticked, 0, memory_order_relaxed);
    for (bool begins = true; thread_tick(begins);) begins = false;
}

/* Whether somebody is in an orphan for a moment, to look at what it has cached. Who takes it over sets `rest` first. */
static bool is_looked_at(const struct heap *heap)
{
    return atomic_load_explicit(&heap->rest, memory_order_relaxed) != REST_EMPTY && !owner_is_orphan(&heap->owner) &&
           atomic_load_explicit(&heap->tcache, memory_order_relaxed) == NULL;
}

uint32_t thread_flush_orphans(void)
{
    enum { WAITS_MAX = 20 }; /* of a millisecond: in a forked child nobody may end the look */
    uint32_t flushed = 0, waits = sync_points_are_hooked() ? WAITS_MAX : 0;
    for (struct heap *heap = NULL; (heap = heap_next(heap)) != NULL;) {
        bool is_flushed;
        while (!(is_flushed = orphan_flush(&heap->owner)) && is_looked_at(heap) && waits++ < WAITS_MAX)
            os_wait_ms((uint32_t *)&heap->rest, atomic_load_explicit(&heap->rest, memory_order_relaxed), 1);
        flushed += is_flushed;
    }
    return flushed;
}

/* --- start and end ---------------------------------------------------------------------------------- */

/* Prefer the heap whose blocks this thread has been freeing: adopting it makes those frees local. */
static struct heap *heap_get(struct owner *wanted)
{
    if (wanted != NULL && owner_adopt_this(wanted)) return (struct heap *)wanted;
    struct owner *orphan = owner_adopt();
    if (orphan != NULL) return (struct heap *)orphan; /* owner is a heap's first part */
    if (owner_count() + 1 >= HEAPS_MAX) return NULL;
    struct heap *heap = meta_alloc(sizeof *heap);
    if (heap == NULL || !owner_register(&heap->owner)) return NULL;
    return heap;
}

/* The thread takes the heap. */
static void heap_hold(struct tcache *tcache, struct heap *heap)
{
    tcache->heap = heap;
    tcache_fill_credits(tcache);
    if (heap_wake(heap)) tcache_unpark(tcache);
    tcache->tag = heap->owner.tag;
    heap->seen_ms = os_now_ms();
    tcache->watches_idle = tcache->owes = true; /* the first slow path finds out whether there is reason to */
    atomic_store_explicit(&heap->rounds_seen, pool_tick_rounds(), memory_order_relaxed);
    atomic_store_explicit(&heap->rounds_visited, 0, memory_order_relaxed);
    /* release: pairs with the acquire in visit_begin, which needs a cache that is whole. */
    atomic_store_explicit(&heap->tcache, tcache, memory_order_release);
    heap->owner.keeps_empty = true;
    tcache_watch(tcache, true);
}

/* Called at a thread's end. The next thread wants the cached blocks if it starts soon. If the heap is large, the blocks go back
 * to their slabs instead, so that no other thread has as much to do for it in one malloc. */
static void cache_park_or_flush(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    if (owner_used_bytes(&heap->owner) > ORPHAN_USED_BYTES_MAX) {
        tcache_flush(tcache);
        heap_credits_rest(heap);
        owner_strip(&heap->owner);
    } else {
        tcache_park_all(tcache);
        warm_begin(heap);
    }
}

/* The thread gives up its heap, which becomes an orphan. */
static void heap_abandon(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    cache_park_or_flush(tcache);
    tcache->tag = 0;
    tcache->heap = NULL;
    lock_acquire(LOCK_VISIT); /* a visitor may be about to look at this thread's memory, which may be gone soon */
    atomic_store_explicit(&heap->tcache, NULL, memory_order_relaxed);
    lock_release(LOCK_VISIT);
    remote_abandon(&heap->owner);
}

struct heap *thread_borrow(struct tcache *tcache)
{
    if (!thread_process_start()) return NULL;
    struct heap *heap = heap_get(tcache->freed_owner);
    if (heap != NULL) heap_wake(heap);
    return heap;
}

void thread_return(struct heap *heap)
{
    if (heap->parked > 0) warm_begin(heap);
    else heap_credits_rest(heap);
    remote_abandon(&heap->owner);
}

/* Whether a thread of this process has taken a heap. relaxed: the two words order nothing. */
static _Atomic(bool) one_has_heap;

void thread_is_alone(bool has_heap)
{
    atomic_store_explicit(&one_has_heap, has_heap, memory_order_relaxed);
    purge_way_set(false);
}

bool thread_start(struct tcache *tcache)
{
    if (!thread_process_start()) return false;
    if (tcache->heap != NULL) return true; /* the program has allocated in a function of libc that this has called */
    tcache_busy_begin(tcache);
    struct heap *heap = heap_get(tcache->freed_owner);
    if (heap != NULL) heap_hold(tcache, heap);
    tcache_busy_end(tcache);
    if (heap == NULL) return false;
    if (atomic_exchange_explicit(&one_has_heap, true, memory_order_relaxed)) purge_way_set(true);
    if (tcache->state == THREAD_ENDED) return true;

    const bool is_key_maker = atomic_load_explicit(&key_maker, memory_order_relaxed) == tcache;
    /* Another thread makes the key: as long as it does, this one borrows. */
    if (!is_key_maker && end_key_is_awaited()) return true;

    /* The state is LIVE before pthread_setspecific, since libc allocates there for a key beyond its first 32. If that
     * call fails, the allocator cannot learn of the thread's end, so the thread borrows heaps from the start. */
    tcache->state = THREAD_LIVE;
    int saved = errno;
    if (!is_key_maker && !end_key_watch(tcache)) tcache->state = THREAD_ENDED;
    if (tcache->state == THREAD_LIVE) watch_call(true);
    errno = saved;
    return true;
}

void thread_abandon_heap(struct tcache *tcache)
{
    tcache_busy_begin(tcache);
    heap_abandon(tcache);
    memset(tcache->credits, 0, sizeof tcache->credits);
    tcache_busy_end(tcache);
}

void thread_succeed(struct tcache *tcache, struct owner *owner)
{
    if (tcache->state != THREAD_LIVE || !owner_adopt_this(owner)) return;
    tcache_busy_begin(tcache);
    if (owner_used_bytes(owner) > owner_used_bytes(&tcache->heap->owner)) {
        heap_abandon(tcache);
        heap_hold(tcache, (struct heap *)owner);
        remote_drain(owner); /* at least the frees that this thread had staged for it */
    } else {
        remote_abandon(owner);
    }
    tcache_busy_end(tcache);
}

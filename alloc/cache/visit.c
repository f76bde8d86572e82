/* visit.c: see visit.h. */
#include "cache/visit.h"

#include "base/sync_point.h"
#include "cache/credits.h"
#include "cache/owed.h"
#include "os/lock.h"
#include "os/os.h"
#include "slab/slab.h"
#include "slab/trim.h"
#include "superslab/purge.h"

struct tcache *visit_begin(struct heap *heap)
{
    lock_acquire(LOCK_VISIT);
    /* acquire: pairs with the release in heap_hold. */
    struct tcache *holder = atomic_load_explicit(&heap->tcache, memory_order_acquire);
    sync_point("visit_begin");
    uint32_t nobody = 0;
    /* acquire: pairs with the release in tcache_busy_end, so that what the thread did to the heap comes before. */
    if (holder != NULL && holder != tcache_self() &&
        atomic_compare_exchange_strong_explicit(&holder->busy, &nobody, BUSY_VISITED, memory_order_acquire,
                                                memory_order_relaxed))
        return holder;
    lock_release(LOCK_VISIT);
    return NULL;
}

bool visit_end(struct tcache *holder)
{
    /* release: pairs with the acquire in tcache_busy_begin. */
    bool is_waited_for = (atomic_exchange_explicit(&holder->busy, 0, memory_order_release) & BUSY_WAITED_FOR) != 0;
    if (is_waited_for) os_wake_one((uint32_t *)&holder->busy);
    lock_release(LOCK_VISIT);
    return is_waited_for;
}

static uint32_t seen_since(struct heap *heap)
{
    return atomic_load_explicit(&heap->rounds_seen, memory_order_relaxed) + 1;
}

/* Gives back the parked lists and what other threads freed, and releases empty slabs. In steps of one list each. The visit
 * ends at the first step that the thread has waited for, and the thread does the rest. False: it could not be visited, or the
 * visit ended early. */
static bool visit_caches(struct heap *heap)
{
    struct tcache *holder = visit_begin(heap);
    if (holder == NULL) return false;
    remote_drain(&heap->owner);
    heap_flush_begin(heap);
    while (heap->flush_class != 0) {
        heap_flush_step(heap);
        if (visit_end(holder) || (holder = visit_begin(heap)) == NULL) return false;
    }
    slab_release_empty(&heap->owner); /* the thread may have emptied another between two steps */
    heap_credits_decay(heap);
    return !visit_end(holder);
}

/* In steps too. The heap's thread may end the trim meanwhile, or begin another one: then that one is finished. */
static size_t visit_trim(struct heap *heap)
{
    size_t bytes = 0;
    bool is_due = true;
    for (bool first = true; is_due; first = false) {
        struct tcache *holder = visit_begin(heap);
        if (holder == NULL) return bytes;
        if (first) slab_trim_begin(&heap->owner);
        bytes += slab_trim_step(&heap->owner);
        is_due = slab_trim_is_due(&heap->owner);
        if (visit_end(holder)) return bytes;
    }
    return bytes;
}

void visit_all_caches(void)
{
    for (struct heap *heap = NULL; (heap = heap_next(heap)) != NULL;) visit_caches(heap);
}

size_t visit_all(void)
{
    size_t bytes = 0;
    for (struct heap *heap = NULL; (heap = heap_next(heap)) != NULL;)
        if (visit_caches(heap)) bytes += visit_trim(heap);
    return bytes;
}

/* Whether the heap's thread has been on no slow path for a while. */
static bool is_idle(struct heap *heap)
{
    return pool_tick_rounds() - atomic_load_explicit(&heap->rounds_seen, memory_order_relaxed) > VISIT_ROUNDS;
}

struct visit_found visit_idle(void)
{
    struct visit_found found = {0, 0};
    for (struct heap *heap = NULL; (heap = heap_next(heap)) != NULL;) {
        /* relaxed: the visit itself decides whether it may enter. */
        if (atomic_load_explicit(&heap->tcache, memory_order_relaxed) == NULL) continue;
        if (!is_idle(heap)) {
            found.active++;
            continue;
        }
        /* Read before the visit: what the thread does from then on calls for another visit. */
        const uint32_t since = seen_since(heap);
        bool visited = atomic_load_explicit(&heap->rounds_visited, memory_order_relaxed) == since;
        if (visited && !remote_is_pending(&heap->owner)) continue;
        if (!visit_caches(heap)) continue;
        atomic_store_explicit(&heap->rounds_visited, since, memory_order_relaxed);
        found.given_back++;
        if (owner_idle_bytes(&heap->owner) > 0) visit_trim(heap);
    }
    return found;
}

/* fork.c: see fork.h. The child has one thread, so every load and store may be relaxed. */
#include "cache/fork.h"

#include <string.h>

#include "base/hooks.h"
#include "cache/credits.h"
#include "cache/tcache.h"
#include "cache/thread.h"
#include "os/lock.h"
#include "os/meta.h"
#include "report/first_error.h"
#include "report/process.h"
#include "report/writer.h"
#include "slab/remote.h"
#include "slab/slab.h"
#include "superslab/kept.h"
#include "superslab/pool.h"
#include "superslab/pool_make.h"
#include "superslab/purse.h"

static void requeue(struct slab *slab, uint32_t class_index, void *context)
{
    (void)class_index;
    (void)context;
    remote_requeue(slab);
}

static bool was_any_queueing(void)
{
    bool was = remote_was_heapless_posting();
    for (struct heap *heap = NULL; (heap = heap_next(heap)) != NULL;)
        if (remote_was_queueing(&heap->owner, &heap->staging)) was = true;
    return was;
}

/* Rebuilds the queues from the slabs' remote words, if a thread was between posting blocks to a slab and queueing it, or
 * between taking a queue and draining it. Else they are whole, and the child looks at no slab. */
static void queues_mend(void)
{
    if (HAK_LIKELY(!was_any_queueing())) return;
    for (struct owner *owner = NULL; (owner = owner_next(owner)) != NULL;) remote_forget_pending(owner);
    slab_for_each(requeue, NULL);
}

/* Another thread was in the calling thread's heap at the fork, and may have left it half changed. The child leaves the
 * heap alone, as those of busy threads, and takes another. */
static void mend_visited(void)
{
    struct tcache *self = tcache_self();
    if (atomic_load_explicit(&self->busy, memory_order_relaxed) < BUSY_VISITED) return;
    atomic_store_explicit(&self->busy, 0, memory_order_relaxed);
    self->heap = NULL; /* so that abandon_dead takes the heap for one that was busy */
    self->sampler = NULL;
    self->tag = 0;
    memset(self->heads, 0, sizeof self->heads);
    memset(self->credits, 0, sizeof self->credits);
}

/* Makes orphans of the heaps of threads that do not exist in the child. Their caches lie in static TLS, which libc
 * keeps, with the stacks, until the child makes threads of its own. So no heap may point there afterwards. */
static void abandon_dead(void)
{
    mend_visited();
    struct heap *mine = tcache_self()->heap;
    for (struct heap *heap = NULL; (heap = heap_next(heap)) != NULL;) {
        if (heap == mine) continue;
        struct tcache *dead = atomic_load_explicit(&heap->tcache, memory_order_relaxed);
        if (dead == NULL) continue;
        bool whole = dead->heap == heap && atomic_load_explicit(&dead->busy, memory_order_relaxed) == 0;
        if (whole) thread_leave(dead);
        else atomic_store_explicit(&heap->tcache, NULL, memory_order_relaxed);
    }
}

void fork_child(void)
{
    lock_all_reset();
    kept_after_fork();
    queues_mend();
    abandon_dead();
    size_t bought_bytes = 0;
    for (struct heap *heap = NULL; (heap = heap_next(heap)) != NULL;) {
        if (heap != tcache_self()->heap && !owner_is_orphan(&heap->owner)) heap_credits_lose(heap);
        bought_bytes += heap->owner.bought_bytes;
        bool is_left = atomic_load_explicit(&heap->rest, memory_order_relaxed) == REST_LEFT;
        if (!is_left && remote_is_pending(&heap->owner)) remote_drain_orphan(&heap->owner);
    }
    purse_recount(bought_bytes);
    thread_recount_warm();
    thread_is_alone(tcache_self()->heap != NULL);
    hooks.own_after_fork();
    if (VALIDATE) hooks.thread_after_fork();
    if (pool_be_frugal(false)) meta_be_frugal(false); /* the child has not inherited mlockall */
    writer_after_fork();
    process_after_fork();
    first_error_after_fork();
    hooks.background_after_fork();
}

/* thread.c: see thread.h. */
#include "cache/thread.h"

#include <errno.h>
#include <pthread.h>

#include "cache/fork.h"
#include "os/lock.h"
#include "os/meta.h"
#include "superslab/pagemap.h"

static _Atomic(bool) started;
static pthread_key_t end_key;
static bool end_key_made; /* written once under LOCK_START */

static void thread_end(void *tcache)
{
    struct tcache *self = tcache;
    self->state = THREAD_ENDED;
    if (self->heap != NULL) thread_leave(self);
}

bool thread_process_start(void)
{
    /* acquire: pairs with the release below. */
    if (HAK_LIKELY(atomic_load_explicit(&started, memory_order_acquire))) return true;
    lock_acquire(LOCK_START);
    bool done = atomic_load_explicit(&started, memory_order_relaxed);
    bool first = !done && pagemap_start() == 0;
    if (first) {
        end_key_made = pthread_key_create(&end_key, thread_end) == 0;
        /* release: publishes the page map and the key. */
        atomic_store_explicit(&started, true, memory_order_release);
    }
    lock_release(LOCK_START);
    /* Without the lock: for its 49th handler libc allocates. */
    if (first) pthread_atfork(NULL, NULL, fork_child);
    return done || first;
}

static struct heap *heap_get(void)
{
    struct owner *orphan = owner_adopt();
    if (orphan != NULL) return (struct heap *)orphan; /* owner is a heap's first part */
    if (owner_count() + 1 >= HEAPS_MAX) return NULL;
    struct heap *heap = meta_alloc(sizeof *heap);
    if (heap == NULL || !owner_register(&heap->owner)) return NULL;
    return heap;
}

bool thread_start(struct tcache *tcache)
{
    if (!thread_process_start()) return false;
    tcache_busy_begin(tcache);
    struct heap *heap = heap_get();
    if (heap != NULL) {
        tcache->heap = heap;
        tcache_fill_credits(tcache);
        tcache->tag = heap->owner.tag;
        heap->tcache = tcache;
    }
    tcache_busy_end(tcache);
    if (heap == NULL) return false;
    if (tcache->state == THREAD_ENDED) return true;

    /* Live before libc is asked to remember us: for a key beyond its first 32 it allocates. If it
     * cannot, nobody would tell us of the thread's end, so the thread borrows from the start. */
    tcache->state = THREAD_LIVE;
    int saved = errno;
    if (!end_key_made || pthread_setspecific(end_key, tcache) != 0) tcache->state = THREAD_ENDED;
    errno = saved;
    return true;
}

void thread_leave(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    tcache_flush(tcache);
    tcache_busy_begin(tcache);
    for (uint32_t class_index = 0; class_index < CLASS_COUNT; class_index++)
        tcache->credits[class_index] = 0;
    tcache->tag = 0;
    tcache->heap = NULL;
    heap->tcache = NULL;
    remote_abandon(&heap->owner);
    tcache_busy_end(tcache);
}

uint32_t thread_flush_orphans(void)
{
    uint32_t flushed = 0;
    for (uint32_t id = 1; id <= owner_count(); id++) {
        struct owner *owner = owner_with_id(id);
        if (owner != NULL && remote_drain_orphan(owner)) flushed++;
    }
    return flushed;
}

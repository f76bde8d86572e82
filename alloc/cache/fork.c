/* fork.c: see fork.h. One thread is left: every load and store may be relaxed. */
#include "cache/fork.h"

#include "cache/tcache.h"
#include "cache/thread.h"
#include "os/lock.h"
#include "slab/remote.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"

/* The queues anew: a thread may have gone between posting blocks to a slab and queueing it, or
 * between taking a queue and draining it. The slabs know. */
static void requeue(struct superslab *superslab, void *context)
{
    (void)context;
    const char *base = superslab_base(superslab);
    if (base == NULL) return;
    uint32_t page = 0;
    while (page < SUPERSLAB_PAGES) {
        uint32_t tag = pagemap_tag(base + (size_t)page * PAGE_BYTES);
        if (tag >> TAG_OWNER_SHIFT == 0) {
            page++;
            continue;
        }
        remote_requeue(&superslab->slabs[page]);
        page += sizeclass_slab_pages(tag & TAG_CLASS_MASK);
    }
}

/* A dead thread's cache lies in its static TLS, which libc keeps with its stack until the child
 * makes threads of its own; from then on the heap must not point there. */
static void abandon_dead(void)
{
    struct heap *mine = tcache_self()->heap;
    for (uint32_t id = 1; id <= owner_count(); id++) {
        struct heap *heap = (struct heap *)owner_with_id(id);
        if (heap == NULL || heap == mine || heap->tcache == NULL) continue;
        struct tcache *dead = heap->tcache;
        bool whole = dead->heap == heap &&
                     atomic_load_explicit(&dead->busy, memory_order_relaxed) == 0;
        if (whole) {
            thread_leave(dead);
        } else {
            heap->tcache = NULL;
        }
    }
}

void fork_child(void)
{
    lock_all_reset();
    for (uint32_t id = 1; id <= owner_count(); id++) {
        struct owner *owner = owner_with_id(id);
        if (owner != NULL) remote_forget_pending(owner);
    }
    pool_for_each(requeue, NULL);
    abandon_dead();
}

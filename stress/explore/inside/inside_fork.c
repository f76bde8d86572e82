/* inside_fork.c: see inside_fork.h. */
#include "explore/inside/inside_fork.h"

#include <stdio.h>

#include "cache/tcache.h"
#include "heap/huge.h"
#include "slab/slab.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"

enum { HEAPS_NOTED = 64 };

static bool left_alone[HEAPS_NOTED];

static struct heap *heap_with_id(uint32_t id)
{
    return (struct heap *)owner_with_id(id);
}

static bool was_left(const struct owner *owner)
{
    return owner->id < HEAPS_NOTED && left_alone[owner->id];
}

/* Whether the heap is held by a thread that is not changing it. A heap that a thread has taken but not yet entered, or
 * has left but not yet given up, is being changed. */
static bool is_whole(const struct heap *heap)
{
    const struct tcache *self = tcache_self();
    if (heap == self->heap) return atomic_load_explicit(&self->busy, memory_order_relaxed) < BUSY_VISITED;
    if (owner_is_orphan(&heap->owner)) return true;
    const struct tcache *holder = heap->tcache;
    return holder != NULL && holder->heap == heap && atomic_load_explicit(&holder->busy, memory_order_relaxed) == 0;
}

bool inside_fork_look(void)
{
    for (uint32_t id = 0; id < HEAPS_NOTED; id++) {
        const struct heap *heap = id <= owner_count() ? heap_with_id(id) : NULL;
        left_alone[id] = heap != NULL && !is_whole(heap);
    }
    return owner_count() < HEAPS_NOTED;
}

uint32_t inside_fork_left_count(void)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < HEAPS_NOTED; id++) count += left_alone[id];
    return count;
}

bool inside_fork_heaps_hold(const void *const *held, uint32_t held_count, char *text, size_t text_bytes)
{
    for (uint32_t id = 1; id <= owner_count(); id++) {
        const struct heap *heap = heap_with_id(id);
        if (heap == NULL) continue;
        uint32_t holders = 0;
        for (uint32_t i = 0; i < held_count; i++) holders += held[i] == heap;
        const bool is_orphan = owner_is_orphan(&heap->owner), is_left = was_left(&heap->owner);
        if (holders + is_orphan == (is_left ? 0 : 1)) continue;
        snprintf(text, text_bytes, "heap %u, which %s at the fork, is held by %u threads and is %s orphan", id,
                 is_left ? "was being changed" : "nobody was changing", holders, is_orphan ? "an" : "no");
        return false;
    }
    return true;
}

/* Counts by the pages' own positions, not by slab_for_each: of a slab that was just being made or released, only some
 * pages have tags. */
static void count(struct superslab *superslab, void *context)
{
    struct inside_fork_use *use = context;
    const char *base = superslab_base(superslab);
    for (uint32_t page = 0; base != NULL && page < SUPERSLAB_PAGES; page++) {
        const struct slab *slab = &superslab->slabs[page];
        const uint32_t tag = pagemap_tag(base + (size_t)page * PAGE_BYTES);
        if (tag >> TAG_OWNER_SHIFT == 0) continue; /* free, or a run */
        use->run_bytes -= PAGE_BYTES;
        const struct owner *owner = owner_with_id(tag >> TAG_OWNER_SHIFT);
        if (owner == NULL || was_left(owner) || slab->page_offset != 0) continue;
        use->small_bytes += (size_t)atomic_load_explicit(&slab->used_count, memory_order_relaxed) *
                            sizeclass_bytes(tag & TAG_CLASS_MASK);
    }
}

struct inside_fork_use inside_fork_in_use(void)
{
    struct inside_fork_use use = {.run_bytes = pool_figures().claimed_pages * PAGE_BYTES,
                                  .huge_count = huge_figures().live_count};
    pool_for_each(count, &use);
    return use;
}

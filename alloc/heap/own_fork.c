/* own_fork.c: heaps of the program's own in the child after fork.
 *
 * fork takes no locks (os/lock.h), so another thread may have been changing a heap. The child only looks at each heap and
 * marks those; it writes to no other, so the cost is that of a read a heap. Who takes the lock of a marked heap first mends
 * it, from what is right at every moment:
 *
 * - A slab or run has its tag when it is whole, and loses it before its pages are freed. So slabs and runs are found by the
 *   page map. Which blocks of a slab were free is not known any more, so each counts as in use: the child frees and uses its
 *   blocks as before, and what lay free in such slabs comes back with destroy or hak_heap_free_all.
 * - The list of huge blocks is whole by `next`. A block that was being moved is in no page map, and the kernel may have moved
 *   it or not. No thread of the child has it, so the child leaves its mapping alone.
 * - large_bytes is the sum of these lists.
 *
 * A heap that no thread was changing is whole, but for blocks that were posted to it. */
#include "heap/own_inside.h"

#include <string.h>

#include "slab/slab.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"

static void forget_slabs(struct hak_heap *heap)
{
    memset(heap->owner.slabs, 0, sizeof heap->owner.slabs);
    memset(heap->bins, 0, sizeof heap->bins);
    heap->full = heap->runs = NULL;
    heap->slab_bytes = 0;
    heap->owner.used_bytes_peak = 0;
    heap->owner.trim_class = 0;
    heap->owner.trim_at = NULL;
    owner_used_bytes_set(&heap->owner, 0);
    atomic_store_explicit(&heap->owner.carved_bytes, 0, memory_order_relaxed);
}

/* All blocks of the slab count as in use. */
static void slab_adopt(struct hak_heap *heap, struct slab *slab)
{
    slab->free = NULL;
    memset(slab_marks(slab), 0, sizeof(mark_words));
    slab->full = true;
    slab->hollow = slab->trimmed = false;
    slab->linked_count = 0;
    for (uint32_t page = 0; page < slab->page_count; page++) slab[page].hollow_pages = 0;
    slab->carved_count = slab->capacity;
    atomic_store_explicit(&slab->used_count, slab->capacity, memory_order_relaxed);
    own_list_add(&heap->full, slab);
    size_t bytes = (size_t)slab->capacity * sizeclass_bytes(slab->class_index);
    owner_used_bytes_set(&heap->owner, owner_used_bytes(&heap->owner) + bytes);
    owner_carved_bytes_add(&heap->owner, bytes);
    heap->slab_bytes += (size_t)slab->page_count * PAGE_BYTES;
}

static void adopt_pages(struct superslab *superslab, void *context)
{
    struct hak_heap *heap = context;
    for (uint32_t page = 0; page < SUPERSLAB_PAGES; page++) {
        struct slab *slab = &superslab->slabs[page];
        uint32_t tag = pagemap_tag(superslab_page_start(superslab, slab));
        bool is_slab = tag_slab_class(tag) != CLASS_EMPTY;
        if ((!is_slab && tag != CLASS_OWN) || slab->page_offset != 0 || own_heap_of(slab) != heap) continue;
        if (is_slab) {
            slab_adopt(heap, slab);
        } else {
            own_list_add(&heap->runs, slab);
        }
    }
}

/* Keeps the huge blocks that are in the page map, and makes `prev` of each again. */
static void mend_huges(struct hak_heap *heap)
{
    struct huge_link **end = &heap->huges, *prev = NULL;
    for (struct huge_link *link; (link = *end) != NULL;) {
        if (!huge_is_mapped(link)) {
            *end = link->next;
            continue;
        }
        pagemap_tag_set(huge_start_of(link), 1,
                        CLASS_OWN_HUGE); /* it may have been on its way to this heap or out of it */
        link->prev = prev;
        prev = link;
        end = &link->next;
    }
}

static void recount_large(struct hak_heap *heap)
{
    heap->large_changes = 0;
    heap->large_bytes = 0;
    for (struct slab *run = heap->runs; run != NULL; run = run->next != heap->runs ? run->next : NULL)
        heap->large_bytes += (size_t)run->page_count * PAGE_BYTES;
    for (const struct huge_link *huge = heap->huges; huge != NULL; huge = huge->next)
        heap->large_bytes += huge_usable_of(huge);
}

void own_mend(struct hak_heap *heap)
{
    heap->torn = false;
    mend_huges(heap);
    recount_large(heap);
}

void own_mend_all(void)
{
    for (struct hak_heap *heap = own_first(); heap != NULL; heap = heap->next) {
        if (!heap->torn) continue;
        own_lock(heap);
        own_unlock(heap); /* drains */
    }
}

/* The child has one thread, so every access may be relaxed. */
void own_fork_child(void)
{
    for (struct hak_heap *heap = own_first(); heap != NULL; heap = heap->next) {
        if (lock_word_reset(&heap->lock)) {
            /* Now, and not when the heap is used: later, other threads may change the pages that this walk reads. */
            forget_slabs(heap);
            pool_for_each(adopt_pages, heap);
            heap->torn = true;
        } else if (heap->large_changes != 0) {
            heap->torn = true;
        } else if (atomic_load_explicit(&heap->posted, memory_order_relaxed) != NULL && !heap->torn) {
            /* unreached: by chance: a free has posted a block at the moment of the fork */
            own_lock(heap);
            own_unlock(heap); /* drains: the thread that posted them may have been about to */
        }
    }
}

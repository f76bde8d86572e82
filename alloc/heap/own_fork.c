/* own_fork.c: heaps of the program's own in the child after fork.
 *
 * fork takes no locks (os/lock.h), so another thread may have been changing a heap. Its lists and books are then made
 * again from the page map and the descriptors, which are right at every moment: a slab has its tag when it is whole, and
 * loses it before its pages are freed. Which of its blocks were free is not known any more, so each counts as in use:
 * the child frees and uses its blocks as before, and what lay free in such slabs comes back with destroy or
 * hak_heap_free_all. A heap that no thread was changing is whole. Blocks that were posted are drained in both cases. The
 * child has one thread, so every access may be relaxed. */
#include "heap/own_inside.h"

#include <string.h>

#include "slab/slab.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"

static void forget(struct hak_heap *heap)
{
    memset(heap->owner.slabs, 0, sizeof heap->owner.slabs);
    memset(heap->heads, 0, sizeof heap->heads);
    heap->full = heap->runs = NULL;
    heap->huges = NULL;
    heap->binned_bytes = heap->slab_bytes = heap->large_bytes = 0;
    heap->owner.used_bytes_peak = 0;
    owner_used_bytes_set(&heap->owner, 0);
    atomic_store_explicit(&heap->owner.carved_bytes, 0, memory_order_relaxed);
}

/* All blocks of the slab count as in use. */
static void slab_adopt(struct hak_heap *heap, struct slab *slab)
{
    slab->free = NULL;
    slab->listed = slab->hollow = slab->drained = false;
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

static void adopt_huges(struct hak_heap *heap)
{
    uintptr_t start = ((uintptr_t)1 << HAK_ADDRESS_BITS) - 1;
    while (start > 0 && pagemap_descriptor_below((const void *)start, &start) != NULL) {
        void *block = (void *)start--;
        if (pagemap_tag_checked(block) != CLASS_OWN_HUGE || huge_link_of(block)->heap != heap) continue;
        *huge_link_of(block) = (struct huge_link){.heap = heap, .next = heap->huges, .start = block};
        if (heap->huges != NULL) heap->huges->prev = huge_link_of(block);
        heap->huges = huge_link_of(block);
    }
}

/* A thread that the child lacks may have counted a large block that it never made. */
static void recount_large(struct hak_heap *heap)
{
    heap->large_bytes = 0;
    for (struct slab *run = heap->runs; run != NULL; run = run->next != heap->runs ? run->next : NULL)
        heap->large_bytes += (size_t)run->page_count * PAGE_BYTES;
    for (const struct huge_link *huge = heap->huges; huge != NULL; huge = huge->next)
        heap->large_bytes += huge_usable_size(huge->start);
}

void own_fork_child(void)
{
    for (struct hak_heap *heap = own_first(); heap != NULL; heap = heap->next) {
        if (lock_word_reset(&heap->lock)) {
            forget(heap);
            pool_for_each(adopt_pages, heap);
            adopt_huges(heap);
        }
        recount_large(heap);
        own_lock(heap);
        own_unlock(heap); /* drains */
    }
}

/* cached.c: see cached.h. */
#include "cache/cached.h"

#include "cache/thread.h"
#include "cache/visit.h"
#include "slab/slab.h"
#include "superslab/pool.h"

/* Bytes of a list of free blocks. It may be damaged, as nothing has checked it: the walk ends at what is no block of the
 * heap, and after as many blocks as the heap has in use. */
static size_t list_bytes(const struct heap *heap, struct block *list, uint32_t class_index)
{
    size_t block_bytes = sizeclass_bytes(class_index), most_bytes = owner_used_bytes(&heap->owner), bytes = 0;
    for (; list != NULL && bytes < most_bytes; list = link_get(&list->next)) {
        if (pagemap_tag_checked(list) != (heap->owner.tag | class_index)) break;
        bytes += block_bytes;
    }
    return bytes;
}

static size_t parked_bytes(const struct heap *heap, uint32_t class_index)
{
    size_t bytes = 0;
    uint32_t count = parking_count(&heap->parking[class_index]);
    struct block *list = heap->parking[class_index].magazines;
    for (; count > 0 && list != NULL; count--) {
        size_t of_list = list_bytes(heap, list, class_index);
        if (of_list == 0) break; /* no block: it has no link to the next list */
        bytes += of_list;
        list = link_get(&list->next_magazine);
    }
    return bytes;
}

static size_t own_bytes(struct tcache *tcache)
{
    size_t bytes = 0;
    tcache_busy_begin(tcache);
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++)
        bytes +=
            parked_bytes(tcache->heap, class_index) + list_bytes(tcache->heap, tcache->heads[class_index], class_index);
    tcache_busy_end(tcache);
    return bytes;
}

static size_t orphan_bytes(struct heap *heap)
{
    if (!owner_adopt_this(&heap->owner)) return 0;
    size_t bytes = 0;
    bool is_left = atomic_load_explicit(&heap->rest, memory_order_relaxed) == REST_LEFT;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        bytes += parked_bytes(heap, class_index);
        if (is_left) bytes += list_bytes(heap, left_list(heap->left, class_index), class_index);
    }
    remote_abandon(&heap->owner);
    return bytes;
}

static size_t visited_bytes(struct heap *heap)
{
    size_t bytes = 0;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        struct tcache *holder = visit_begin(heap);
        if (holder == NULL) break;
        bytes += parked_bytes(heap, class_index);
        if (visit_end(holder)) break;
    }
    return bytes;
}

static void count_posted(struct slab *slab, uint32_t class_index, void *context)
{
    *(size_t *)context += (size_t)remote_count(slab) * sizeclass_bytes(class_index);
}

size_t cached_bytes(void)
{
    size_t bytes = 0;
    slab_for_each(count_posted, &bytes);
    struct tcache *self = tcache_self();
    for (struct heap *heap = NULL; (heap = heap_next(heap)) != NULL;) {
        bool is_held = atomic_load_explicit(&heap->tcache, memory_order_relaxed) != NULL;
        /* relaxed: the mark decides whether it may be entered. An orphan that is empty is left alone. */
        bool is_empty = atomic_load_explicit(&heap->rest, memory_order_relaxed) == REST_EMPTY;
        bytes += heap == self->heap ? own_bytes(self)
                 : is_held          ? visited_bytes(heap)
                 : is_empty         ? 0
                                    : orphan_bytes(heap);
    }
    return bytes;
}

/* ended.c: see ended.h. */
#include "cache/ended.h"

#include "cache/thread.h"
#include "slab/slab.h"
#include "slab/take.h"
#include "slab/validate.h"

static struct block *take(struct heap *heap, uint32_t class_index)
{
    struct owner *owner = &heap->owner;
    struct block *list = magazine_pop(heap, class_index);
    if (list != NULL) return list;
    struct slab *slab = owner->slabs[class_index];
    if (slab == NULL) slab = slab_make(owner, class_index);
    return slab != NULL ? slab_take(slab) : NULL;
}

void *ended_refill(uint32_t class_index, struct tcache *tcache)
{
    tcache_busy_begin(tcache);
    struct heap *heap = thread_borrow(tcache);
    struct block *block = heap != NULL ? take(heap, class_index) : NULL;
    if (block != NULL) {
        if (VALIDATE) validate_alloc(block, class_index, heap->owner.tag);
        struct block *rest = link_get(&block->next);
        if (rest != NULL) magazine_push(heap, rest, class_index);
    }
    if (heap != NULL) owner_count_event(&heap->owner, OWNER_EVENT_refills);
    if (heap != NULL) thread_return(heap);
    tcache_busy_end(tcache);
    return block;
}

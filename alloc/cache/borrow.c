/* borrow.c: see borrow.h. */
#include "cache/borrow.h"

#include "slab/slab.h"
#include "slab/take.h"

struct block *borrow(struct tcache *tcache, uint32_t *class_index)
{
    struct heap *heap = tcache->heap;
    struct parking *parking = &heap->parking[*class_index];
    uint32_t block_bytes = sizeclass_bytes(*class_index), align_bytes = block_bytes & -block_bytes;
    uint32_t fresh_bytes = block_bytes > CARVE_BYTES ? block_bytes : CARVE_BYTES;
    if (parking->borrowed >= fresh_bytes / BORROWED_BYTES || heap->is_profiled) return NULL;
    for (uint32_t lender = *class_index + 1; lender <= *class_index + BORROW_CLASSES_MAX; lender++) {
        if (lender > CLASS_GEOMETRIC_LAST) break;
        if (sizeclass_bytes(lender) % align_bytes != 0) continue;
        struct slab *slab = heap->owner.slabs[lender];
        struct block *list = tcache->heads[lender];
        if (list == NULL) list = magazine_pop(heap, lender);
        if (list == NULL && slab != NULL && (list = slab_take_one(slab)) != NULL) link_set(&list->next, NULL);
        if (list == NULL) continue;
        parking->borrowed++;
        *class_index = lender;
        return list;
    }
    parking->borrowed = 0;
    return NULL;
}

struct block *borrow_again(struct tcache *tcache, uint32_t *class_index)
{
    struct parking *parking = &tcache->heap->parking[*class_index];
    if (parking->borrowed == 0) return NULL; /* the refill has looked, and nothing lies idle */
    parking->borrowed = 0;
    return borrow(tcache, class_index);
}

/* credits.c: see credits.h. */
#include "cache/credits.h"

static void credit_set(struct heap *heap, uint32_t class_index, uint32_t credit, bool is_grown)
{
    struct parking *parking = &heap->parking[class_index];
    atomic_store_explicit(&parking->credit, (uint16_t)credit, memory_order_relaxed);
    parking->count_max = (uint8_t)sizeclass_magazines(class_index, credit);
    atomic_store_explicit(&parking->is_grown, is_grown, memory_order_relaxed);
}

void credit_grow(struct heap *heap, uint32_t class_index)
{
    uint32_t credit = parking_credit(&heap->parking[class_index]);
    uint32_t credit_max = sizeclass_credit_grown(class_index);
    credit_set(heap, class_index, 2 * credit < credit_max ? 2 * credit : credit_max, 2 * credit >= credit_max);
}

void heap_credits_decay(struct heap *heap)
{
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++)
        if (parking_credit(&heap->parking[class_index]) > sizeclass_credit(class_index))
            credit_set(heap, class_index, sizeclass_credit(class_index), false);
}

void tcache_fill_credits(struct tcache *tcache)
{
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        struct parking *parking = &tcache->heap->parking[class_index];
        if (parking_credit(parking) == 0) /* a new heap */
            credit_set(tcache->heap, class_index, sizeclass_credit(class_index), false);
        parking->overflows = 0;
        tcache->credits[class_index] = parking_credit(parking);
    }
}

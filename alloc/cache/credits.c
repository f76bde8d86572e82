/* credits.c: see credits.h. */
#include "cache/credits.h"

/* The credits of new heaps; 0: sizeclass_credit. They order nothing: relaxed. */
static _Atomic(uint16_t) at_first[CLASS_COUNT];

static uint32_t credit_at_first(uint32_t class_index)
{
    uint32_t credit = atomic_load_explicit(&at_first[class_index], memory_order_relaxed);
    return credit != 0 ? credit : sizeclass_credit(class_index);
}

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
            credit_set(tcache->heap, class_index, credit_at_first(class_index), false);
        parking->overflows = 0;
        tcache->credits[class_index] = parking_credit(parking);
    }
}

void credits_at_first_set(const uint16_t *credits)
{
    struct tcache *tcache = tcache_self();
    tcache_busy_begin(tcache);
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        uint32_t least = sizeclass_credit(class_index);
        uint32_t credit = sizeclass_clamp(credits[class_index], least, sizeclass_credit_grown(class_index));
        atomic_store_explicit(&at_first[class_index], (uint16_t)credit, memory_order_relaxed);
        if (tcache->heap != NULL && parking_credit(&tcache->heap->parking[class_index]) == least)
            credit_set(tcache->heap, class_index, credit, false);
    }
    tcache_busy_end(tcache);
}

/* NULL: no heap has this id yet. */
static const struct parking *parking_of(uint32_t id, uint32_t class_index)
{
    const struct heap *heap = (const struct heap *)owner_with_id(id); /* owner is a heap's first part */
    return heap != NULL ? &heap->parking[class_index] : NULL;
}

uint32_t credits_highest(uint32_t class_index)
{
    uint32_t highest = 0;
    for (uint32_t id = 1; id <= owner_count(); id++) {
        const struct parking *parking = parking_of(id, class_index);
        if (parking != NULL && parking_credit(parking) > highest) highest = parking_credit(parking);
    }
    return highest != 0 ? highest : credit_at_first(class_index);
}

uint32_t credits_learned(uint32_t class_index)
{
    uint32_t learned = sizeclass_credit(class_index);
    for (uint32_t id = 1; id <= owner_count(); id++) {
        const struct parking *parking = parking_of(id, class_index);
        if (parking == NULL) continue;
        uint32_t credit = parking_credit(parking);
        if (!parking_is_grown(parking) && credit <= credit_at_first(class_index)) credit /= 2;
        if (credit > learned) learned = credit;
    }
    return learned;
}

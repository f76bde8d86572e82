/* credits.c: see credits.h. */
#include "cache/credits.h"

#include "slab/slab.h"
#include "slab/validate.h"
#include "superslab/purge.h"
#include "superslab/purse.h"

static void credit_set(struct heap *heap, uint32_t class_index, uint32_t credit, bool is_grown)
{
    struct parking *parking = &heap->parking[class_index];
    atomic_store_explicit(&parking->credit, (uint16_t)credit, memory_order_relaxed);
    parking->count_max = (uint8_t)sizeclass_magazines(class_index, credit);
    atomic_store_explicit(&parking->is_grown, is_grown, memory_order_relaxed);
}

static size_t bytes_of(uint32_t class_index, uint32_t blocks)
{
    return (size_t)blocks * sizeclass_bytes(class_index);
}

/* --- the purse --------------------------------------------------------------------------------------------- */

static void paid_set(struct heap *heap, uint32_t class_index, uint32_t blocks)
{
    heap->parking[class_index].paid = (uint16_t)blocks;
    bool is_all = blocks != 0 && blocks >= parking_credit(&heap->parking[class_index]);
    owner_limit_set(&heap->owner, class_index, is_all ? LIMIT_PAID : blocks);
}

/* The class has nothing paid any more, and its list goes back to its slabs. */
static void give_up(struct tcache *tcache, uint32_t class_index)
{
    struct heap *heap = tcache->heap;
    struct block *list = tcache->heads[class_index];
    tcache->heads[class_index] = NULL;
    tcache->credits[class_index] = 0;
    purse_return(&heap->owner.bought_bytes, bytes_of(class_index, heap->parking[class_index].paid));
    paid_set(heap, class_index, 0);
    if (VALIDATE) validate_list(list, class_index);
    slab_give_back_each(list);
    slab_release_empty_of(&heap->owner, class_index);
}

/* A class of this thread that has freed nothing in the last round of the tick gives back its list and what it has paid. Looks
 * at GIVE_UP_STEPS classes, and at each once a round. False: none of them. */
static HAK_NOINLINE bool give_up_idle(struct tcache *tcache, uint32_t but)
{
    struct heap *heap = tcache->heap;
    if (heap->sampler != NULL) return false; /* it knows what bins hold */
    if (heap->give_up_class == 0) {
        if (heap->give_up_rounds == pool_tick_rounds()) return false;
        heap->give_up_rounds = pool_tick_rounds();
    }
    for (uint32_t steps = 0; steps < GIVE_UP_STEPS; steps++) {
        uint32_t class_index = heap->give_up_class = (uint8_t)((heap->give_up_class + 1) % CLASS_COUNT);
        if (class_index == CLASS_EMPTY) return false;
        struct parking *parking = &heap->parking[class_index];
        uint16_t left = (uint16_t)tcache->credits[class_index];
        bool is_idle = parking->credit_seen == left && parking->paid != 0;
        parking->credit_seen = left;
        if (!is_idle || class_index == but || parking->count != 0) continue;
        give_up(tcache, class_index);
        return true;
    }
    return false;
}

/* Beyond its share of the purse a heap buys nothing, whatever the purse has. */
static bool buy(struct owner *owner, size_t bytes, bool is_wanted)
{
    size_t most_bytes = PURSE_HEAP_BYTES + (owner_used_bytes(owner) >> PURSE_SHARE_LOG2);
    return owner->bought_bytes + bytes <= most_bytes && purse_buy(&owner->bought_bytes, bytes, is_wanted);
}

/* Pays for blocks more than the class has paid for. */
static bool pay_more(struct tcache *tcache, uint32_t class_index, uint32_t blocks)
{
    struct owner *owner = &tcache->heap->owner;
    bool is_wanted = tcache->heap->parking[class_index].wants_again;
    size_t bytes = bytes_of(class_index, blocks);
    if (buy(owner, bytes, is_wanted)) return true;
    return is_wanted && give_up_idle(tcache, class_index) && buy(owner, bytes, true);
}

/* Pays for this number of blocks, if it is more than the class has paid for. */
static bool pay(struct tcache *tcache, uint32_t class_index, uint32_t blocks)
{
    struct heap *heap = tcache->heap;
    uint32_t before = heap->parking[class_index].paid;
    uint8_t *broke = &heap->broke[heap->parking[class_index].wants_again];
    if (blocks <= before) blocks = before;
    else if (*broke > 0) {
        --*broke;
        return false;
    } else if (!pay_more(tcache, class_index, blocks - before)) {
        *broke = BROKE_TRIES;
        return false;
    }
    paid_set(heap, class_index, blocks);
    return true;
}

void credit_pay(struct tcache *tcache, uint32_t class_index)
{
    struct heap *heap = tcache->heap;
    uint32_t credit = parking_credit(&heap->parking[class_index]), used = owner_used_blocks(&heap->owner, class_index);
    used += used / 4 + 1; /* so that the next refills need not ask */
    if (pay(tcache, class_index, used < credit ? used : credit)) return;
    paid_set(heap, class_index, heap->parking[class_index].paid); /* LIMIT_LATER ends */
    if (heap->parking[class_index].paid == 0) slab_release_empty_of(&heap->owner, class_index);
}

void credit_outgrown(struct tcache *tcache, uint32_t class_index)
{
    struct heap *heap = tcache->heap;
    struct parking *parking = &heap->parking[class_index];
    uint32_t credit = parking_credit(parking), used = owner_used_blocks(&heap->owner, class_index);
    if (parking->gave_back) parking->wants_again = true;
    bool has_share = used >> USED_SHARE_LOG2 >= credit;
    if (!has_share) credit_pay(tcache, class_index);
    if (credit_is_paid(heap, class_index)) return;
    owner_limit_set(&heap->owner, class_index, LIMIT_LATER);
    if (has_share) return;
    uint32_t now = credit_cut(heap, class_index);
    if (tcache->credits[class_index] > now && heap->sampler == NULL) tcache->credits[class_index] = now;
}

/* How many blocks the bin of a class that has not paid for `most` takes. */
static inline uint32_t unpaid_share(const struct heap *heap, uint32_t class_index, uint32_t most)
{
    uint32_t share = owner_used_blocks(&heap->owner, class_index) >> USED_SHARE_LOG2;
    if (share < heap->parking[class_index].paid) share = heap->parking[class_index].paid;
    return share < most ? share : most;
}

uint32_t credit_cut(const struct heap *heap, uint32_t class_index)
{
    const struct parking *parking = &heap->parking[class_index];
    uint32_t credit = parking_credit(parking), least = sizeclass_credit_least(class_index);
    uint32_t most = credit >> parking->overflows;
    if (parking->overflows != 0 && most < least) most = least < credit ? least : credit;
    if (credit_is_paid(heap, class_index)) return most;
    return unpaid_share(heap, class_index, most);
}

/* --- where a credit begins, grows and falls ---------------------------------------------------------------------- */

void credit_grow(struct tcache *tcache, uint32_t class_index)
{
    struct heap *heap = tcache->heap;
    struct parking *parking = &heap->parking[class_index];
    uint32_t credit = parking_credit(parking), credit_max = sizeclass_credit_grown(class_index);
    uint32_t grown = 2 * credit < credit_max ? 2 * credit : credit_max;
    uint32_t used = owner_used_blocks(&heap->owner, class_index);
    parking->wants_again = true; /* it did not go back since there was room */
    if (!pay(tcache, class_index, used < grown ? used : grown)) return;
    credit_set(heap, class_index, grown, grown == credit_max);
    paid_set(heap, class_index, parking->paid);
}

void heap_credits_pay_back(struct heap *heap)
{
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) paid_set(heap, class_index, 0);
    heap->broke[0] = heap->broke[1] = 0;
    heap->rested_bytes = 0;
    purse_return(&heap->owner.bought_bytes, SIZE_MAX);
}

void heap_credits_decay(struct heap *heap)
{
    heap->broke[0] = heap->broke[1] = 0;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        struct parking *parking = &heap->parking[class_index];
        if (parking_credit(parking) > sizeclass_credit(class_index))
            credit_set(heap, class_index, sizeclass_credit(class_index), false);
        parking->gave_back = parking->wants_again = false;
        uint32_t used = owner_used_blocks(&heap->owner, class_index), paid = parking->paid;
        if (paid > used) purse_return(&heap->owner.bought_bytes, bytes_of(class_index, paid - used));
        paid_set(heap, class_index, paid < used ? paid : used);
    }
}

void heap_credits_lose(struct heap *heap)
{
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) paid_set(heap, class_index, 0);
    heap->rested_bytes = heap->owner.bought_bytes = 0;
}

void heap_credits_rest(struct heap *heap)
{
    heap->rested_bytes += heap->owner.bought_bytes;
    purse_return(&heap->owner.bought_bytes, SIZE_MAX);
}

void tcache_fill_credits(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    if (heap->rested_bytes != 0 && !purse_buy(&heap->owner.bought_bytes, heap->rested_bytes, true)) {
        heap_credits_pay_back(heap);
        heap_credits_decay(heap);
    }
    heap->rested_bytes = 0;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        struct parking *parking = &heap->parking[class_index];
        if (parking_credit(parking) == 0) /* a new heap */
            credit_set(heap, class_index, sizeclass_credit(class_index), false);
        parking->overflows = 0;
        uint32_t credit = parking_credit(parking);
        tcache->credits[class_index] =
            credit_is_paid(heap, class_index) ? credit : unpaid_share(heap, class_index, credit);
    }
}

void tcache_return_credits(struct tcache *tcache)
{
    heap_credits_pay_back(tcache->heap);
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        tcache->heap->parking[class_index].lowered += (uint16_t)tcache->credits[class_index];
        tcache->credits[class_index] = 0;
    }
}

uint32_t credits_highest(uint32_t class_index)
{
    uint32_t highest = 0;
    for (struct heap *heap = NULL; (heap = heap_next(heap)) != NULL;) {
        uint32_t credit = parking_credit(&heap->parking[class_index]);
        if (credit > highest) highest = credit;
    }
    return highest != 0 ? highest : sizeclass_credit(class_index);
}

/* credits.h: how many frees a heap's bins take (struct parking): where a credit begins, grows and falls, and how a class pays
 * for it. What a heap has learned stays with it when another thread takes it over. A heap that idles forgets it: a visit
 * resets the credits, and so does the tick that flushes a cold orphan.
 *
 * What a bin may come to hold is at most its credit, and at most the class's blocks in use, bins included. A class pays for
 * that from the purse (superslab/purse.h), and for all of the credit once it has freed while far more are in use. If it
 * cannot, its lists go back to their slabs, its bin takes what is paid or a share of the blocks in use, and it keeps no empty
 * slab unless something is paid. So a thread that frees all keeps what it has paid for, and what refills brought to its bins. While
 * blocks are sampled, a class that has not paid keeps the credit that it had until its next park, since the sampler counts by it. */
#pragma once

#include <stdint.h>

#include "cache/tcache.h"

enum {
    /* A class that could not buy enough takes at most 1/2 (1 >> USED_SHARE_LOG2) of its blocks in use. */
    USED_SHARE_LOG2 = 1,
    PURSE_HEAP_BYTES = 8 << 20,
    BROKE_TRIES = 32, /* a heap that could not buy does not try again the next times */
    GIVE_UP_STEPS = 8, /* a class that cannot buy looks at this many others of the thread, which may give up theirs */
};

/* Fills the credits of a thread that has just taken a heap: the heap's own, or those of a new heap. */
void tcache_fill_credits(struct tcache *tcache);

/* The bins have just been emptied: nothing is paid any more, and each class's next free asks again how many its bin takes. */
void tcache_return_credits(struct tcache *tcache);

/* The highest credit that a heap has now; without heaps, that of a new one. Other threads may be changing it. */
uint32_t credits_highest(uint32_t class_index);

/* A parked list is wanted again. */
HAK_NOINLINE void credit_grow(struct tcache *tcache, uint32_t class_index);

/* The limit of a class (struct class_blocks) is the blocks that it has paid for, or: */
enum {
    LIMIT_PAID = 1 << 30, /* it has paid for its credit: its bin may hold no more, whatever is in use */
    LIMIT_LATER = 3 << 29, /* it has not: the next park looks again */
    LIMIT_LATER_LEAST = 5 << 28, /* room is at least this with LIMIT_LATER */
};

/* Whether the class has paid for all that its bin may come to hold. If not, credit_pay tries that. */
static inline bool credit_is_paid(const struct heap *heap, uint32_t class_index)
{
    return heap->owner.blocks[class_index].room < LIMIT_LATER_LEAST; /* not below 0, as an unsigned number */
}

HAK_NOINLINE void credit_pay(struct tcache *tcache, uint32_t class_index);

/* After a refill: more blocks are in use than the limit. */
HAK_NOINLINE void credit_outgrown(struct tcache *tcache, uint32_t class_index);

/* How many frees the class's bin takes now. Each list in a row that goes back to its slabs halves the credit, since a thread
 * that frees more than it allocates needs no long lists, and the last one before it sleeps cannot be taken from it. 0: its
 * blocks go to their slabs at once. */
HAK_NOINLINE uint32_t credit_cut(const struct heap *heap, uint32_t class_index);

static inline uint32_t heap_credit_now(const struct heap *heap, uint32_t class_index)
{
    const struct parking *parking = &heap->parking[class_index];
    if (HAK_LIKELY(parking->overflows == 0 && credit_is_paid(heap, class_index))) return parking_credit(parking);
    return credit_cut(heap, class_index);
}

/* The heap has idled: credits that had grown are as at first, and what is paid beyond the blocks in use goes back. Blocks that
 * a thread's bins hold count as in use, so a bin still takes no more than is paid, though its thread asks nobody. */
void heap_credits_decay(struct heap *heap);

/* Nothing is paid any more. For a heap that no thread holds; else tcache_return_credits. */
void heap_credits_pay_back(struct heap *heap);

/* The heap has no caches and no thread: what it has bought goes back until a thread takes it. */
void heap_credits_rest(struct heap *heap);

/* In a forked child: nobody will use the heap. The caller counts the purse again. */
void heap_credits_lose(struct heap *heap);

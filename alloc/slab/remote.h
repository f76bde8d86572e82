/* remote.h: frees of blocks that another owner's slab holds.
 *
 * The freeing thread stages such blocks by page, in a small table of its own, and posts a run of
 * them with one compare-and-swap to the slab's remote word. Whoever finds the word's QUEUED bit
 * clear also pushes the slab on its owner's pending queue. The owner takes the queue whole at its
 * next slow path and drains each slab on it.
 *
 *   remote word   head of the list | QUEUED, and the number of its blocks above the address bits
 *
 * Law 2: pushed to remote = drained + pending; at rest nothing is pending; a slab with pending blocks
 * is on its owner's queue, once, and an orphan's queue is empty.
 * QUEUED is set with the first post and cleared only by the drain, after the slab has left the
 * queue: so a slab is on at most one queue, once. (A drain beside the queue makes it cyclic.)
 * The words need no ABA care: a push only stores the head it saw, never follows it, and the drain
 * takes everything. (Batches staged by slab follow snmalloc's; the count in the word rpmalloc's.) */
#pragma once

#include "slab/slab.h"

struct stage {
    uintptr_t page;     /* address >> PAGE_SHIFT of the blocks staged; 0: none yet */
    struct block *head; /* count blocks, the last of them tail */
    struct block *tail;
    uint32_t count;
    uint32_t count_max; /* post at so many */
};

struct staging {
    bool used; /* something was staged since all was posted */
    struct counters *counters; /* VALIDATE: of the heap that stages; NULL: none */
    struct stage stages[STAGES];
};

/* Stages one block of a slab that the caller's owner does not hold; posts when the stage is full or
 * is wanted for another page. The thread that holds the staging table. */
void remote_stage(struct staging *staging, struct block *block, uint32_t class_index);

/* Posts all that is staged. */
void remote_post_all(struct staging *staging);

/* Posts count blocks of one slab, linked from head to tail. Any thread, with an owner or without.
 * If the slab's owner is an orphan, its pending slabs are drained here and now, so that what the
 * dead threads' heaps held does not pile up. */
void remote_post(struct slab *slab, struct block *head, struct block *tail, uint32_t count);

/* Gives the blocks of every pending slab back to its slab, but returns the first list found of
 * class_wanted (CLASS_EMPTY: none) instead: its blocks stay in use. By whoever holds the owner. */
struct block *remote_drain(struct owner *owner, uint32_t class_wanted);

/* In the child after fork only: empties an owner's queue; queues a slab that holds posted blocks. */
void remote_forget_pending(struct owner *owner);
void remote_requeue(struct slab *slab);

/* Makes an owner that the caller holds an orphan, with nothing pending. */
void remote_abandon(struct owner *owner);

/* Takes an orphan, drains it and leaves it again. False if it is none, or another thread has it. */
bool remote_drain_orphan(struct owner *owner);

/* For inspection at rest: the blocks on a slab's remote word; whether it says that the slab is queued. */
uint32_t remote_count(const struct slab *slab);
bool remote_is_queued(const struct slab *slab);

static inline bool remote_is_pending(struct owner *owner)
{
    /* relaxed: a hint; remote_drain acquires. */
    return atomic_load_explicit(&owner->pending, memory_order_relaxed) != NULL;
}

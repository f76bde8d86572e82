/* remote.h: frees of blocks whose slab belongs to another owner.
 *
 * The freeing thread stages such blocks by page, in a small table of its own. It posts a list of them with one
 * compare-and-swap of the slab's remote word. A thread that finds the word's QUEUED bit clear also pushes the slab on
 * its owner's pending queue. At its next slow paths the owner takes slabs off the queue and drains them,
 * DRAIN_SLABS_MAX at a time.
 *
 *   remote word   head of the list | QUEUED; above the address bits the number of its blocks
 *
 * Law 2: blocks posted = blocks drained + blocks pending. At rest nothing is pending. A slab with pending blocks is on
 * its owner's queue exactly once. The queue of an orphan is empty.
 *
 * The first post sets QUEUED, and only the drain clears it, after the slab has left the queue. So a slab is on at most
 * one queue, at most once. (Draining a slab that is still on a queue would make the queue cyclic.)
 *
 * ABA is harmless: a push only stores the head that it saw and never follows it, and a drain takes everything. (Staging
 * batches by slab follows snmalloc; the count in the word follows rpmalloc.) */
#pragma once

#include "slab/slab.h"

struct stage {
    uintptr_t page;     /* address >> PAGE_SHIFT of the blocks staged; 0: none yet */
    struct block *head; /* count blocks, the last of them tail */
    struct block *tail;
    uint32_t count;
    uint32_t count_max; /* post when count reaches this */
};

struct staging {
    bool posts; /* the thread posts a stage: a slab may have blocks and be on no queue, as a forked child must know */
    uint32_t held_count;
    uint32_t next; /* the stage that gives way to the next one is the first held one from here on */
    uint64_t held[STAGES / 64]; /* a bit for each stage that may have blocks: held_count of them */
    struct stage stages[STAGES];
};

/* Stages one block of another owner's slab. Posts a stage that is full, or that another page needs. What a sleeping thread has
 * staged nobody else can take. So all threads share STAGES_ALL_MAX full ones: beside many heaps a stage that begins posts
 * others, down to STAGES_MIN, and beside more heaps each takes fewer blocks.
 * Only the thread that holds the staging table may call it. */
void remote_stage(struct staging *staging, struct block *block, uint32_t class_index);

/* Posts every stage that is held. */
void remote_post_all(struct staging *staging);

/* Posts count blocks of one slab, linked from head to tail. If the slab's owner is
 * an orphan, this also drains the owner's pending slabs, so that frees of dead threads' blocks do not pile up. */
void remote_post(struct slab *slab, struct block *head, struct block *tail, uint32_t count);

/* Posts one block, past the staging table: for a thread without a heap. */
void remote_post_one(struct slab *slab, struct block *block);

/* Gives the blocks of every pending slab back to the slab, or of as many slabs as slabs_max says. The first list of class_wanted
 * (CLASS_EMPTY: no class) is returned instead, and its blocks stay in use. Only the thread that holds the owner may call them. */
void remote_drain(struct owner *owner);
struct block *remote_drain_some(struct owner *owner, uint32_t class_wanted, uint32_t slabs_max);

/* For the child after fork. remote_recount counts a block that a thread which the child lacks had put on a stage's list
 * and not counted yet, but not the first of a list, whose head may not be set. remote_was_queueing: whether a thread was between
 * posting blocks to a slab and queueing it, or had taken a slab off the owner's queue and not drained it; remote_was_heapless_posting:
 * whether a thread without a heap was. Only then queues lack slabs: remote_forget_pending empties an owner's queue, and
 * remote_requeue queues a slab that has posted blocks. */
void remote_recount(struct staging *staging);
bool remote_was_queueing(struct owner *owner, struct staging *staging);
bool remote_was_heapless_posting(void);
void remote_forget_pending(struct owner *owner);
void remote_requeue(struct slab *slab);

/* Drains an owner that the caller holds until nothing is pending, and makes it an orphan. */
void remote_abandon(struct owner *owner);

/* Adopts an orphan, drains it and makes it an orphan again. False if the owner is no orphan, or another thread adopted
 * it. */
bool remote_drain_orphan(struct owner *owner);

/* For inspection at rest: the number of blocks posted to a slab, and whether its word has QUEUED set. */
uint32_t remote_count(const struct slab *slab);
bool remote_is_queued(const struct slab *slab);

static inline bool remote_is_pending(struct owner *owner)
{
    /* relaxed: only a hint; pending_pop acquires. */
    return atomic_load_explicit(&owner->pending, memory_order_relaxed) != NULL;
}

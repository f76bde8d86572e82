/* tcache.h: the thread cache, one layer: a list of free blocks for each class, inline in
 * thread-local storage, and behind it a few whole lists (magazines) parked in the thread's heap.
 *
 * malloc pops the bin's list. free pushes on it and counts the bin's credit down; when the credit
 * is spent the list is parked as it stands, in O(1), without being walked. Beyond the class's limit
 * a parked list is walked once and its blocks go back to their slabs. When a parked list is wanted
 * again the class's credit doubles: the swings of its use are longer than the credit was.
 *
 * A thread that has not started has this struct all zero: its bins are empty and its credits are
 * spent, so every operation falls to the slow path, and the hit paths need no test for it. The
 * same holds of a thread that has ended (see thread.h).
 *
 * The bin of CLASS_EMPTY never holds a block. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/policy.h"
#include "base/sizeclass.h"
#include "slab/owner.h"
#include "slab/remote.h"

enum thread_state {
    THREAD_NEW,   /* has not used the heap yet */
    THREAD_LIVE,  /* holds a heap, and will be told of the thread's end */
    THREAD_ENDED, /* told already: borrows a heap for each operation that needs one */
};

struct tcache {
    struct block *heads[CLASS_COUNT];
    uint32_t credits[CLASS_COUNT];
    uint32_t tag;      /* of the owner in heap; 0 without */
    struct heap *heap; /* NULL without */
    uint32_t tick_rounds; /* that the thread has seen */
    enum thread_state state;
    uint32_t early_frees; /* posted one by one before the thread had a heap */
    struct owner *freed_owner; /* of the last of the early frees */
    /* The owner of most of the remote frees lately, and by how many they outnumber the others'. */
    uint32_t majority_tag, majority_count;
    size_t majority_used_bytes; /* of the own heap when the count began */
    /* Nonzero while the thread changes its heap: a child forked then does not trust the heap. */
    _Atomic(uint32_t) busy;
    int32_t kernel_thread, kernel_process; /* VALIDATE: ids of who uses this; 0: nobody has yet. cache/held.c */
};

/* While nobody holds a heap, its magazines may keep what its last thread had cached. */
enum heap_rest {
    REST_EMPTY, /* held by a thread, or an orphan without magazines */
    REST_WARM,  /* an orphan with magazines */
    REST_COLD,  /* and a round of the tick has gone by */
};

/* A class's magazines; together, so that a refill or park touches one line here. */
struct parking {
    struct block *magazines; /* linked by next_magazine */
    uint16_t credit;         /* what the bin gets at its next park */
    uint8_t count;           /* of magazines */
    uint8_t count_max;       /* by the credit */
};

/* What a thread holds beside its bins. Goes from thread to thread with the owner, its first part;
 * nothing is staged while nobody holds it. */
struct heap {
    struct owner owner;
    struct parking parking[CLASS_COUNT];
    uint32_t parked; /* magazines of all classes */
    struct staging staging;
    _Atomic(uint32_t) rest; /* enum heap_rest; written by whoever holds the heap, but for WARM to COLD */
    struct tcache *tcache; /* of the thread that holds it; read by the child after fork */
};

extern HAK_HIDDEN HAK_TLS struct tcache tcache_of_thread;

HAK_INLINE struct tcache *tcache_self(void)
{
    struct tcache *tcache = &HAK_MINE(tcache_of_thread);
    /* Hides where the address came from, so that it stays in one register: addressing each bin
     * through the thread pointer anew was measured at 7.9 ns a pair against 4.9 ns. */
    __asm__("" : "+r"(tcache));
    return tcache;
}

/* A block of the class, the bin being empty: a parked magazine, else what other threads gave back,
 * else a slab's free list, else fresh memory of a slab, else a new slab. NULL when the system has
 * no memory; errno is kept. Starts the thread if need be. CLASS_EMPTY gives the smallest block. */
HAK_NOINLINE void *tcache_refill(struct tcache *tcache, uint32_t class_index);

/* Takes a block whose bin's credit is spent: parks the list, begins a new one with the block. In a
 * thread that has not started, CLASS_EMPTY comes here with NULL or a foreign pointer: ignored. */
HAK_NOINLINE void tcache_park(struct tcache *tcache, void *pointer, uint32_t class_index);

/* Takes a small block that another owner's slab holds, class and owner by its tag. Keeps errno. */
HAK_NOINLINE void tcache_free_remote(struct tcache *tcache, void *pointer, uint32_t tag);

/* Gives the blocks of a bin to their slabs, so that the next malloc of the class falls to the slow path. For a list of
 * a few blocks: it is walked. */
void tcache_empty_bin(struct tcache *tcache, uint32_t class_index);

/* For the end of a thread and the next one's birth: the bins' lists become magazines of the heap, and
 * what is staged is posted; the newest magazine of each class becomes a bin's list. O(classes). */
void tcache_lay_down(struct tcache *tcache);
void tcache_take_up(struct tcache *tcache);

/* Gives the magazines' blocks to their slabs. By whoever holds the heap. */
void heap_magazines_give_back(struct heap *heap);

/* Gives everything back: the bins' and magazines' blocks to their slabs, staged blocks to their
 * owners, slabs without a block in use to the pool. */
void tcache_flush(struct tcache *tcache);

/* tcache_flush, and takes the memory of what lies free in slabs that are in use. Returns bytes. */
HAK_COLD size_t tcache_shrink(struct tcache *tcache);

/* Credits for a thread that has just been given its heap. */
void tcache_fill_credits(struct tcache *tcache);

/* Around changes of the heap, nested at will. */
static inline void tcache_busy_begin(struct tcache *tcache)
{
    uint32_t depth = atomic_load_explicit(&tcache->busy, memory_order_relaxed);
    /* acquire: no change of the heap may be seen in a forked child before this is. */
    atomic_exchange_explicit(&tcache->busy, depth + 1, memory_order_acquire);
}

static inline void tcache_busy_end(struct tcache *tcache)
{
    uint32_t depth = atomic_load_explicit(&tcache->busy, memory_order_relaxed);
    /* release: every change of the heap is seen before this is. */
    atomic_store_explicit(&tcache->busy, depth - 1, memory_order_release);
}

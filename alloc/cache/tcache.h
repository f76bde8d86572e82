/* tcache.h: the thread cache: for each class a list of free blocks (the bin) in thread-local storage, and behind it a
 * few whole lists (magazines) parked in the thread's heap.
 *
 * malloc pops from the bin. free pushes on it and counts the bin's credit down. When the credit is spent, the whole
 * list is parked, in O(1), without a walk. If the class has too many magazines, the list is walked once instead, and
 * its blocks go back to their slabs. When a refill takes a parked list, the class's credit doubles, since the program's
 * swings are longer than the credit.
 *
 * In a thread that has not started this struct is all zero: its bins are empty and its credits are spent. So every
 * operation takes the slow path, and the hit paths need no test for it. The same is true of a thread that has ended
 * (thread.h).
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

enum {
    EARLY_FREES_MAX = 32, /* how many blocks of other threads a thread may free before it takes a heap */
    /* A thread takes over a dead thread's heap when it has freed SUCCESSION_FREES blocks of that heap, and its own heap
     * has given out SUCCESSION_DRAWN_BYTES meanwhile. */
    SUCCESSION_FREES = 256,
    SUCCESSION_DRAWN_BYTES = 2048,
    OVERFLOWS_MAX = 8, /* lists in a row that went back to their slabs are counted up to here; see CREDIT_LEAST */
    /* Lists that a thread may keep parked of all classes together: PARKED_MIN, and one more for each 512 KiB
     * (1 << PARKED_SHARE_LOG2) that its heap has given out. */
    PARKED_MIN = 32,
    PARKED_SHARE_LOG2 = 19,
};

enum thread_state {
    THREAD_NEW, /* has not used the heap yet */
    THREAD_LIVE, /* holds a heap; the key's destructor will run at the thread's end */
    THREAD_ENDED, /* that destructor has run: borrows a heap for each operation that needs one */
};

struct tcache {
    struct block *heads[CLASS_COUNT];
    uint32_t credits[CLASS_COUNT];
    uint32_t tag; /* of the heap's owner; 0 without a heap */
    struct heap *heap; /* NULL: the thread holds none */
    uint32_t tick_rounds; /* rounds of the tick that the thread has seen */
    enum thread_state state;
    bool watches_idle; /* much of the heap is idle: each slow path reads the clock */
    bool owes; /* heap_owes, as the thread has seen it: each slow path pays a part (cache/owed.h) */
    bool is_sampling; /* inside the unwinder for a sample, which may allocate */
    uint8_t lane; /* of a thread that holds no heap (heap/large.c); 0: none yet */
    uint32_t early_frees; /* remote frees posted one by one before the thread had a heap */
    struct owner *freed_owner; /* owner of the last block freed early */
    /* The owner of most blocks in recent remote frees, and its lead over all others. */
    uint32_t majority_tag, majority_count;
    size_t majority_used_bytes; /* the own heap's used_bytes when majority_drawn_update last looked */
    /* How many calls of the thread are changing its heap, one inside the other; or BUSY_VISITED while another thread
     * does (cache/visit.h). A child that is forked meanwhile does not use the heap. */
    _Atomic(uint32_t) busy;
    int32_t kernel_thread, kernel_process; /* VALIDATE: ids of the user, 0: none yet; see kernel_thread.c */
    struct sampler *sampler; /* the heap's, where the counts of profile/sampler.h are ready; else NULL */
};

/* Values of tcache.busy from here on: another thread is in the heap. It never waits for the heap's own thread, which
 * waits for it, and for no longer than one step of a visit takes. */
static const uint32_t BUSY_VISITED = 1u << 30;
static const uint32_t BUSY_WAITED_FOR = 1u << 31; /* beside BUSY_VISITED: the heap's thread sleeps until it is clear */

/* Whether the magazines of an orphan keep what its last thread had cached. */
enum heap_rest {
    REST_EMPTY, /* held by a thread, or an orphan without magazines */
    REST_WARM, /* an orphan with magazines */
    REST_COLD, /* a warm orphan after a round of the tick */
    REST_LEFT, /* an orphan with all that a thread had which a forked child lacks: see thread_leave */
};

/* The bins of that thread. No larger than need be: a child copies it from each thread. */
struct left {
    uint64_t classes[CLASS_COUNT / 64 + 1]; /* bits of those whose bin has a list */
    uint32_t lists_max;
    uint32_t *credits; /* of all classes, for a sampler that counts; NULL: there was none */
    struct block *lists[]; /* of these classes, in their order */
};

/* A class's magazines, in one struct, so that a refill or a park touches one cache line of it. */
struct parking {
    struct block *magazines; /* linked by next_magazine */
    _Atomic(uint16_t)
        credit; /* the bin's credit after its next park. Only the holder writes it; figures read it: relaxed */
    _Atomic(uint8_t) count; /* number of magazines. Who is in the heap writes it; the sampler reads it: relaxed */
    uint8_t count_max; /* limit of count; depends on the credit */
    uint8_t overflows; /* lists in a row that went back to their slabs, since a parked one was wanted last */
    _Atomic(bool) is_grown; /* the credit is known to be at its most; as credit */
    uint8_t borrowed; /* blocks that larger classes lent since the class last took fresh memory */
    bool gave_back; /* a list went back to its slabs since the heap idled */
    bool wants_again; /* the class was refilled since gave_back: the list went back too early */
    uint16_t paid; /* blocks that the class has bought (cache/credits.h) */
    uint16_t lowered; /* by how many the credit fell without a free, since the sampler looked last */
    uint16_t credit_seen; /* what was left of the bin's credit when give_up_class came by */
};

/* What a thread holds besides its bins. It passes from thread to thread together with the owner, its first member.
 * While no thread holds it, nothing is staged, unless it is REST_LEFT. */
struct heap {
    struct owner owner;
    struct parking parking[CLASS_COUNT];
    uint32_t parked; /* number of magazines of all classes */
    uint8_t broke
        [2]; /* times that the heap does not try to buy for classes that do not want again, and for those that do */
    uint8_t give_up_class; /* the class that was asked last to give up what it keeps (cache/credits.c); 0: none */
    uint32_t give_up_rounds; /* rounds of the tick when the first one was asked */
    size_t rested_bytes; /* what the heap had bought before it rested: heap_credits_rest */
    struct staging staging;
    _Atomic(uint32_t) rest; /* enum heap_rest; only its holder writes it, except WARM to COLD, and LEFT */
    /* The cache of the thread that holds it; the child reads it after fork. It is NULL again before the thread's memory
     * is gone, and changes to NULL under LOCK_VISIT. */
    _Atomic(struct tcache *) tcache;
    /* Rounds of the tick when the heap's thread was on a slow path last. Others read it: relaxed. */
    _Atomic(uint32_t) rounds_seen;
    _Atomic(uint32_t) rounds_visited; /* rounds_seen at the last visit_idle, plus 1; 0: none yet. Relaxed */
    size_t
        growth_bytes; /* when the process reaches this peak, the heap gives back what it does not use; 0: a new heap */
    uint64_t seen_ms; /* while the thread watches idle memory: when it was on a slow path last */
    struct defrag *defrag; /* how full the slabs are (cache/defrag.c); NULL: nobody has asked yet */
    struct sampler *sampler; /* counts allocations while some are sampled (profile/sampler.h); NULL: none were yet */
    struct left *left; /* of REST_LEFT. NULL: it was never left */
    /* The parked lists are being given back, in steps: the class that this has come to, 0: they are not; and how many of
     * its lists are still to go. */
    uint8_t flush_class, flush_lists;
    bool is_profiled; /* the heap profile samples, or did: nothing is borrowed */
};

/* For walks over all heaps, as owner_next. */
static inline struct heap *heap_next(const struct heap *before)
{
    return (struct heap *)owner_next((const struct owner *)before); /* owner is a heap's first part */
}

static inline uint32_t parking_credit(const struct parking *parking)
{
    return atomic_load_explicit(&parking->credit, memory_order_relaxed);
}

static inline uint8_t parking_count(const struct parking *parking)
{
    return atomic_load_explicit(&parking->count, memory_order_relaxed);
}

static inline bool parking_is_grown(const struct parking *parking)
{
    return atomic_load_explicit(&parking->is_grown, memory_order_relaxed);
}

extern HAK_HIDDEN HAK_TLS struct tcache tcache_of_thread;

HAK_INLINE struct tcache *tcache_self(void)
{
    struct tcache *tcache = &HAK_MINE(tcache_of_thread);
    /* Hides from the compiler where the address came from, so that it keeps it in a register. Addressing each bin
     * through the thread pointer took 7.9 ns a pair of malloc and free, against 4.9 ns. */
    __asm__("" : "+r"(tcache));
    return tcache;
}

/* Refills an empty bin and returns a block of the class, or above 1 KiB of a larger one (cache/borrow.h). docs/design.md
 * lists the stages. NULL when the system has no memory; keeps errno. Starts the thread if need be. For CLASS_EMPTY
 * returns the smallest block. */
HAK_NOINLINE void *tcache_refill(struct tcache *tcache, uint32_t class_index);

/* Frees a block whose bin's credit is spent: parks the bin's list and begins a new one with the block. In a thread that
 * has not started, NULL and foreign pointers come here with CLASS_EMPTY and are ignored. */
HAK_NOINLINE void tcache_park(struct tcache *tcache, void *pointer, uint32_t class_index);

/* Frees a small block of another owner's slab; tag is its page's. Keeps errno. */
HAK_NOINLINE void tcache_free_remote(struct tcache *tcache, void *pointer, uint32_t tag);

/* Drains some of what other threads freed. If the heap has shrunk, begins to empty its caches and to trim its slabs. */
void tcache_settle(struct tcache *tcache);

/* At the end of a thread, tcache_park_all makes the bins' lists magazines of the heap and posts what is staged. At the
 * start of the next one, tcache_unpark makes the newest magazine of each class the bin's list. O(classes). */
void tcache_park_all(struct tcache *tcache);
void tcache_unpark(struct tcache *tcache);

/* Parks a list; takes the list of a class that was parked last, or NULL. Only the thread that holds the heap. */
void magazine_push(struct heap *heap, struct block *list, uint32_t class_index);
struct block *magazine_pop(struct heap *heap, uint32_t class_index);

/* Whether the class may have another magazine. If not, the next list goes back to its slabs. */
bool heap_has_room(const struct heap *heap, uint32_t class_index);

/* Gives the magazines' blocks to their slabs. Only the thread that holds the heap may call it. */
void heap_magazines_give_back(struct heap *heap);

/* Empties the whole cache: gives the blocks of bins and magazines to their slabs, staged blocks to their owners, and
 * slabs without a block in use to the pool. */
void tcache_flush(struct tcache *tcache);

/* As tcache_flush, and trims the slabs that are in use. Returns how many bytes that gave back to the system. */
HAK_COLD size_t tcache_shrink(struct tcache *tcache);

/* tcache_busy_begin where the word is not 0: the call is nested, or another thread is in the heap, for which it waits. */
HAK_COLD void tcache_busy_again(struct tcache *tcache);

/* Every change of the heap stands between these two. They may be nested. */
static inline void tcache_busy_begin(struct tcache *tcache)
{
    uint32_t nobody = 0;
    /* acquire: pairs with the release in visit_end. A forked child that sees a change of the heap must see this too. */
    if (HAK_UNLIKELY(!atomic_compare_exchange_strong_explicit(&tcache->busy, &nobody, 1, memory_order_acquire,
                                                              memory_order_relaxed)))
        tcache_busy_again(tcache);
}

static inline void tcache_busy_end(struct tcache *tcache)
{
    uint32_t depth = atomic_load_explicit(&tcache->busy, memory_order_relaxed);
    /* release: pairs with the acquire in visit_begin. A forked child that sees this must see every change of the
     * heap. */
    atomic_store_explicit(&tcache->busy, depth - 1, memory_order_release);
}

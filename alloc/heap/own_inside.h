/* own_inside.h: the blocks of a heap of the program's own, under its lock. For heap/own.c and heap/own_fork.c, and the
 * inspector. */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>

#include "heap/huge_cache.h"
#include "heap/own.h"
#include "os/lock.h"
#include "slab/owner.h"
#include "slab/validate.h"

/* Blocks of a class that malloc takes first; their slabs count them as in use. */
struct own_bin {
    struct block *head;
    uint32_t count;
    uint32_t count_max; /* with as many a free gives some back */
};

struct hak_heap {
    struct owner owner; /* first. Its tag is CLASS_OWN, its id 0 */

    /* Under the lock. */
    struct lock_word lock;
    uint32_t large_changes; /* large blocks that threads are making or resizing */
    bool
        torn; /* set in the child after fork: huge blocks and large_bytes are to be mended by who takes the lock first: own_mend */
    struct hak_heap *next; /* in the list of all; fixed. Beside the lock, since a forked child looks at both */
    struct own_bin bins[CLASS_COUNT];
    struct slab *full; /* circular lists by next and prev */
    struct slab *runs;
    struct huge_link *huges;
    size_t slab_bytes; /* pages of slabs */
    size_t large_bytes; /* of runs and huge blocks, those included that are just being made */
    size_t limit_bytes;
    size_t peak_bytes; /* the most that own_resident_bytes ever was */
    size_t kept_bytes; /* free, and still there when a whole trim made no room, or fewer that were free later */
    size_t seen_bytes; /* in use and in bins, at the last own_purge_idle */
    bool is_purged; /* nothing has changed since it gave back what lay free */
    struct hak_heap *next_spare;

    _Atomic(bool) live; /* relaxed: the lock orders it */

    /* Blocks that were freed while another thread had the lock: a list that any thread pushes on. */
    alignas(64) _Atomic(struct block *) posted;
};

/* The heap that owns a slab or run whose tag is of such a heap. */
static inline struct hak_heap *own_heap_of(const struct slab *slab)
{
    return (struct hak_heap *)slab->owner;
}

/* False: it was destroyed, or never used. */
static inline bool own_is_live(const struct hak_heap *heap)
{
    return atomic_load_explicit(&heap->live, memory_order_relaxed);
}

/* The first of all heaps ever made, live or not; they are never freed. */
struct hak_heap *own_first(void);

void own_lock(struct hak_heap *heap);
void own_unlock(struct hak_heap *heap);

/* own_unlock, but for what was posted before the lock is free. False: some is, so own_unlock_posted has to be called.
 *
 * A thread that posts a block tries the lock afterwards. A thread that gives the lock back looks at the list afterwards.
 * All four steps are seq_cst, so at least one of the two sees the other, and the block does not stay behind. */
HAK_INLINE bool own_unlock_soon(struct hak_heap *heap)
{
    lock_word_release(&heap->lock, LOCK_OWN);
    return atomic_load_explicit(&heap->posted, memory_order_seq_cst) == NULL;
}

/* Returns the block, so that its caller need not keep it. */
HAK_NOINLINE struct block *own_unlock_posted(struct hak_heap *heap, struct block *block);

bool own_try_lock(struct hak_heap *heap); /* false at once if another thread holds it */

/* Takes LOCK_OWN_HEAPS. If another thread held it when this process was forked, the spare bodies of heaps are lost, and so
 * are the pages that are remembered (below). */
void own_heaps_lock(void);

/* The caller does not hold the lock. *at_limit: why the result is NULL; otherwise the system has no memory. */
void *own_small_alloc(struct hak_heap *heap, uint32_t class_index, bool *at_limit);
void *own_large_alloc(struct hak_heap *heap, size_t align_bytes, size_t size_bytes, bool zeroed, bool *at_limit);
void own_small_free(struct hak_heap *heap, struct block *block, uint32_t class_index);
void own_run_free(struct hak_heap *heap, void *start);
void own_huge_free(void *start);

/* Resizes a run or huge block of this heap without a copy. NULL: that cannot be done. */
void *own_large_resize(struct hak_heap *heap, void *pointer, size_t usable_bytes, size_t size_bytes);

/* Under the lock: the first block of a bin that has one. */
HAK_INLINE struct block *own_bin_pop(struct hak_heap *heap, uint32_t class_index)
{
    struct own_bin *bin = &heap->bins[class_index];
    struct block *block = bin->head;
    bin->head = link_get(&block->next);
    bin->count--;
    if (VALIDATE) validate_alloc(block, class_index, CLASS_OWN);
    return block;
}

/* Under the lock. Whether the heap may have this much more. If it may not, it gives back of what lies free in it until it
 * may; the next call continues at the slab behind. Before it answers that it may not, it trims from the first slab on, unless
 * that is not worth it. */
bool own_make_room(struct hak_heap *heap, size_t bytes);

/* Under the lock, after each growth of own_resident_bytes. */
void own_note_peak(struct hak_heap *heap);

/* Memory that has been idle for a delay goes back to the system, as on the slow paths of malloc. */
void own_tick(void);

/* Under the lock. Bytes of the blocks in bins. It looks at each class. */
size_t own_binned_bytes(const struct hak_heap *heap);

/* Under the lock. Bytes of all blocks that were carved, of runs and of huge blocks: all that may be resident. */
size_t own_resident_bytes(const struct hak_heap *heap);

/* Under the lock: bins, empty slabs and unused memory inside slabs go back. Returns how many bytes the system got. */
size_t own_give_back_unused(struct hak_heap *heap);

/* Circular lists of slabs that are in no list of their owner. */
void own_list_add(struct slab **list, struct slab *slab);
void own_list_remove(struct slab **list, struct slab *slab);

/* In the child after fork: marks the heaps that another thread was changing. */
void own_fork_child(void);

/* Under the lock of a torn heap: makes the list of huge blocks and large_bytes again (heap/own_fork.c). own_mend_all does so for all. */
void own_mend(struct hak_heap *heap);
void own_mend_all(void);

/* What is remembered of what heaps gave back all at once: this number of slabs and runs, with this number of pages. */
enum { OWN_DEAD_RANGES_MAX = 1024, OWN_DEAD_PAGES_MAX = 4096 };

/* Under VALIDATE: takes pages that a heap has given back all at once. Their tag becomes CLASS_OWN_DEAD, and they are
 * freed after a number of later ones, so that a free of a block in them is reported. */
void own_dead_put(struct superslab *superslab, uint32_t first, uint32_t pages, uint32_t slab_eighths);

/* Frees them now. */
void own_dead_free_all(void);

/* Under LOCK_OWN_HEAPS: forgets them. */
void own_dead_drop(void);

/* Bytes of the pages that are remembered. */
size_t own_dead_bytes(void);

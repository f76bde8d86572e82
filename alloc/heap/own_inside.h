/* own_inside.h: the blocks of a heap of the program's own, under its lock. For heap/own.c and heap/own_fork.c, and the
 * inspector. */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>

#include "heap/huge_cache.h"
#include "heap/own.h"
#include "os/lock.h"
#include "slab/owner.h"

struct hak_heap {
    struct owner owner; /* first. Its tag is CLASS_OWN, its id 0 */

    /* Under the lock. */
    struct lock_word lock;
    uint32_t large_changes; /* large blocks that threads are making or resizing */
    bool
        torn; /* set in the child after fork: huge blocks and large_bytes are to be mended by who takes the lock first: own_mend */
    struct hak_heap *next; /* in the list of all; fixed. Beside the lock, since a forked child looks at both */
    struct block *heads[CLASS_COUNT]; /* bins: blocks that malloc takes first; their slabs count them as in use */
    size_t binned_bytes;
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

/* The first of all heaps ever made, live or not; they are never freed. */
struct hak_heap *own_first(void);

void own_lock(struct hak_heap *heap);
void own_unlock(struct hak_heap *heap);
bool own_try_lock(struct hak_heap *heap); /* false at once if another thread holds it */

/* Takes LOCK_OWN_HEAPS. If another thread held it when this process was forked, the spare bodies of heaps are lost, and so
 * are the pages that are remembered (below). */
void own_heaps_lock(void);

/* The caller does not hold the lock. *at_limit: why the result is NULL; otherwise the system has no memory. */
void *own_small_alloc(struct hak_heap *heap, uint32_t class_index, bool *at_limit);
void *own_large_alloc(struct hak_heap *heap, size_t align_bytes, size_t size_bytes, bool zeroed, bool *at_limit);
void own_small_free(struct hak_heap *heap, struct block *block);
void own_run_free(struct hak_heap *heap, void *start);
void own_huge_free(void *start);

/* Around each change of a large block: counts the bytes that it may take more, and what it took more or less in the end.
 * False: at the limit. */
bool own_large_begin(struct hak_heap *heap, size_t more_bytes);
void own_large_end(struct hak_heap *heap, size_t bytes);

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

/* The rooms of the small malloc. Locks are taken in this order: caches, bins by class, chunks, mapped blocks. */
#ifndef STRESS_CANARY_MINI_ROOMS_H
#define STRESS_CANARY_MINI_ROOMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bugs.h"

enum {
    PAGE = 4096,
    SLAB_BYTES = 1 << 16,      /* aligned to itself, as are chunks */
    CHUNK_BYTES = 1 << 20,     /* the first slab of a chunk holds its head only */
    SLAB_HEAD_BYTES = 128,
    SMALL_BYTES_MAX = 1 << 14,
    LINEAR_CLASSES = 32,       /* 16 bytes apart; above, four a doubling */
    CLASSES = LINEAR_CLASSES + 20,
};

/* What lies at the multiple of SLAB_BYTES below a block, or a page below a block that is such a multiple. */
struct head {
    enum { HEAD_SLAB = 1, HEAD_MAPPED } kind;
};

struct lock {
    atomic_uint word; /* 0 free, 1 taken, 2 taken and somebody may wait */
};

void lock_take(struct lock *lock);
bool lock_try(struct lock *lock);
void lock_release(struct lock *lock);
void lock_reset(struct lock *lock); /* in a forked child */

/* Slabs: slab.c. Law: used + blocks on the free list + blocks not carved yet == capacity. */
unsigned class_of(size_t size_bytes);
size_t class_bytes(unsigned class_index);
void *bin_take(unsigned class_index);
void bin_put_list(unsigned class_index, void *list);
void *slab_block_start(void *block, unsigned *class_index);
size_t slab_usable_bytes(void *block);
void slabs_trim(void);
void slabs_forget(void); /* in a forked child */
void slabs_lock(void);   /* for the bug fork_order */
void slabs_unlock(void);

/* Thread caches: cache.c. */
void *cache_take(unsigned class_index);
void cache_put(unsigned class_index, void *block);

/* Blocks with a mapping of their own: mapped.c. fresh tells whether the block is zero. */
void *map_aligned(size_t bytes, size_t align_bytes);
void *mapped_take(size_t size_bytes, size_t align_bytes, bool *fresh);
void mapped_free(void *block);
void *mapped_resize(void *block, size_t size_bytes);
size_t mapped_usable_bytes(void *block);
void mapped_forget(void); /* in a forked child */

static inline struct head *head_of(void *block)
{
    const uintptr_t address = (uintptr_t)block, below = address % SLAB_BYTES;
    return (struct head *)(address - (below != 0 ? below : PAGE));
}

#endif

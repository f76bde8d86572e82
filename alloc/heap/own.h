/* own.h: heaps of the program's own (hak_heap_new): blocks that any thread allocates, and that go back all at once.
 *
 * Such a heap is an owner of slabs that no thread holds. A lock in it protects all of it, and no thread cache stands
 * before it. The owner is not in the table of owners, so adoption, visits and fork never see it. The tags of its pages
 * have owner 0 (superslab/pagemap.h): free finds that the block is of no thread's heap, after it has asked for every
 * other kind, so the frees of other blocks pay nothing. The descriptor of the slab, run or huge block leads to the heap.
 *
 * A free never waits: if another thread has the lock, it pushes the block on the heap's list `posted`, and the thread that
 * has the lock drains that list before it gives the lock back. Nothing of the heap is ever in a thread's cache or staging table. So when the program's
 * calls have returned, all that the heap gave out is in its slabs, runs and huge blocks, each of which is in one of its
 * lists, and destroy walks these: its time grows with slabs, not with blocks.
 *
 * Law 8: each slab of a heap is in its owner's list of the class, or, if it can give no block, in `full`. At rest
 * `posted` is empty. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hak_heap;
struct hak_figures;

/* As the functions hak_heap_... of hakmem.h, of which own.c defines those that concern no block. zeroed: every byte of the block
 * reads as zero. */
void *own_alloc(struct hak_heap *heap, size_t align_bytes, size_t size_bytes, bool zeroed);
void *own_calloc(struct hak_heap *heap, size_t count, size_t size_bytes);

/* Resizes a block of any heap; if it moves, it moves to this one. size_bytes is neither 0 nor above PTRDIFF_MAX. */
void *own_realloc(struct hak_heap *heap, void *pointer, size_t size_bytes);

/* As hak_heap_realloc, for a block that is not NULL. */
void *own_realloc_any(struct hak_heap *heap, void *pointer, size_t size_bytes);

/* The heap of a block; NULL: of none of these. */
struct hak_heap *own_of(const void *pointer);

/* For blocks whose tag is of such a heap; own_free is given it. */
void own_free(void *pointer, uint32_t tag);
size_t own_usable_size(const void *pointer);

/* Gives back what the heaps keep: bins, empty slabs, unused memory inside slabs. Passes over a heap whose lock another
 * thread has. Returns how many bytes went back to the system. Not under a lock. */
size_t own_purge_all(void);

/* The same of heaps in which nothing seems to have changed since the last such call. */
size_t own_purge_idle(void);

/* Adds what these heaps count to the figures. Returns the bytes of their carved blocks. */
size_t own_add_figures(struct hak_figures *out);

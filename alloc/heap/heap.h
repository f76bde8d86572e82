/* heap.h: malloc and free, inline. The outline of both:
 *
 *   heap_alloc(size)
 *     pop from the bin                                                     done
 *     heap_refill              heap/heap.c      the bin is empty, or size is 0: the tick, then a list
 *       sampler_serve          profile/sampler.c  only if blocks are sampled, and this one is chosen
 *       tcache_refill          cache/tcache.c   the first stage of docs/design.md that gives a list
 *     heap_alloc_large         heap/heap.c      above 32 KiB
 *       large_take_kept        heap/large.c     the run that the thread freed last
 *       large_alloc_any        heap/large.c     a run of pages; above 2 MiB huge_alloc, a mapping of its own
 *
 *   heap_free(pointer)
 *     push on the bin                                                      done
 *     heap_park                heap/heap.c      the bin's credit is spent: tcache_park, then the tick
 *       slab_give_back_each    slab/slab.c      too many lists are parked: back to the slabs, then pool_free
 *       slab_trim_shrunk       slab/trim.c      most of the heap was freed: from now on each slow path empties and trims a part
 *     heap_free_other          heap/heap.c      not a block of this thread's heap
 *       tcache_free_remote     cache/tcache.c   another heap's block: remote_stage, remote_post
 *       guard_free             guard/guard.c    a sampled block
 *       large_keep, huge_free                   a run, a mapping; NULL and foreign pointers: nothing
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/policy.h"
#include "base/sizeclass.h"
#include "cache/tcache.h"
#include "slab/validate.h"
#include "superslab/pagemap.h"

/* malloc of more than SMALL_BYTES_MAX. Sets ENOMEM on failure. */
HAK_NOINLINE void *heap_alloc_large(size_t size_bytes);

/* The first parameter of these slow paths is what malloc and free already have in the first register. */

/* tcache_refill, and the tick. Sets ENOMEM on failure. */
HAK_NOINLINE void *heap_refill(size_t size_bytes, struct tcache *tcache, size_t class_index);

/* tcache_park, and the tick: memory that has been idle for a delay goes back to the system. Keeps errno. */
HAK_NOINLINE void heap_park(void *pointer, struct tcache *tcache, size_t class_index);

/* free of a pointer that is no small block of this thread's heap. mixed_tag is the page map's tag of it, exclusive or
 * this heap's tag. */
HAK_NOINLINE void heap_free_other(void *pointer, struct tcache *tcache, size_t mixed_tag);

/* Under VALIDATE: called at the entry of every free, and of every realloc of a block. False: the call must do
 * nothing. */
bool heap_may_free(const void *pointer);
bool heap_may_resize(const void *pointer);

/* Tell the sanitizers that the program gets a block, having asked for size_bytes; and that it returns one. */
void heap_tell_given(void *block, size_t size_bytes);
void heap_tell_returned(void *block);

/* Called before a run is shortened in place: its end goes back to the pool, and may go to another thread at once. */
void heap_tell_shorter(char *block, size_t usable_bytes, size_t size_bytes);

/* Tells the sanitizers that a block was resized in place, or by moving its pages. Returns the block. */
void *heap_told_resized(char *block, size_t old_usable_bytes, size_t size_bytes);

/* Every block that goes to the program passes here. NULL is allowed. */
HAK_INLINE void *heap_given(void *block, size_t size_bytes)
{
    if (SANITIZED && block != NULL) heap_tell_given(block, size_bytes);
    return block;
}

/* malloc of size_bytes from a class that holds it. */
HAK_INLINE void *heap_alloc_class(size_t size_bytes, size_t class_index)
{
    struct tcache *tcache = tcache_self();
    struct block *block = tcache->heads[class_index];
    if (HAK_UNLIKELY(block == NULL)) return heap_refill(size_bytes, tcache, class_index);
    tcache->heads[class_index] = link_get(&block->next);
    /* After the pop: a child that is forked in between must not find the block both in the bin and live. */
    if (VALIDATE) validate_alloc(block, (uint32_t)class_index, tcache->tag);
    return block;
}

/* See hak_malloc. */
HAK_INLINE void *heap_alloc(size_t size_bytes)
{
    /* For the largest sizes the sum wraps, which gives 0 granules; heap_refill looks at the size again. */
    size_t granules = (size_bytes + GRANULE_BYTES - 1) / GRANULE_BYTES;
    if (HAK_UNLIKELY(granules > SMALL_BYTES_MAX / GRANULE_BYTES)) return heap_alloc_large(size_bytes);
    return heap_given(heap_alloc_class(size_bytes, sizeclass_of_granules(granules)), size_bytes);
}

/* See hak_free. */
HAK_INLINE void heap_free(void *pointer)
{
    if (VALIDATE && !heap_may_free(pointer)) return;
    if (SANITIZED) heap_tell_returned(pointer);
    struct tcache *tcache = tcache_self();
    size_t class_index = pagemap_tag(pointer) ^ tcache->tag;
    if (HAK_UNLIKELY(class_index >= CLASS_COUNT)) {
        heap_free_other(pointer, tcache, class_index);
        return;
    }
    if (HAK_UNLIKELY(HAK_COUNT_DOWN(&tcache->credits[class_index]))) {
        heap_park(pointer, tcache, class_index);
        return;
    }
    struct block *block = (struct block *)pointer;
    link_set(&block->next, tcache->heads[class_index]);
    atomic_signal_fence(memory_order_release); /* link first: a child may be forked in between */
    tcache->heads[class_index] = block;
}

/* The other public functions; hakmem.h states their contracts. */
void *heap_calloc(size_t count, size_t size_bytes);
void *heap_realloc(void *pointer, size_t size_bytes);
void *heap_reallocarray(void *pointer, size_t count, size_t size_bytes);
size_t heap_usable_size(const void *pointer);
size_t heap_purge(void);
size_t heap_purge_all(void);
size_t heap_good_size(size_t size_bytes);

/* align_bytes is a power of two. Sets ENOMEM on failure. */
void *heap_alloc_aligned(size_t align_bytes, size_t size_bytes);

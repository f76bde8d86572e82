/* pagemap.h: what stands at an address. Two flat tables over the address space, of which there is only what is used:
 *
 *   tags[p >> 16]         owner id << 8 | class, of the page's slab. With owner id 0 it is the tag of no slab:
 *                         CLASS_RUN and CLASS_HUGE are on the first page of a page run or huge block,
 *                         CLASS_GUARD on all pages in the range of sampled blocks (guard/guard.h),
 *                         CLASS_PROFILE on the chunks of profiled ones (profile/profile.h),
 *                         CLASS_OWN | class on all pages of a slab of a heap of the program's own (heap/own.h),
 *                         CLASS_OWN and CLASS_OWN_HUGE on the first pages of its larger blocks, and 0 on a
 *                         page that is not ours, or is free
 *   descriptors[p >> 21]  the descriptor of the superslab that has this cell of 2 MiB, or of the huge mapping that
 *                         begins in the cell, in use or cached. A mapping can be shorter than a cell; then no other
 *                         begins there
 *
 * One load of a tag answers free()'s question. The tables stand at a place where the kernel maps nothing by itself. They
 * are readable for the addresses that a process has to begin with, so that free of a foreign pointer finds 0, and
 * writable where superslabs or huge blocks have been; elsewhere nothing is mapped, so that they count little against
 * limits on address space, strict overcommit and locked memory, whenever those are set. With a sanitizer and in the
 * explorer they are reserved whole (SPARSE_MAP). If the system refuses them, or they would be whole and the process had
 * a low RLIMIT_AS to begin with, the tables cover a window at the low end of the address space and every superslab is
 * mapped inside it; the loads stay the same. Before start the tags are a static page of zeros, so that free(NULL) needs no test.
 * (The flat map follows Hoard's and snmalloc's flat pagemap; owner and class in one word are ours.)
 *
 * Law 6: a tag is nonzero exactly on pages of slabs in use, first pages of runs and huge blocks, and the pages of
 * sampled and of profiled blocks. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/policy.h"
#include "base/sizeclass.h"

typedef _Atomic(uint32_t) pagemap_tag_cell;

extern HAK_HIDDEN _Atomic(pagemap_tag_cell *) pagemap_tags;

enum { TAG_OWNER_SHIFT = 8, TAG_CLASS_MASK = 0xff };

/* The class of the slab that a tag is of; CLASS_EMPTY: of no slab. */
HAK_INLINE uint32_t tag_slab_class(uint32_t tag)
{
    if (tag >> TAG_OWNER_SHIFT != 0) return tag & TAG_CLASS_MASK;
    uint32_t class_index = tag & ~(uint32_t)CLASS_OWN;
    return tag != class_index && class_index < CLASS_COUNT ? class_index : (uint32_t)CLASS_EMPTY;
}

HAK_INLINE bool tag_is_run(uint32_t tag)
{
    return tag == CLASS_RUN || tag == CLASS_OWN;
}

HAK_INLINE bool tag_is_huge(uint32_t tag)
{
    return tag == CLASS_HUGE || tag == CLASS_OWN_HUGE;
}

/* Reserves the tables. 0, or ENOMEM. Called once, under the START lock. */
int pagemap_start(void);

/* The tag of an address that is NULL or that this allocator gave out. The hit path of free(). */
HAK_INLINE uint32_t pagemap_tag(const void *address)
{
    /* relaxed: a block's tag was written before the block was handed out, and the program's hand-over of the block from
     * thread to thread orders the two. The base is written once, before the first block. */
    pagemap_tag_cell *tags = atomic_load_explicit(&pagemap_tags, memory_order_relaxed);
    return atomic_load_explicit(&tags[(uintptr_t)address >> PAGE_SHIFT], memory_order_relaxed);
}

/* As pagemap_tag, for any address: 0 outside of the map. */
uint32_t pagemap_tag_checked(const void *address);

/* Sets the tags of `pages` pages from start. The caller owns the pages. */
void pagemap_tag_set(const void *start, uint32_t pages, uint32_t tag);

/* The descriptor of the superslab that an address lies in; NULL if none. Any address. */
void *pagemap_descriptor(const void *address);

/* The same for a small block or a run that the caller has, or one that was. */
void *pagemap_descriptor_of(const void *block);
void pagemap_descriptor_set(const void *start, void *descriptor);

/* The same for one cell, of a superslab that lacks pages. False: a huge mapping begins in the cell. */
bool pagemap_part_enter(const void *start, void *descriptor);
void pagemap_part_leave(const void *start, void *descriptor);

/* Enters a huge mapping, whose descriptor is at a multiple of META_LINE_BYTES, until pagemap_huge_leave. False: another
 * begins in the same cell, or a superslab has pages there. One that begins inside of the new one has been moved away, and leaves only later: the new one
 * takes its cell. So a mapping at a cell's start that is as long as a cell can always be entered. */
bool pagemap_huge_enter(const void *start, size_t size_bytes, void *descriptor);
void pagemap_huge_leave(const void *start, void *descriptor);

/* The descriptor of the huge mapping that begins in address's cell; NULL if none. Any address. */
void *pagemap_huge(const void *address);

/* The nearest huge mapping that begins at an address or before it, and where; NULL if a superslab is nearer, or none is. */
void *pagemap_huge_below(const void *address, uintptr_t *start);

/* Removes a page's tag if it equals `tag`. Of two threads that free the same block at the same time, the second gets
 * false. */
bool pagemap_tag_take(const void *start, uint32_t tag);

/* Under VALIDATE: whether a superslab or a huge block has ever begun in address's cell. */
bool pagemap_was_ours(const void *address);

/* Reserves address space inside of the map, as os->reserve does, or memory for a superslab or huge block, as os->map does; makes
 * its cells writable. */
void *pagemap_reserve(size_t size_bytes, size_t align_bytes);
void *pagemap_map(size_t size_bytes, size_t align_bytes);

/* Gives back what the start has reserved of the tables and nothing was written to, all but the tags of the first GiB. Then free
 * of a foreign pointer may fault. */
void pagemap_trim(void);

/* The process's limit on address space (RLIMIT_AS) when the map was made; UINT64_MAX: none. */
uint64_t pagemap_limit_bytes(void);

/* For inspection: true when the map covers only the window. */
bool pagemap_is_window(void);

/* For tests: makes the next pagemap_start use a window whose addresses have this many bits. 0: no effect. */
extern uint32_t pagemap_test_window_bits;

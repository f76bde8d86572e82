/* pagemap.h: what stands at an address. Two flat tables over the address space, reserved whole and
 * touched sparsely:
 *
 *   tags[p >> 16]         owner id << 8 | class, of the page's slab. Owner 0 is nobody: CLASS_RUN
 *                         and CLASS_HUGE stand there with owner 0 on the first page of a page run
 *                         or huge block; CLASS_GUARD on all pages of the sampled blocks' range
 *                         (guard/guard.h); 0 is a page that is not ours, or is free
 *   descriptors[p >> 22]  the superslab (or huge descriptor) that begins in this 4 MiB
 *
 * One load of a tag answers free()'s question. Where the system refuses so large a reservation
 * (RLIMIT_AS, strict overcommit) the tables cover a window at the low end of the address space and
 * every superslab is reserved inside it; the loads stay the same. Before start the tags are a
 * static page of zeros, so that free(NULL) needs no test. The tables are readable everywhere, so that
 * free of a foreign pointer finds 0, and writable only where superslabs or huge blocks have been, so
 * that they count little against strict overcommit and locked memory. (The flat map follows Hoard's and
 * snmalloc's flat pagemap; owner and class in one word are ours.)
 *
 * Law 6: a tag is nonzero exactly on pages of slabs in use, first pages of runs and huge blocks, and the pages of
 * sampled blocks. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/policy.h"

typedef _Atomic(uint32_t) pagemap_tag_cell;

extern HAK_HIDDEN _Atomic(pagemap_tag_cell *) pagemap_tags;

enum { TAG_OWNER_SHIFT = 8, TAG_CLASS_MASK = 0xff };

/* Reserves the tables. 0, or ENOMEM. Called once, under the START lock. */
int pagemap_start(void);

/* The tag of an address that is NULL or that this allocator gave out. The hit path of free(). */
HAK_INLINE uint32_t pagemap_tag(const void *address)
{
    /* relaxed: the tags were written before the block was handed out, and whatever handed it from
     * thread to thread ordered that. The base is written once, before the first block. */
    pagemap_tag_cell *tags = atomic_load_explicit(&pagemap_tags, memory_order_relaxed);
    return atomic_load_explicit(&tags[(uintptr_t)address >> PAGE_SHIFT], memory_order_relaxed);
}

/* As pagemap_tag, for any address whatever: 0 where the map does not reach. */
uint32_t pagemap_tag_checked(const void *address);

/* Sets the tag of `pages` pages from start. The caller owns them. */
void pagemap_tag_set(const void *start, uint32_t pages, uint32_t tag);

/* The descriptor of the superslab or huge block that begins in address's 4 MiB; NULL if none. */
void *pagemap_descriptor(const void *address);
void pagemap_descriptor_set(const void *start, void *descriptor);

/* The nearest descriptor of address's 4 MiB or of any before them, and where those begin; NULL if none. */
void *pagemap_descriptor_below(const void *address, uintptr_t *start);

/* Takes the descriptor, or a page's tag if it is this one, out of the map. Of two threads that free one block at the
 * same time, the second gets NULL, or false. */
void *pagemap_descriptor_take(const void *start);
bool pagemap_tag_take(const void *start, uint32_t tag);

/* Under VALIDATE: whether a superslab or a huge block has ever begun in address's 4 MiB. */
bool pagemap_was_ours(const void *address);

/* Address space for a superslab or huge block, inside what the map covers; as os reserve. */
void *pagemap_reserve(size_t size_bytes, size_t align_bytes);

/* For inspection: true when the fallback window is in use. */
bool pagemap_is_window(void);

/* For tests: makes the next pagemap_start take the window whose addresses have so many bits. */
extern uint32_t pagemap_test_window_bits;

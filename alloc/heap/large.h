/* large.h: blocks of 32 KiB to 2 MiB, each a run of pages of a superslab. Any thread may allocate and free them. They
 * have no owner, and no lock is taken unless a superslab must be made. The run that a thread freed last stays at hand
 * (superslab/kept.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct slab;
struct tcache;

/* size_bytes and align_bytes are at most RUN_BYTES_MAX. A block that grows is put where it has room to double in place,
 * so that a program that makes it longer again and again copies it seldom. zeroed: every byte that the program may use
 * reads as zero. NULL when the system has no memory. */
void *large_alloc(size_t align_bytes, size_t size_bytes, bool grows, bool zeroed);

/* The same for any size and alignment. The block is a huge one above RUN_BYTES_MAX, and may be one where address space is
 * short (page_range.is_tight). */
void *large_alloc_any(size_t align_bytes, size_t size_bytes, bool grows, bool zeroed);

void large_free(void *pointer);

/* Frees the run of a block that the program returns, or keeps it at hand instead of the one before. large_take_kept gives it for a block of as
 * many pages, and makes the tick seldom; NULL: there is none. tcache is the calling thread's. */
void large_keep(void *pointer, struct tcache *tcache);
void *large_take_kept(size_t size_bytes, struct tcache *tcache);

/* For who frees the pages of a run without large_free: called before. */
void large_end(struct slab *run);

/* From this call on the program may use all of that. */
size_t large_usable_size(const void *pointer);

/* Shrinks a run in place, or grows it in place if the pages behind it are free. False if they are not. */
bool large_resize(void *pointer, size_t size_bytes);

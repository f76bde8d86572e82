/* hakmem.h: the public API of libhakmem, a multithreaded malloc for Linux.
 *
 * libhakmem.so overrides malloc and its relatives for a whole program (LD_PRELOAD or -lhakmem).
 * The functions below reach the same heap under names of their own, so that a program can use
 * hakmem beside another malloc, and so that tests can link it without overriding anything.
 *
 * Sizes and alignments are bytes. Every function may be called from any thread at any time, from
 * destructors of thread-local and static objects too, and in the child after fork. None is
 * async-signal-safe. Unless it says otherwise a function keeps errno on success.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#define HAKMEM_NOTHROW noexcept
#else
#define HAKMEM_NOTHROW
#endif

#define HAKMEM_API __attribute__((visibility("default")))

/* A block of at least size_bytes, aligned to 16. hak_malloc(0) gives a block of its own that must
 * be freed. NULL and ENOMEM when the system has no memory, or size_bytes exceeds PTRDIFF_MAX. */
HAKMEM_API void *hak_malloc(size_t size_bytes) HAKMEM_NOTHROW;

/* As hak_malloc(count * size_bytes), every byte zero, as far as hak_malloc_usable_size says. NULL and
 * ENOMEM when the product overflows. */
HAKMEM_API void *hak_calloc(size_t count, size_t size_bytes) HAKMEM_NOTHROW;

/* Changes the size of a block, keeping the first min(old, new) bytes; it may move. NULL as the
 * block makes it hak_malloc. On failure NULL and ENOMEM, and the block stands as it was.
 * hak_realloc(block, 0) frees the block and returns NULL, as glibc's realloc does. */
HAKMEM_API void *hak_realloc(void *block, size_t size_bytes) HAKMEM_NOTHROW;

/* hak_realloc(block, count * size_bytes); ENOMEM, and the block kept, when the product overflows. */
HAKMEM_API void *hak_reallocarray(void *block, size_t count, size_t size_bytes) HAKMEM_NOTHROW;

/* Gives a block back. NULL is allowed. Keeps errno (POSIX.1-2024). */
HAKMEM_API void hak_free(void *block) HAKMEM_NOTHROW;

/* C23: as hak_free. size_bytes, and align_bytes, are those the block was asked for with. */
HAKMEM_API void hak_free_sized(void *block, size_t size_bytes) HAKMEM_NOTHROW;
HAKMEM_API void hak_free_aligned_sized(void *block, size_t align_bytes, size_t size_bytes) HAKMEM_NOTHROW;

/* A block aligned to align_bytes, a power of two. NULL and EINVAL when it is not one. */
HAKMEM_API void *hak_aligned_alloc(size_t align_bytes, size_t size_bytes) HAKMEM_NOTHROW;

/* As hak_aligned_alloc, but an align_bytes that is no power of two is rounded up to the next one. */
HAKMEM_API void *hak_memalign(size_t align_bytes, size_t size_bytes) HAKMEM_NOTHROW;

/* POSIX: returns 0, EINVAL (align_bytes is no power of two, or no multiple of sizeof(void *)) or
 * ENOMEM; *block is written only on success; errno is kept. */
HAKMEM_API int hak_posix_memalign(void **block, size_t align_bytes, size_t size_bytes) HAKMEM_NOTHROW;

/* Aligned to the page size of the system; hak_pvalloc also rounds the size up to it. */
HAKMEM_API void *hak_valloc(size_t size_bytes) HAKMEM_NOTHROW;
HAKMEM_API void *hak_pvalloc(size_t size_bytes) HAKMEM_NOTHROW;

/* How many bytes of the block may be used: at least what was asked for. 0 for NULL. */
HAKMEM_API size_t hak_malloc_usable_size(const void *block) HAKMEM_NOTHROW;

/* Gives every free page of the heap back to the system, the calling thread's cached blocks
 * included. Returns the bytes given back. */
HAKMEM_API size_t hak_purge(void) HAKMEM_NOTHROW;

/* Figures of the whole heap. They are exact when no other thread is in the allocator. */
struct hak_stats {
    size_t reserved_bytes;   /* address space held in superslabs and huge blocks */
    size_t slab_bytes;       /* pages that back slabs of small blocks */
    size_t small_bytes;      /* in small blocks outside their slab: live, or in a thread's cache */
    size_t run_bytes;        /* in live page runs (32 KiB to 2 MiB) */
    size_t huge_count;       /* live blocks above 2 MiB */
    size_t huge_bytes;       /* in them */
    size_t huge_cached_bytes; /* in huge mappings kept for the next huge block */
    size_t dirty_bytes;      /* in free pages that still have memory behind them */
    size_t heap_count;       /* heaps ever made: the most threads seen at once */
    size_t orphan_count;     /* heaps that wait for a thread to adopt them */
};
HAKMEM_API void hak_stats_get(struct hak_stats *out) HAKMEM_NOTHROW;

/* Writes the figures as text, one a line. Allocates only what the stream itself needs. */
HAKMEM_API void hak_stats_print(FILE *stream) HAKMEM_NOTHROW;

#ifdef __cplusplus
}
#endif

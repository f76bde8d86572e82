/* hakmem.h: the public API of libhakmem, a multithreaded malloc for Linux.
 *
 * libhakmem.so overrides malloc and its relatives for a whole program (LD_PRELOAD or -lhakmem).
 * The functions below reach the same heap under names of their own, so that a program can use
 * hakmem beside another malloc, and so that tests can link it without overriding anything.
 *
 * Sizes and alignments are in bytes. Every function may be called from any thread at any time: also from destructors of
 * thread-local and static objects, and in the child after fork. None is async-signal-safe. On success a function keeps
 * errno, unless its comment says otherwise. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#define HAKMEM_NOTHROW noexcept
#else
#define HAKMEM_NOTHROW
#endif

#define HAKMEM_API __attribute__((visibility("default")))

/* The version of this header: MAJOR.MINOR.PATCH. A program that was compiled with one works with every library of the
 * same major version whose minor version is at least that. */
#define HAKMEM_VERSION "0.1.0"

/* Returns the version of the library that serves the call, as HAKMEM_VERSION is written. The text is constant and must
 * not be freed. Allocates nothing; async-signal-safe, unlike the other functions. */
HAKMEM_API const char *hak_version(void) HAKMEM_NOTHROW;

/* Returns a block of at least size_bytes, aligned to 16. hak_malloc(0) returns a block too, which must be freed.
 * Returns NULL and sets ENOMEM when the system has no memory, or when size_bytes exceeds PTRDIFF_MAX. */
HAKMEM_API void *hak_malloc(size_t size_bytes) HAKMEM_NOTHROW;

/* As hak_malloc(count * size_bytes), with every byte zero, up to hak_malloc_usable_size. Returns NULL and sets ENOMEM
 * also when the product overflows. */
HAKMEM_API void *hak_calloc(size_t count, size_t size_bytes) HAKMEM_NOTHROW;

/* Changes the size of a block and keeps its first min(old, new) bytes. Returns the block, which may have moved. On
 * failure returns NULL and sets ENOMEM; the old block is unchanged and still live. hak_realloc(NULL, size) is
 * hak_malloc(size). hak_realloc(block, 0) frees the block and returns NULL, as glibc's realloc does. */
HAKMEM_API void *hak_realloc(void *block, size_t size_bytes) HAKMEM_NOTHROW;

/* As hak_realloc(block, count * size_bytes). Fails with ENOMEM also when the product overflows; the old block is then
 * unchanged. */
HAKMEM_API void *hak_reallocarray(void *block, size_t count, size_t size_bytes) HAKMEM_NOTHROW;

/* Frees a block. NULL is allowed and does nothing. Keeps errno (POSIX.1-2024). */
HAKMEM_API void hak_free(void *block) HAKMEM_NOTHROW;

/* C23: as hak_free. size_bytes and align_bytes must be those with which the block was allocated. */
HAKMEM_API void hak_free_sized(void *block, size_t size_bytes) HAKMEM_NOTHROW;
HAKMEM_API void hak_free_aligned_sized(void *block, size_t align_bytes, size_t size_bytes) HAKMEM_NOTHROW;

/* As hak_malloc, with the block aligned to align_bytes. Returns NULL and sets EINVAL when align_bytes is not a power of
 * two. */
HAKMEM_API void *hak_aligned_alloc(size_t align_bytes, size_t size_bytes) HAKMEM_NOTHROW;

/* As hak_aligned_alloc, but rounds align_bytes up to the next power of two. */
HAKMEM_API void *hak_memalign(size_t align_bytes, size_t size_bytes) HAKMEM_NOTHROW;

/* POSIX: stores a block aligned to align_bytes in *block and returns 0. On failure returns EINVAL (align_bytes is not a
 * power of two, or not a multiple of sizeof(void *)) or ENOMEM, and leaves *block unchanged. Keeps errno. */
HAKMEM_API int hak_posix_memalign(void **block, size_t align_bytes, size_t size_bytes) HAKMEM_NOTHROW;

/* As hak_malloc, aligned to the system's page size. hak_pvalloc also rounds the size up to a multiple of it. */
HAKMEM_API void *hak_valloc(size_t size_bytes) HAKMEM_NOTHROW;
HAKMEM_API void *hak_pvalloc(size_t size_bytes) HAKMEM_NOTHROW;

/* Returns how many bytes of the block may be used: at least the size that was asked for. 0 for NULL. */
HAKMEM_API size_t hak_malloc_usable_size(const void *block) HAKMEM_NOTHROW;

/* Empties the calling thread's caches and gives the memory of every free page of the heap back to the system. Returns
 * the number of bytes given back. */
HAKMEM_API size_t hak_purge(void) HAKMEM_NOTHROW;

/* As hak_purge, and takes back what other threads keep, whether they run or sleep: parked lists of free blocks, blocks
 * that others freed for them, empty slabs, and unused memory inside slabs. It cannot reach two things of another thread,
 * which stay until that thread allocates or frees again: for each size class the newest list of free blocks (at most 64
 * KiB, or 512 KiB after long swings; 16 KiB once the thread has freed much more of the class than it allocated), and the
 * blocks of other threads that it has freed and not yet handed over (at most 16 KiB for each of 256 pages). A thread that
 * is inside the allocator at the moment is passed over; it gives back by itself. A thread that comes to a slow path
 * during the visit waits until the step ends, at most the time that it takes to trim the slabs of one size class. */
HAKMEM_API size_t hak_purge_all(void) HAKMEM_NOTHROW;

/* Starts or ends the background thread, as HAKMEM_BACKGROUND=1 does at start. Each purge delay it gives back what idles:
 * free pages and cached mappings, what ended threads had cached, and what hak_purge_all can reach of threads that were
 * not in the allocator for two delays. It blocks every signal, holds no heap, allocates no block, and ends when the
 * library's destructors run, or the first thread of the process does; started later than that, it keeps the process alive. The
 * child after fork has none, and may start one. Returns 0, or an errno value when the
 * system refuses a thread. Starting it twice, or ending it when there is none, is no error. Not to be called while
 * another thread forks. (After jemalloc's background_thread.) */
HAKMEM_API int hak_background(bool on) HAKMEM_NOTHROW;

/* Figures of the whole heap. They are exact only while no other thread is in the allocator. */
struct hak_stats {
    size_t reserved_bytes; /* address space held in superslabs and huge blocks */
    size_t slab_bytes; /* pages that back slabs of small blocks */
    size_t small_bytes; /* in small blocks, live or in a thread's cache; not those of HAKMEM_GUARD_SAMPLE */
    size_t small_cached_bytes; /* of these, known to be free: see hak_figures.cached_bytes */
    size_t run_bytes; /* in live page runs (32 KiB to 2 MiB) */
    size_t huge_count; /* live blocks above 2 MiB, and shorter ones with a mapping of their own */
    size_t huge_bytes; /* in them */
    size_t huge_cached_bytes; /* in mappings kept for the next blocks above 2 MiB */
    size_t dirty_bytes; /* in free pages that still have memory behind them */
    size_t heap_count; /* heaps ever made: the most threads that held one at once */
    size_t orphan_count; /* heaps that wait for a thread to adopt them */
};
HAKMEM_API void hak_stats_get(struct hak_stats *out) HAKMEM_NOTHROW;

/* More figures, in a struct that grows: new members are added at its end. The caller passes sizeof the struct that it was
 * compiled with, and gets that many bytes; a library that knows fewer members leaves the others 0. Byte figures are as of
 * now, counts are since the process started (a forked child continues its parent's). Exact only while no other thread is
 * in the allocator. X(member, kind, meaning) is the list of all; kind is how Prometheus calls it. */
#define HAKMEM_FIGURES(X)                                                                            \
    X(mapped_bytes, gauge, "address space of superslabs and huge blocks")                            \
    X(committed_bytes, gauge, "pages of slabs and runs, free pages that keep memory, huge mappings") \
    X(committed_peak_bytes, gauge, "the most that was ever committed")                               \
    X(resident_bytes, gauge, "bytes that are resident if the program has touched all of its blocks") \
    X(used_bytes, gauge, "in blocks that are live or in a cache of their thread")                    \
    X(idle_bytes, gauge, "in free blocks of slabs, with memory")                                     \
    X(dirty_bytes, gauge, "in free pages with memory")                                               \
    X(huge_cached_bytes, gauge, "in mappings kept for the next blocks above 2 MiB")                  \
    X(learned_bytes, gauge, "free pages that the purge has learned to keep")                         \
    X(limit_bytes, gauge, "the limit of hak_limit_set; 0: none")                                     \
    X(limit_soft_bytes, gauge, "the soft limit; 0: none")                                            \
    X(heaps, gauge, "heaps ever made")                                                               \
    X(orphans, gauge, "heaps that wait for a thread")                                                \
    X(threads, gauge, "heaps that a thread holds")                                                   \
    X(superslabs, gauge, "superslabs that have address space")                                       \
    X(superslabs_made, counter, "superslabs ever made")                                              \
    X(superslabs_released, counter, "superslabs given back")                                         \
    X(slabs_made, counter, "slabs made")                                                             \
    X(slabs_released, counter, "slabs released")                                                     \
    X(refills, counter, "refills of a bin")                                                          \
    X(parks, counter, "frees that found their bin full")                                             \
    X(overflows, counter, "lists that went back to their slabs, as no more could be parked")         \
    X(drains, counter, "slabs from which remote frees were taken")                                   \
    X(trims, counter, "slabs whose free memory was given back")                                      \
    X(purged_bytes, counter, "bytes of free pages given back")                                       \
    X(background_rounds, counter, "rounds of the background thread")                                 \
    X(superslabs_collapsed, counter, "full superslabs that HAKMEM_HUGE_PAGES=2 made huge pages")     \
    X(own_heaps, gauge, "heaps of hak_heap_new that are not destroyed")                              \
    X(huge_learned_bytes, gauge, "in mappings that the cache has learned to keep, at most")          \
    X(classes_grown, gauge, "size classes whose bins have learned to take more frees")               \
    X(profile_mean_bytes, gauge, "bytes for each sample of the heap profile; 0: never on")           \
    X(wasted_bytes, gauge, "what rounding up adds to live small blocks, by the heap profile")        \
    X(cached_bytes, gauge, "of used_bytes, known to be free in a cache")

enum { HAKMEM_CLASSES_MAX = 128 };
struct hak_class_figures {
    uint64_t block_bytes; /* 0: the list ends */
    uint64_t slab_bytes; /* pages of the class's slabs */
    uint64_t used_blocks; /* live, or in a cache */
};
struct hak_figures {
#define HAKMEM_X(member, kind, meaning) uint64_t member;
    HAKMEM_FIGURES(HAKMEM_X)
#undef HAKMEM_X
    uint64_t reserved[9]; /* 0; later figures take their place, so that `classes` stays where it is */
    struct hak_class_figures classes[HAKMEM_CLASSES_MAX];
    /* Of the class with the same index: how many frees a bin takes before its list is parked, in the heap that has
     * learned most. */
    uint64_t class_credits[HAKMEM_CLASSES_MAX];
    /* Estimates from the heap profile (hak_profile_start), since the hit paths count nothing; 0 if it was never on. How
     * many of used_blocks are live, so that about all others are cached; and by how many bytes the live blocks are longer
     * than what was asked for. Of blocks allocated while the profile was on, without bias; the standard error is at most
     * sqrt(profile_mean_bytes * X) bytes, X the live blocks' bytes, or the wasted bytes. A block that realloc left in
     * place counts with the size that malloc was asked for. Blocks of an alignment above 16 count as wasting nothing, those
     * of heaps of hak_heap_new not at all. wasted_bytes above is the sum of all classes. */
    uint64_t class_live_blocks[HAKMEM_CLASSES_MAX];
    uint64_t class_wasted_bytes[HAKMEM_CLASSES_MAX];
};
/* cached_bytes: what is parked in any heap, in the calling thread's bins, or freed by other threads and not drained yet. The
 * bins of other threads (up to a list of each class) and what they have staged cannot be known: it counts as used. They
 * are counted block by block.
 *
 * Fills the first size_bytes bytes of *out. Returns how many bytes of the struct this library knows. */
HAKMEM_API size_t hak_figures_get(struct hak_figures *out, size_t size_bytes) HAKMEM_NOTHROW;

/* Writes all figures to a file descriptor: as one JSON object, or in the Prometheus exposition format (text 0.0.4, names begin
 * with hakmem_); HAKMEM_STATS_TEXT: the lines of hak_stats_print. Allocates nothing. Returns 0, EINVAL for an unknown format,
 * or the errno value of a failed write. */
enum hak_stats_format { HAKMEM_STATS_TEXT, HAKMEM_STATS_JSON, HAKMEM_STATS_PROMETHEUS };
HAKMEM_API int hak_stats_write(int fd, enum hak_stats_format format) HAKMEM_NOTHROW;

/* Bounds the bytes that the heap has committed (struct hak_figures); SIZE_MAX: no limit. Metadata, stacks, and memory
 * that the program maps itself are not counted. At the limit an allocation takes back what all threads cache, if
 * that may be enough and it has not just been done, then asks the callback, then fails with ENOMEM. Threads that allocate at one moment may pass the
 * limit by what each asks for. A limit below what is committed takes nothing away; allocations fail until enough is
 * freed. Beyond the soft limit nothing fails, but free pages go back at once, all but 2 MiB. HAKMEM_LIMIT and HAKMEM_LIMIT_SOFT set them
 * at start. */
HAKMEM_API void hak_limit_set(size_t limit_bytes) HAKMEM_NOTHROW;
HAKMEM_API size_t hak_limit_get(void) HAKMEM_NOTHROW;
HAKMEM_API void hak_limit_soft_set(size_t limit_bytes) HAKMEM_NOTHROW;
HAKMEM_API size_t hak_limit_soft_get(void) HAKMEM_NOTHROW;

/* Sets the function that is asked when an allocation is about to fail, at the limit or because the system has no memory;
 * NULL: none. It runs in the thread that allocates, with no lock of the allocator held. It may free and allocate; an
 * allocation inside it fails without asking again. It returns true when the allocation is to be tried again, and is then
 * asked again if that fails too. wanted_bytes is the size of the block, rounded up. (After jemalloc's and Go's soft
 * limits, and tcmalloc's hard limit.) */
HAKMEM_API void hak_limit_callback(bool (*callback)(size_t wanted_bytes, void *context), void *context) HAKMEM_NOTHROW;

/* The usable size that a block of size_bytes has at least: what a program may ask for instead at no cost. (Above 1 KiB
 * malloc may give a larger block that lies idle.) At least size_bytes; size_bytes itself where no block can be so large.
 * (jemalloc's nallocx.) */
HAKMEM_API size_t hak_good_size(size_t size_bytes) HAKMEM_NOTHROW;

/* As hak_malloc(size_bytes), with the size that the block has. The program may use all of it. {NULL, 0} and ENOMEM on
 * failure. (C++23's allocate_at_least.) */
struct hak_sized_block {
    void *block;
    size_t size_bytes;
};
HAKMEM_API struct hak_sized_block hak_malloc_at_least(size_t size_bytes) HAKMEM_NOTHROW;

/* Defragmentation with the program's help: for a program that can change its pointers to a block, as Redis does.
 * hak_defrag_hint: whether moving the block would help to empty a sparse slab: it lies in one that is less full than the
 * slabs of its class with free blocks are on average. hak_defrag_move then moves it, with all of its content, to a fuller
 * slab, past all caches, and returns its new address; the old one is freed. NULL: the block stays where it is. Only blocks
 * of up to 32 KiB that belong to the calling thread's heap are moved: call it in the thread that allocates them. Always false
 * and NULL in the debug-validation build and under a sanitizer. (After jemalloc's get_defrag_hint, whose program moves the
 * block itself.) */
HAKMEM_API bool hak_defrag_hint(const void *block) HAKMEM_NOTHROW;
HAKMEM_API void *hak_defrag_move(void *block) HAKMEM_NOTHROW;

/* Heaps of the program's own. A heap is a set of blocks that go back all at once: with hak_heap_destroy, which takes the
 * heap too, or with hak_heap_free_all, in time that grows with the heap's slabs (64 KiB to 512 KiB each) and not with its
 * blocks. Any thread may use any heap at any time, and hak_free, free, hak_realloc and hak_malloc_usable_size take its
 * blocks. hak_realloc keeps a block in its heap. Each allocation takes the heap's lock, and no thread has a cache of the
 * heap's blocks; threads that allocate much at one time want a heap each. A free never waits for the lock. In the child after
 * fork the heaps are there, with their blocks; in a heap that another thread was changing at the fork, blocks that were
 * free come back only all at once. (After mimalloc's heaps, APR's pools and obstacks.) */
struct hak_heap;

/* Returns a new, empty heap. NULL and ENOMEM when the system has no memory. It costs about 4 KiB, which the next heap
 * reuses after hak_heap_destroy. */
HAKMEM_API struct hak_heap *hak_heap_new(void) HAKMEM_NOTHROW;

/* As hak_malloc, hak_calloc and hak_aligned_alloc, from this heap. They fail with ENOMEM also at the heap's limit. */
HAKMEM_API void *hak_heap_malloc(struct hak_heap *heap, size_t size_bytes) HAKMEM_NOTHROW;
HAKMEM_API void *hak_heap_calloc(struct hak_heap *heap, size_t count, size_t size_bytes) HAKMEM_NOTHROW;
HAKMEM_API void *hak_heap_aligned_alloc(struct hak_heap *heap, size_t align_bytes, size_t size_bytes) HAKMEM_NOTHROW;

/* As hak_realloc. block may be NULL, or a block of any heap: one of another heap moves to this one. */
HAKMEM_API void *hak_heap_realloc(struct hak_heap *heap, void *block, size_t size_bytes) HAKMEM_NOTHROW;

/* Gives back every block of the heap, and keeps the heap. No other thread may have a call on the heap or its blocks
 * under way, and none of its blocks may be used or freed afterwards: the debug-validation build ends the process at such
 * a free (destroyed_heap), as long as it remembers the block. */
HAKMEM_API void hak_heap_free_all(struct hak_heap *heap) HAKMEM_NOTHROW;

/* As hak_heap_free_all, and gives the heap back too. NULL is allowed and does nothing. */
HAKMEM_API void hak_heap_destroy(struct hak_heap *heap) HAKMEM_NOTHROW;

/* Bounds the heap's resident_bytes; SIZE_MAX: no limit, as a new heap has it. At the limit an allocation takes back as much
 * as it needs of what lies free in the heap. If all of that is not enough, it fails with ENOMEM, and the heap looks again
 * once a 16th of the limit more lies free. No callback is asked. A limit below what the heap has takes nothing away. The
 * process's limit (hak_limit_set) holds for all heaps together. */
HAKMEM_API void hak_heap_limit_set(struct hak_heap *heap, size_t limit_bytes) HAKMEM_NOTHROW;
HAKMEM_API size_t hak_heap_limit_get(struct hak_heap *heap) HAKMEM_NOTHROW;

/* Figures of one heap, in a struct that grows as hak_figures does. hak_figures_get counts the memory of these heaps with
 * that of all others. */
struct hak_heap_figures {
    uint64_t used_bytes; /* in live blocks, and in those freed at this moment */
    uint64_t resident_bytes; /* live and free blocks that have memory: what the limit bounds */
    uint64_t resident_peak_bytes;
    uint64_t committed_bytes; /* pages of slabs and runs, huge mappings */
    uint64_t limit_bytes; /* 0: none */
};
HAKMEM_API size_t hak_heap_figures_get(struct hak_heap *heap, struct hak_heap_figures *out,
                                       size_t size_bytes) HAKMEM_NOTHROW;

/* The heap profile: which call stacks allocated what is in use, and what was ever allocated. About one block each
 * mean_bytes bytes is sampled (0: 512 KiB); the estimates are unbiased. It takes effect in another thread at that thread's
 * next slow path. Starting it again changes the mean. hak_profile_stop takes no more samples; those there are stay.
 * HAKMEM_PROFILE starts it before main. Returns 0, ENOMEM, or ENOTSUP in the debug-validation build and under a
 * sanitizer. Any thread. (After tcmalloc's and jemalloc's.) */
HAKMEM_API int hak_profile_start(size_t mean_bytes) HAKMEM_NOTHROW;
HAKMEM_API void hak_profile_stop(void) HAKMEM_NOTHROW;

/* Writes the estimates of this moment to a file, which is replaced, as pprof's gzipped protobuf; `go tool pprof` reads
 * it. Sample types: alloc_objects, alloc_space, inuse_objects, inuse_space (of all samples since the process started; a
 * forked child continues its parent's). Returns 0 or an errno value. Any thread. */
HAKMEM_API int hak_profile_dump(const char *path) HAKMEM_NOTHROW;

/* Writes the figures to the stream as text, one a line. Allocates nothing itself; the stream may. */
HAKMEM_API void hak_stats_print(FILE *stream) HAKMEM_NOTHROW;

#ifdef __cplusplus
}
#endif

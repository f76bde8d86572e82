/* The bugs of the small malloc, one of which MINI_BUG=NAME in the environment chooses. Each is of another shape, and was
 * written before anybody knew what finds it. found.txt says what must. */
#ifndef STRESS_CANARY_MINI_BUGS_H
#define STRESS_CANARY_MINI_BUGS_H

#include <stdbool.h>

#define MINI_BUGS(X)                                                                                            \
    X(none, "a correct malloc")                                                                                 \
    X(usable_pad, "malloc_usable_size of 320 to 1024 bytes is 16 bytes too large")                              \
    X(usable_aligned, "malloc_usable_size of an aligned block counts from where its block of the slab begins")  \
    X(leak_1000, "one free of a small block in 1000 is lost")                                                   \
    X(leak_10000, "one free of a small block in 10000 is lost")                                                 \
    X(end_keeps_cache, "a thread that ends loses what it cached of one class in eight")                         \
    X(threads_48, "from the 49th living thread on, threads share one cache")                                    \
    X(late_free_lost, "what a thread frees after its last destructor fills a cache that nobody flushes")        \
    X(end_gives_cache, "a thread gives its cache to the next one and uses it in later destructors")             \
    X(thread_reuse, "a thread with the address of an ended one takes that one's cache, which a third may have") \
    X(small_never_back, "empty slabs are reused but their memory never goes back")                              \
    X(purge_outward, "a purge of a large free block of a slab rounds outwards to whole pages")                  \
    X(purge_queue, "a slab that is used again stays in the queue of slabs to be purged")                        \
    X(purge_unlocked, "free slabs are purged without the lock, and may be taken meanwhile")                     \
    X(grow_lost, "realloc loses the last 8 bytes of a full block that grows out of its class")                  \
    X(realloc_tail, "a realloc that shrinks in place clears from the multiple of 16 below the new size on")     \
    X(realloc_zero, "realloc(p, 0) frees p and returns p")                                                      \
    X(realloc_frees, "a realloc that fails frees the block")                                                    \
    X(shrink_leaks, "a mapped block that shrinks to a small one leaves its mapping behind")                     \
    X(realloc_aligned, "realloc of an aligned block takes it to begin where its block of the slab begins")      \
    X(shrink_size, "a mapped block that shrinks in place keeps its old size in the books")                      \
    X(mremap_map, "a mapped block that moves keeps the old address of its mapping in the books")                \
    X(calloc_class, "calloc of 1025 to 1280 bytes takes a cached block for fresh memory")                       \
    X(calloc_ends, "calloc of 8 KiB or more clears the first and the last page of a block of a slab")           \
    X(calloc_cached, "calloc takes a cached mapping for fresh memory")                                          \
    X(calloc_wrap, "calloc looks for an overflow only if a factor is 2^40 or more")                             \
    X(errno_zero, "free of a mapped block clears errno")                                                        \
    X(zero_same, "malloc(0) always returns the same block")                                                     \
    X(posix_out, "posix_memalign writes its result also if it fails")                                           \
    X(align_64, "an alignment of 64 is lost for 65 to 128 bytes")                                               \
    X(align_24, "blocks of 17 to 24 bytes are aligned to 8")                                                    \
    X(align_again, "a mapping of 4 MiB or more that is taken again loses the alignment")                        \
    X(align_32, "an alignment of 4 GiB or more loses its upper bits")                                           \
    X(aligned_twice, "a freed mapping with an alignment above a page is cached twice")                          \
    X(sized_inside, "free_aligned_sized takes the pointer for the start of the slab's block")                   \
    X(class_edge, "sizes of 1025 to 1032 get the class of 1024")                                                \
    X(last_block, "the last block of a slab of some classes reaches over the slab's end")                       \
    X(page_edge, "a mapping is a page short for sizes 1 to 16 above a multiple of the page")                    \
    X(count_8, "a slab with a multiple of 256 blocks in use is taken for empty")                                \
    X(pages_16, "the length of a mapping wraps at 65536 pages")                                                 \
    X(size_32, "the size of a mapped block wraps at 4 GiB")                                                     \
    X(push_lost, "two threads that free at once while a third has the lock lose one of the blocks")             \
    X(chunk_race, "a thread chooses a slab of a chunk before it has the lock of the chunks")                    \
    X(wake_lost, "a lock forgets the second thread that waits for it")                                          \
    X(pop_aba, "a block is popped off a shared list by a plain compare-exchange")                               \
    X(publish_early, "a block is linked to a shared list before its next pointer is written")                   \
    X(wait_interrupted, "a signal during the wait for a lock counts as having it")                              \
    X(fork_lock, "a forked child keeps the lock of the chunks as it was")                                       \
    X(fork_order, "fork takes the lock of the chunks before those of the bins")                                 \
    X(fork_cache, "a forked child uses a cache that its next thread gets too")                                  \
    X(fork_twice, "a child of a forked child uses slabs of the first process")                                  \
    X(trim_lock, "malloc_trim keeps a lock if there is nothing to trim")                                        \
    X(refused_lock, "malloc keeps a lock if the system refuses memory")                                         \
    X(map_failed, "the result of mmap is compared with NULL")                                                   \
    X(descriptor_left, "each new chunk leaves a descriptor open")                                               \
    X(guard_left, "a mapped block of 128 KiB or more leaves its guard page behind")                             \
    X(unmap_more, "free of a mapped block with an alignment of 64 KiB or more unmaps one page too many")

enum bug {
#define MINI_ROW(name, text) BUG_##name,
    MINI_BUGS(MINI_ROW)
#undef MINI_ROW
};

/* Set before the program's own constructors. The loader calls malloc earlier, and nothing goes wrong then. */
extern enum bug mini_bug;

static inline bool has(enum bug bug)
{
    return mini_bug == bug;
}

#endif

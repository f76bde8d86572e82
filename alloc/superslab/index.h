/* index.h: finds a superslab by what lies free in it, in O(log) of how many there are. For the pool and the purge.
 *
 * Each superslab has a word of eight bytes. Byte k, k < INDEX_ALIGNS, is the length of the longest run of free pages that
 * starts at a multiple of 2^k. The byte INDEX_ABSENT says what a new superslab looks for. The words are the leaves of a tree
 * whose nodes have eight children: byte for byte a node's word is the highest of its children's. A search goes through one
 * line of eight words at each level.
 *
 * A word may be too high, which costs a look. It is never too low for long: the thread that lowers it looks again
 * afterwards, at each level of the tree. A claim leaves its superslab's word too high; the first search that comes there and
 * finds too little lowers it. Searches take the first superslab that can serve them, so the next one that the word misleads
 * comes before any other claim behind it, and each claim costs one such look at most.
 *
 * The leaves and the nodes above them lie in the chunks of 64 superslabs, the other nodes in arrays of index.c. */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "superslab/superslab.h"

enum {
    CHUNK_SUPERSLABS = 64,
    CHUNKS_MAX = 1 << 14, /* 4 TiB */
    INDEX_FAN = 8,        /* children of a node: a cache line of words */

    INDEX_ALIGNS = 6, /* runs that start at a multiple of 1, 2, 4, 8, 16 or 32 pages */
    INDEX_ABSENT = 6, /* byte: 1 for a descriptor without address space */
};

static const uint32_t INDEX_NONE = UINT32_MAX;

struct chunk {
    alignas(CACHE_LINE_BYTES) _Atomic(uint64_t) present; /* bit i: superslab i has address space */
    alignas(CACHE_LINE_BYTES) _Atomic(uint64_t) groups[CHUNK_SUPERSLABS / INDEX_FAN];
    alignas(CACHE_LINE_BYTES) _Atomic(uint64_t) words[CHUNK_SUPERSLABS];
    struct superslab superslabs[CHUNK_SUPERSLABS];
};

/* The number of chunks, and each of them. A caller of chunk_at got the index from the count, or from a superslab. */
uint32_t chunk_count(void);
struct chunk *chunk_at(uint32_t index);

/* Makes the next chunk. NULL: the system has no memory, or there are CHUNKS_MAX. Under the POOL lock. */
struct chunk *chunk_make(void);

static inline struct chunk *chunk_of(const struct superslab *superslab)
{
    return chunk_at(superslab->index / CHUNK_SUPERSLABS);
}

static inline struct superslab *superslab_at(uint32_t index)
{
    return &chunk_at(index / CHUNK_SUPERSLABS)->superslabs[index % CHUNK_SUPERSLABS];
}

/* The first superslab at or behind `from` whose byte is at least `least`; INDEX_NONE: there is none. Any thread. */
uint32_t index_find(uint32_t byte, uint32_t least, uint32_t from);

/* The byte that a search for runs with this alignment asks for. */
uint32_t index_byte(uint32_t align_pages);

/* Pages became free, or the address space went: raises the superslab's word, and the words above it. index_raise_run is for
 * [first, first + pages), in a superslab whose free pages were `free_pages` then. */
void index_raise(struct superslab *superslab);
void index_raise_run(struct superslab *superslab, uint64_t free_pages, uint32_t first, uint32_t pages);

/* The word may be too high: lowers it, and the words above it, to what is right now. */
void index_lower(struct superslab *superslab);

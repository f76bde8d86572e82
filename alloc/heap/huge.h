/* huge.h: blocks above 2 MiB, or with an alignment above it, and shorter ones where address space is short. Each is a
 * mapping of its own, whose descriptor is in the page map. Mappings lie side by side, wherever the system places them so:
 * neighbours count as one against its limit on mappings. A few mappings of freed blocks are cached for the next block
 * of about their size; after a delay without use they go back to the system. The HUGE lock protects everything here;
 * the system calls that make, move and release mappings are outside of the lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "superslab/pagemap.h"

enum {
    HUGE_SHRUNK_BYTES_MIN = 256 << 10, /* a huge block that shrinks to less becomes a run */
    HUGE_SHRUNK_LIVE_MAX = 1024, /* so does one that is no longer above RUN_BYTES_MAX, if more huge blocks are live */
};

/* zeroed: as for large_alloc. NULL when the system has no memory, or the sum overflows. */
void *huge_alloc(size_t align_bytes, size_t size_bytes, bool zeroed);

/* The same for a block that large_alloc could serve too: its mapping ends with the system's page. */
void *huge_alloc_exact(size_t align_bytes, size_t size_bytes, bool zeroed);

void huge_free(void *pointer);
size_t huge_usable_size(const void *pointer);

/* For the heap of the program's own that a block belongs to (heap/own.h), which alone uses it. Of a block that the caller
 * has. */
struct huge_link {
    struct hak_heap *heap;
    struct huge_link *next, *prev;
};
static inline struct huge_link *huge_link_of(const void *pointer)
{
    return (struct huge_link *)pagemap_huge(pointer);
}

/* Under VALIDATE: whether an address lies in a cached mapping. Takes the HUGE lock. */
bool huge_is_cached(const void *address);

/* Resizes a block, in place or by letting the system move its pages, without a copy. Returns the block. NULL when the
 * system refuses: then the old block is unchanged. Only to a size for which huge_may_stay: above RUN_BYTES_MAX; for a
 * block of huge_alloc_exact above the small ones; and while there are few huge blocks, down to HUGE_SHRUNK_BYTES_MIN, since the
 * end of a mapping goes back sooner than what is left is copied. */
void *huge_realloc(void *pointer, size_t size_bytes);
bool huge_may_stay(const void *pointer, size_t size_bytes);

/* Releases mappings that have been cached for a delay, and those beside which the heap has grown (heap/huge_cache.h).
 * Called on slow paths. */
void huge_tick(uint64_t now_ms);

/* Whether any mapping is cached. A hint, read without the lock. */
bool huge_any_cached(void);

/* Releases every cached mapping. Returns how many bytes. */
size_t huge_purge_all(void);

/* Set how many bytes the cache may hold (0: no cache), and the delay. Called once, at start. */
void huge_set_cache_bytes(size_t bytes_max);
void huge_set_delay_ms(uint32_t delay_ms);

/* How many bytes the cache has learned to keep. */
size_t huge_learned_bytes(void);

/* For reports: finds the live huge block that an address lies in. False if there is none. Takes no lock: while other
 * threads change the block it may return false too, but nothing worse, since descriptors are never unmapped. */
bool huge_find(const void *address, char **start, size_t *block_bytes);

struct huge_figures {
    size_t live_count, live_bytes, cached_bytes;
    size_t slack_bytes; /* of live_bytes: ends of mappings that the program does not have */
};
struct huge_figures huge_figures(void);

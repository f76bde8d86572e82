/* huge.h: blocks above 2 MiB, or aligned beyond it: each a mapping of its own, whose descriptor
 * stands in the page map. A few mappings are kept for the next block of their size; after a delay
 * without use they are given back. All of it is under the HUGE lock, except the system calls that
 * make, move and release mappings. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL when the system has no memory, or the sum overflows. */
void *huge_alloc(size_t align_bytes, size_t size_bytes, bool *zero);

void huge_free(void *pointer);
size_t huge_usable_size(const void *pointer);

/* Under VALIDATE: whether an address lies in a mapping that was freed and is kept. Takes the HUGE lock. */
bool huge_is_cached(const void *address);

/* A block of size_bytes > RUN_BYTES_MAX with the content of pointer's, in place or moved by the
 * system without a copy. NULL when the system refuses: then pointer stands. */
void *huge_realloc(void *pointer, size_t size_bytes);

/* Releases mappings that have been cached for a delay; on slow paths. */
void huge_tick(uint64_t now_ms);

/* Whether there is one for the tick to look at. A hint, without the lock. */
bool huge_any_cached(void);

/* Releases every cached mapping. Returns bytes. */
size_t huge_purge_all(void);

/* How much the cache may hold; 0: no cache. At start. */
void huge_set_cache_bytes(size_t bytes_max);
void huge_set_delay_ms(uint32_t delay_ms);

/* For reports, without the lock: the huge block in use that an address is in. False if there is none; what other
 * threads change meanwhile may make it so, but nothing else. Descriptors are never unmapped. */
bool huge_find(const void *address, char **start, size_t *mapped_bytes);

struct huge_figures {
    size_t live_count, live_bytes, cached_bytes;
};
struct huge_figures huge_figures(void);

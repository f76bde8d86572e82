/* meta.h: memory for the allocator's own descriptors, apart from user data. Never given back:
 * descriptors are type-stable, so that a thread that looks at one late finds one still. */
#pragma once

#include <stddef.h>

/* size_bytes of zeroed memory, aligned to a cache line; NULL when the system has none. Any thread.
 * Takes the META lock. */
void *meta_alloc(size_t size_bytes);

/* meta.h: memory for the allocator's own descriptors, apart from user data. It is never given back, so a thread that
 * reads a descriptor late still finds a descriptor there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { META_LINE_BYTES = 64 };

/* size_bytes of zeroed memory, at a multiple of META_LINE_BYTES; NULL when the system has no memory. Any thread. Takes the META
 * lock. */
void *meta_alloc(size_t size_bytes);

/* Whether it maps what it needs and no more. If so, gives back the address space that it has in reserve. */
void meta_be_frugal(bool yes);

/* arena_memory.h: the pages of the arena that have memory, and how they come to read as zero again in little time. What
 * else is said of it stands in arena.h: arena_statics, arena_run, the allocator's memset and memcpy. */
#pragma once

#include "explore/arena.h"

enum { ARENA_MAP_GIB = 10 }; /* what the page map takes of the arena, and more */
#define ARENA_BYTES ((size_t)(ARENA_GIB + ARENA_MAP_GIB) << 30)

/* The arena itself, of ARENA_BYTES: once, before all else. */
void memory_begin(uintptr_t start, uintptr_t end);

/* Makes a part of it read as zero. */
void memory_zero(uintptr_t start, uintptr_t end);

/* The same for these ranges, sorted, and for the static variables. */
void memory_zero_all(const struct arena_range *touched, uint32_t count);

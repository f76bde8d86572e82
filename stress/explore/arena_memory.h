/* arena_memory.h: the pages of the arena that have memory, and how they are quickly made to read as zero again. arena.h
 * describes the other functions of this file: arena_statics, arena_run, the allocator's memset and memcpy. */
#pragma once

#include "explore/arena.h"

enum { ARENA_MAP_GIB = 10 }; /* more than the page map takes of the arena */
#define ARENA_BYTES ((size_t)(ARENA_GIB + ARENA_MAP_GIB) << 30)

/* Names the arena itself, of ARENA_BYTES. Call it once, before all else. */
void memory_begin(uintptr_t start, uintptr_t end);

/* Makes a part of the arena read as zero. */
void memory_zero(uintptr_t start, uintptr_t end);

/* The same for these sorted ranges, and for the static variables. */
void memory_zero_all(const struct arena_range *touched, uint32_t count);

/* arena_memory.h: the pages of the arena that have memory, and how they are quickly made to read as zero again. */
#pragma once

#include "explore/inside/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ARENA_MAP_GIB = 10 }; /* more than the page map takes of the arena */
#define ARENA_BYTES ((size_t)(ARENA_GIB + ARENA_MAP_GIB) << 30)

/* Names the arena itself, of ARENA_BYTES. Call it once, before all else. */
void memory_begin(uintptr_t start, uintptr_t end);

/* Makes a part of the arena read as zero. */
void memory_zero(uintptr_t start, uintptr_t end);

/* The same for these sorted ranges, and for the static variables. */
void memory_zero_all(const struct arena_range *touched, uint32_t count);

/* Names the pages of static variables; both are multiples of 4096. False: more than 64 MiB. */
bool arena_statics(uintptr_t start, uintptr_t end);

/* Call it when a run begins and when it ends. With both calls, memory that the run gets from the system is found
 * faster. */
void arena_run(bool begins);

/* Like libc's functions, but a long run of zeros does not make untouched memory resident. For the allocator
 * (own_libc.h).
 */
void *stress_fiber_memset(void *to, int value, size_t size_bytes);
void *stress_fiber_memcpy(void *to, const void *from, size_t size_bytes);

#ifdef __cplusplus
}
#endif

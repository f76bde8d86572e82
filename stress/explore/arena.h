/* arena.h: the system as the explorer and the fuzz targets give it to the allocator: one range of address space, at the
 * same address in every process, from which it reserves. What it does is a function of what it was asked for, so runs
 * repeat; and all that was touched can be put back at once (image.h). One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ARENA_RANGES_MAX = 1024, /* reservations at one time; more are refused */
    ARENA_GIB = 16, /* of address space, besides the page map's */
};

struct arena_range {
    uintptr_t start, end;
};

/* Reservations, and of them what may have been touched, each sorted by address; neighbours are one. */
struct arena_books {
    struct arena_range reserved[ARENA_RANGES_MAX];
    struct arena_range touched[ARENA_RANGES_MAX];
    uint32_t reserved_count, touched_count;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Maps the range and makes it the allocator's system, before its first call. False: there is no room. */
bool arena_begin(void);

/* The books, to look at or, with the memory in keeping, to put back. */
struct arena_books *arena_now(void);

/* The range itself, of which nothing beyond the page map and the first GiB is promised to stay. */
uintptr_t arena_start(void);

/* Names the pages of static variables, multiples of 4096. False: more than 64 MiB. */
bool arena_statics(uintptr_t start, uintptr_t end);

/* Makes all that was touched read as zero, and those. */
void arena_zero(void);

/* A run begins, and ends: what it makes of memory from the system is found the faster where both are told. */
void arena_run(bool begins);

/* Call number nth from now on (from 1) fails, and with for_ever all that follow; 0: none does. */
void arena_fail(uint64_t nth, bool for_ever);
/* How many have failed so, since the process began. */
uint64_t arena_failed(void);

/* Whether what the memory holds matters no more, as at the end of a run: purge and release then leave it as it is. */
void arena_over(bool over);

/* The same as libc's, but what is long, zero and has no memory yet gets none by them. For the allocator (own_libc.h).
 */
void *stress_fiber_memset(void *to, int value, size_t size_bytes);
void *stress_fiber_memcpy(void *to, const void *from, size_t size_bytes);

/* What the allocator did against the contract of os/os.h, first of all; NULL: nothing. */
const char *arena_complaint(void);

#ifdef __cplusplus
}
#endif

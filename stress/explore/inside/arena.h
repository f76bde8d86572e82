/* arena.h: the operating system that the explorer and the fuzz targets give to the allocator: one range of address
 * space, at the same address in every process, from which it reserves. Its answers depend only on the requests, so runs
 * repeat; and all touched memory can be restored at once (image.h). One thread at a time. */
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

/* Reservations, and the parts of them that may have been touched. Each list is sorted by address; neighbouring ranges
 * are merged. */
struct arena_books {
    struct arena_range reserved[ARENA_RANGES_MAX];
    struct arena_range touched[ARENA_RANGES_MAX];
    uint32_t reserved_count, touched_count;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Maps the range and makes it the allocator's system. Call it before the allocator's first call. False: there is no
 * room. */
bool arena_begin(void);

/* The books, to look at or, together with saved memory, to restore. */
struct arena_books *arena_now(void);

/* The start of the range. Only the page map and the first GiB are sure to stay. */
uintptr_t arena_start(void);

/* Makes all touched memory and those variables read as zero. */
void arena_zero(void);

/* Call number nth from now on, counted from 1, fails; with for_ever, all later calls too; 0: none does. */
void arena_fail(uint64_t nth, bool for_ever);
/* The number of calls made to fail since the process began. */
uint64_t arena_failed(void);

/* The allocator's first breach of the contract of os/os.h since it was forgotten; NULL: none. */
const char *arena_complaint(void);
void arena_complaint_forget(void);

#ifdef __cplusplus
}
#endif

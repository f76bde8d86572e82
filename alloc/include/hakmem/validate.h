/* validate.h: what libhakmem-validate.so offers to a test suite beyond malloc. Find each by dlsym; the
 * release library has none of them.
 *
 * The hooks are set while no other thread is in the allocator. They may be called on any thread, at any
 * depth of the allocator, and must not enter it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called at each shared step with its name: a scheduler under test may stop the thread there. While it
 * is set, a thread that finds a lock taken calls it with "lock_wait" over and over instead of sleeping in
 * the system. NULL, as at start: not called. */
typedef void hak_sync_point_fn(const char *step);
extern hak_sync_point_fn *hak_sync_point_hook;

/* The time in milliseconds, in the system's stead. It must not go back. NULL, as at start: the system's. */
typedef unsigned long long hak_clock_fn(void);
extern hak_clock_fn *hak_clock_hook;

struct hak_inspect_report {
    const char *broken_law;  /* NULL: all hold */
    const void *address;     /* of the page or descriptor in question */
    uint32_t slab_count;     /* slabs seen */
    uint32_t empty_slab_count;
    uint32_t run_count;
    uint64_t used_blocks;    /* sum of the slabs' used counts */
    uint64_t live_blocks;    /* blocks that the program holds; 0 in a build without VALIDATE */
    uint64_t pending_blocks; /* freed by other threads, not yet taken by their owner */
    uint32_t pending_slab_count;
};

/* Checks the heap's books against the laws named in alloc/README.md and fills the report. No other thread
 * may be in the allocator meanwhile, and those that are alive must have flushed (hak_purge) for
 * used_blocks to equal live_blocks. Returns true when every law holds. */
bool hak_inspect(struct hak_inspect_report *report);

#ifdef __cplusplus
}
#endif

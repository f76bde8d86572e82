/* validate.h: what libhakmem-validate.so offers to test suites beyond malloc. Look each symbol up with dlsym: the
 * release library has none of them.
 *
 * Set the hooks only while no other thread is in the allocator. The allocator may call them on any thread and at any
 * depth; they must not call the allocator. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called at each step that is visible to other threads, with the step's name. A test's scheduler may stop the thread
 * there. While the hook is set, a thread that waits for a lock does not sleep in the system; it calls the hook with
 * "lock_wait" again and again. NULL, the initial value: not called. */
typedef void hak_sync_point_fn(const char *step);
extern hak_sync_point_fn *hak_sync_point_hook;

/* Returns the time in milliseconds, instead of the system's clock. It must not go back. NULL, the initial value: the
 * system's clock. */
typedef unsigned long long hak_clock_fn(void);
extern hak_clock_fn *hak_clock_hook;

struct hak_inspect_report {
    const char *broken_law;  /* NULL: all laws hold */
    const void *address;     /* of the page or descriptor in question */
    uint32_t slab_count;     /* slabs seen */
    uint32_t empty_slab_count;
    uint32_t run_count;
    uint64_t used_blocks;    /* sum of the slabs' used counts */
    uint64_t live_blocks;    /* blocks that the program holds; 0 in a build without VALIDATE */
    uint64_t pending_blocks; /* freed by other threads, not yet taken by their owner */
    uint32_t pending_slab_count;
};

/* Checks the heap's data against the laws in alloc/README.md and fills the report. Returns true when every law holds.
 * No other thread may be in the allocator meanwhile. used_blocks equals live_blocks only if all live threads have
 * flushed their caches (hak_purge). */
bool hak_inspect(struct hak_inspect_report *report);

#ifdef __cplusplus
}
#endif

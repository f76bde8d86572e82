/* sync_point.h: a place beside a shared step where a scheduler under test may stop a thread, and a
 * clock that a test may replace. Present in the debug-validation build only; the contract of the hooks
 * is in hakmem/validate.h. */
#pragma once

#include <stdbool.h>

#include "base/policy.h"

typedef void hak_sync_point_fn(const char *step);
typedef unsigned long long hak_clock_fn(void);
extern hak_sync_point_fn *hak_sync_point_hook __attribute__((visibility("default")));
extern hak_clock_fn *hak_clock_hook __attribute__((visibility("default")));

/* For unit tests: called by the thread that holds the lock of this rank (os/lock.h), just after it took it and just
 * before it gives it back. It keeps errno and does not enter the allocator. NULL: not called. */
typedef void sync_lock_fn(unsigned rank, bool gives_back);
extern HAK_HIDDEN sync_lock_fn *sync_lock_hook;

HAK_INLINE bool sync_points_are_hooked(void)
{
    return VALIDATE && HAK_UNLIKELY(hak_sync_point_hook != 0);
}

HAK_INLINE void sync_point(const char *step)
{
    if (VALIDATE && sync_points_are_hooked()) hak_sync_point_hook(step); /* VALIDATE: with -O0 too it is not linked */
}

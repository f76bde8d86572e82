/* sync_point.h: hooks for tests. sync_point marks a place beside a shared step where a test's scheduler may stop a
 * thread; the clock may be replaced. Only the debug-validation build has them; hakmem/validate.h states the contract of
 * the hooks. */
#pragma once

#include <stdbool.h>

#include "base/policy.h"

typedef void hak_sync_point_fn(const char *step);
typedef unsigned long long hak_clock_fn(void);
extern hak_sync_point_fn *hak_sync_point_hook __attribute__((visibility("default")));
extern hak_clock_fn *hak_clock_hook __attribute__((visibility("default")));

/* For unit tests: called by the thread that holds the lock of this rank (os/lock.h), just after it took the lock and
 * just before it releases it. The hook must keep errno and must not call the allocator. NULL: not called. */
typedef void sync_lock_fn(unsigned rank, bool gives_back);
extern HAK_HIDDEN sync_lock_fn *sync_lock_hook;

HAK_INLINE bool sync_points_are_hooked(void)
{
    return VALIDATE && HAK_UNLIKELY(hak_sync_point_hook != 0);
}

HAK_INLINE void sync_point(const char *step)
{
    /* VALIDATE is asked here too, so that a release build at -O0 links without the hook. */
    if (VALIDATE && sync_points_are_hooked()) hak_sync_point_hook(step);
}

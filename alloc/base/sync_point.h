/* sync_point.h: a place beside a shared step where a scheduler under test may stop a thread.
 * Present in the debug-validation build only. The hook is set before threads start and is called
 * with the name of the step; it must not enter the allocator. */
#pragma once

#include "base/policy.h"

typedef void sync_point_hook(const char *step);
extern sync_point_hook *hak_sync_point_hook __attribute__((visibility("default")));

HAK_INLINE void sync_point(const char *step)
{
    if (VALIDATE && HAK_UNLIKELY(hak_sync_point_hook != 0)) hak_sync_point_hook(step);
}

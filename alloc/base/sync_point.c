/* sync_point.c: the hooks of sync_point.h. Not a part of the release library. */
#include "base/sync_point.h"

hak_sync_point_fn *hak_sync_point_hook;
hak_clock_fn *hak_clock_hook;
sync_lock_fn *sync_lock_hook;

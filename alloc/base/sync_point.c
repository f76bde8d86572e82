/* sync_point.c: the hook of sync_point.h. Not a part of the release library. */
#include "base/sync_point.h"

sync_point_hook *hak_sync_point_hook;

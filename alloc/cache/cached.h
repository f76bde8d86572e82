/* cached.h: how much of what slabs count as in use is free, in caches. */
#pragma once

#include <stddef.h>

/* Bytes of small blocks that are known to be free: those in lists that heaps have parked, in the bins of the calling thread,
 * and freed by other threads but not drained. Bins and staged frees of other threads cannot be read, since their hit paths
 * change them without a mark; nor can a heap whose thread is on a slow path just now. Looks at each of these blocks: in
 * steps of one class, between which a heap's thread may use the heap. Not while the caller is in a heap or holds a lock. */
size_t cached_bytes(void);

/* ended.h: malloc in a thread that has ended: in a destructor that runs behind the allocator's own. */
#pragma once

#include "cache/tcache.h"

/* Takes one block from a heap that is an orphan before and after; the rest of its list stays there, parked. The thread's bins
 * stay empty, and of the heap's caches only the list of the class is touched. NULL: the system has no memory. */
HAK_COLD void *ended_refill(uint32_t class_index, struct tcache *tcache);

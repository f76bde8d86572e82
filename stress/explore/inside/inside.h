/* inside.h: what the explorer and the fuzz targets need from inside the allocator, beyond malloc and hakmem/validate.h.
 * The allocator is linked in, built with HAKMEM_FIBERS. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the arena the allocator's system, starts the process's heap with a level of checks (0: none, 1: the laws at
 * each list that changes hands), and prepares the page map for the whole arena. False: there is no room. */
bool inside_begin(int failfast_level);

/* Ends the calling coroutine's thread, as the allocator sees it. Its variables must be made new before the next thread
 * begins there. */
void inside_thread_end(void);

/* The heap held by the calling coroutine's thread; NULL: none. */
const void *inside_heap(void);

/* Runs the allocator's fork handler in the child, whose only thread is the calling coroutine's. */
void inside_fork_child(void);

/* What the heap knows of an address, at any moment: the start of the block there, or NULL if it knows of none. */
const void *inside_lookup(const void *address);

/* The heap's name for an address: a field of a descriptor, of a heap, or of the page map. False: it has none. */
bool inside_name(const volatile void *address, char *name, size_t name_bytes);

#ifdef __cplusplus
}
#endif

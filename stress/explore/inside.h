/* inside.h: what the explorer and the fuzz targets need of the allocator's inside, beyond malloc and hakmem/validate.h.
 * The allocator is linked in, built with HAKMEM_FIBERS. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the arena the system, starts the process's heap with a level of checks (0: none, 1: the laws at each list that
 * changes hands), and has the page map ready for the whole arena. False: there is no room. */
bool inside_begin(int failfast_level);

/* The calling coroutine's thread ends, as the allocator sees it. Its variables are to be made new before the next
 * thread begins there. */
void inside_thread_end(void);

/* The heap that the calling coroutine's thread holds; NULL: none. */
const void *inside_heap(void);

/* The handler in the child after fork, of which the calling coroutine's thread is the only one. */
void inside_fork_child(void);

/* What the heap says of an address, at any moment: the start of the block there, NULL if it knows of none. */
const void *inside_lookup(const void *address);

/* The heap's own name for an address: a field of a descriptor, of a heap, of the page map. False: it has none. */
bool inside_name(const volatile void *address, char *name, size_t name_bytes);

#ifdef __cplusplus
}
#endif

/* inside_fork.h: the parts of the heap that a forked child must have, by the contract of cache/fork.h and not by what
 * its handler has done. A heap that no thread was changing (the child's own is one) is held or an orphan; the others
 * are never touched again. The allocator is linked in, as for inside.h. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Call it in the child, before the handler: notes which heaps were being changed. False: there are more heaps than it
 * can note.
 */
bool inside_fork_look(void);

/* The number of those heaps. */
uint32_t inside_fork_left_count(void);

/* Checks law 4 in the child, when threads hold these heaps (NULL: a thread holds none). A heap that was being changed
 * belongs to no thread and is no orphan; every other heap is one thread's or an orphan. False: the text says which heap
 * breaks the law. */
bool inside_fork_heaps_hold(const void *const *held, uint32_t held_count, char *text, size_t text_bytes);

/* What is in use. Small blocks count only in slabs of heaps that were not being changed. */
struct inside_fork_use {
    size_t small_bytes, run_bytes, huge_count;
};
struct inside_fork_use inside_fork_in_use(void);

#ifdef __cplusplus
}
#endif

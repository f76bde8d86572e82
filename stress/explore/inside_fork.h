/* inside_fork.h: what of the heap a forked child is to have, by the contract of cache/fork.h and not by what its
 * handler has done: a heap that no thread was changing, of which the child's is one, is held or an orphan; the others
 * are left alone for good. The allocator is linked in, as for inside.h. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In the child, before the handler: notes which heaps were being changed. False: there are more heaps than are noted.
 */
bool inside_fork_look(void);

/* How many those are. */
uint32_t inside_fork_left_count(void);

/* Law 4 in the child, when threads hold these heaps (NULL: a thread holds none): a heap that was being changed is no
 * thread's and no orphan, each other heap is one thread's or an orphan. False: the text says which heap is not so. */
bool inside_fork_heaps_hold(const void *const *held, uint32_t held_count, char *text, size_t text_bytes);

/* What is in use. Of small blocks: those in slabs of heaps that were not being changed. */
struct inside_fork_use {
    size_t small_bytes, run_bytes, huge_count;
};
struct inside_fork_use inside_fork_in_use(void);

#ifdef __cplusplus
}
#endif

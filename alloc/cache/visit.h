/* visit.h: taking back what other threads cache, while they sleep or run.
 *
 * A heap's own thread changes it on slow paths only, and marks that by tcache_busy_begin. A visitor claims the same mark
 * with a compare-and-swap. While it has it, the visitor may do all that the thread may: give back parked lists and empty
 * slabs, drain remote frees, trim. The thread, should it come to a slow path meanwhile, waits. If the thread is on a slow
 * path already, the visitor passes on: such a thread drains and shrinks by itself.
 *
 * A visitor cannot take the bins and the staged remote frees, since the hit paths change them without a mark. What a
 * sleeping thread keeps is therefore one list of each class, and what it had staged.
 *
 * A visitor holds LOCK_VISIT. A thread that gives up its heap takes that lock too, so the thread's cache, in its
 * thread-local storage, stays valid during a visit. */
#pragma once

#include "cache/tcache.h"

/* A step of a visit: takes the heap from the thread that holds it, and gives it back. NULL: no thread holds it, or the
 * thread is on a slow path, or is the calling one. */
struct tcache *visit_begin(struct heap *heap);
/* Returns whether the heap's thread has waited for the end of the step. Then the visitor must not begin another one at once:
 * it would have the heap again before the thread wakes. */
bool visit_end(struct tcache *holder);

/* Visits the heaps of all threads except the calling one: gives back all that can be reached. Returns how many bytes
 * trims gave back to the system; pages that became free are the pool's, to be purged. Any thread, in the allocator's
 * slow paths or outside of it; not while it is in a heap or holds a lock. */
size_t visit_all(void);

/* The same without trims: what becomes free are whole pages. */
void visit_all_caches(void);

struct visit_found {
    uint32_t given_back; /* heaps visited */
    uint32_t active; /* heaps whose threads were on a slow path lately */
};

/* As visit_all, for heaps whose threads were on no slow path in the last VISIT_ROUNDS rounds of the tick: once after each
 * time that they were, and when others have freed blocks for them. */
struct visit_found visit_idle(void);

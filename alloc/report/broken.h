/* broken.h: the end of a process whose lists a program has broken, in every build.
 *
 * Free blocks hold the links of the lists they are in, so a block that is freed twice, or written to after free, can
 * make a list cyclic, or put one block into two lists. Every slow path that follows links counts its steps against what
 * can be there, and ends the process here when it passes that bound. The debug-validation build finds most of this
 * earlier (slab/validate.c). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/policy.h"

/* X(name, text): what has passed its bound, for the line on standard error and for the crash record. */
#define BROKEN_BOUNDS(X)                                                                                   \
    X(returned, "a slab got back more blocks than it had given out, from a thread's list or parked lists") \
    X(bin, "the list that a thread allocates from does not end")                                           \
    X(magazines, "the chain of parked lists does not end")                                                 \
    X(batches, "the list of blocks that other threads freed does not end")                                 \
    X(pending, "a slab is queued for its owner, and no thread has freed blocks of it")                     \
    X(free, "a slab's free list does not end, or leaves the slab")                                         \
    X(slabs, "the list of slabs with free blocks does not end")                                            \
    X(hollow, "a slab has no page left of those that were trimmed")

enum broken_bound {
#define X(name, text) BROKEN_##name,
    BROKEN_BOUNDS(X)
#undef X
};

/* Writes one line to standard error and aborts; the crash handler, where it is installed, then writes its record. The
 * address is that of a block, else of a slab's descriptor. Async-signal-safe; allocates nothing, takes no lock. */
HAK_NORETURN HAK_COLD void broken(enum broken_bound bound, uint32_t class_index, const void *address);

/* What broken() was called with in the calling thread, the first in which it was called. */
struct broken_facts {
    const char *text; /* NULL: it was not called */
    const void *address;
    uint32_t class_index;
};

/* For the crash record. The next call finds nothing: a program that survives may crash again for another reason. */
struct broken_facts broken_take(void);

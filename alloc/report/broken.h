/* broken.h: ends a process whose free lists the program has broken. In every build.
 *
 * Free blocks hold the links of their lists. So a block that is freed twice, or written to after free, can make a list
 * cyclic or put one block into two lists. Every slow path that follows links counts its steps, and ends the process
 * here when it has followed more links than the list can hold. The debug-validation build finds most such errors
 * earlier (slab/validate.c). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/policy.h"

/* X(name, text): the text names the list that passed its bound, in the line on standard error and in the crash
 * record. */
#define BROKEN_BOUNDS(X)                                                                                   \
    X(returned, "a slab got back more blocks than it had given out, from a thread's list or parked lists") \
    X(bin, "the list that a thread allocates from does not end")                                           \
    X(magazines, "the chain of parked lists does not end")                                                 \
    X(batches, "the list of blocks that other threads freed does not end")                                 \
    X(pending, "a slab is queued for its owner, and no thread has freed blocks of it")                     \
    X(free, "a slab's free list does not end, or leaves the slab, or a block came back twice")             \
    X(slabs, "the list of slabs with free blocks does not end")                                            \
    X(hollow, "a slab has no page left of those that were trimmed")

enum broken_bound {
#define X(name, text) BROKEN_##name,
    BROKEN_BOUNDS(X)
#undef X
};

/* Writes one line to standard error and aborts; then the crash handler, where installed, writes its record. address is
 * that of a block or of a slab's descriptor. Async-signal-safe; allocates nothing, takes no lock. */
HAK_NORETURN HAK_COLD void broken(enum broken_bound bound, uint32_t class_index, const void *address);

/* The arguments with which the calling thread called broken(). Only the first thread to call it has them. */
struct broken_facts {
    const char *text; /* NULL: this thread did not call broken(), or was not the first */
    const void *address;
    uint32_t class_index;
};

/* For the crash record. Takes the facts, so that a second call finds none: a program that survives may crash again for
 * another reason. */
struct broken_facts broken_take(void);

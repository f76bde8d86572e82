/* owner.h: who owns slabs. An owner is the slab-level part of a heap: its id stands in the page
 * map for each of its pages, its lists hold the slabs that have something to give, and other
 * threads queue slabs on it that received remote frees.
 *
 * A live owner belongs to one thread. When the thread ends, the owner goes whole, with its id and
 * its slabs, to the orphans, and the next thread adopts it, so that the successor finds its
 * predecessor's blocks local. Owners are never freed.
 *
 * Law 4: an owner's bit in the orphan map is set, or exactly one thread holds it. Taking an orphan
 * is clearing its bit; the thread that cleared it holds it. */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/sizeclass.h"
#include "superslab/superslab.h"

struct owner {
    uint32_t tag; /* id << TAG_OWNER_SHIFT; ids count from 1 */
    uint32_t id;

    /* Slabs with blocks on their free list or fresh memory to carve; circular, first->prev is the
     * last. At most one slab of a list has no block in use, and that one is the last. */
    struct slab *slabs[CLASS_COUNT];

    /* Of blocks that are out of its slabs: law 1 summed. And the most there was since the last shrink. */
    size_t used_bytes, used_bytes_peak;

    /* When slab_trim_shrunk trimmed last, whether some of that was carved again since, and how many times
     * in a row that had been so. */
    uint64_t trimmed_ms;
    bool trimmed_is_wanted;
    uint8_t trims_wanted;

    /* A slab without a block in use stays, one a class. Not in an orphan that nobody may come for. */
    bool keeps_empty;

    /* Slabs that received remote frees since the owner last looked; pushed by any thread, taken
     * whole by the owner. On a line of its own. */
    alignas(64) _Atomic(struct slab *) pending;

    struct counters counters; /* VALIDATE */
};

/* Little is left of what was in use. Then caches hold much of the rest, and it lies thinly in its slabs.
 * Asked when blocks come back and not by time, since a process that has freed its memory may sleep. */
static inline bool owner_has_shrunk(const struct owner *owner)
{
    return owner->used_bytes_peak >= SHRINK_BYTES_MIN && owner->used_bytes < owner->used_bytes_peak >> SHRINK_LOG2;
}

/* Gives a zeroed owner its id and enters it; the caller holds it. False when HEAPS_MAX are. */
bool owner_register(struct owner *owner);

/* Takes any orphan; NULL when there is none. Lock-free. */
struct owner *owner_adopt(void);

/* Takes this owner if it is an orphan. */
bool owner_adopt_this(struct owner *owner);

/* Makes an owner that the caller holds an orphan. False if slabs are pending now, in which case the
 * caller holds it again and is to drain it: nobody else would. */
bool owner_abandon(struct owner *owner);

/* The owner with this id, NULL if there is none; ids reach from 1 to owner_count(). */
struct owner *owner_with_id(uint32_t id);
uint32_t owner_count(void);
uint32_t owner_orphan_count(void);
bool owner_is_orphan(const struct owner *owner);

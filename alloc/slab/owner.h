/* owner.h: the owners of slabs. An owner is the slab-level part of a heap. The page map has its id for each of its
 * pages. Its lists hold the slabs that can give blocks. Other threads queue those of its slabs that received remote
 * frees.
 *
 * A live owner belongs to one thread. When the thread ends, the owner becomes an orphan, with its id and all its slabs,
 * and the next thread adopts it. So the blocks of the old thread are local to the new one. Owners are never freed.
 *
 * Law 4: an owner's bit in the orphan map is set, or exactly one thread holds the owner. A thread takes an orphan by
 * clearing its bit. */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/sizeclass.h"
#include "superslab/superslab.h"

/* X(name): what an owner counts in every build, on slow paths. Only who holds the owner adds. */
#define OWNER_EVENTS(X) X(refills) X(parks) X(overflows) X(drains) X(slabs_made) X(slabs_released) X(trims)

/* What an owner counts of a class, in blocks. room + the blocks in use = limit, so that one test of room tells whether more are
 * in use. cache/credits.h has the limits. A class with limit 0 keeps no empty slab. */
struct class_blocks {
    uint32_t room, limit;
};

enum owner_event {
#define X(name) OWNER_EVENT_##name,
    OWNER_EVENTS(X)
#undef X
        OWNER_EVENT_COUNT
};

struct owner {
    uint32_t tag; /* id << TAG_OWNER_SHIFT; ids count from 1 */
    uint32_t id;

    /* For each class the slabs that have free blocks or memory to carve, as a circular list: first->prev is the last.
     * At most one slab of a list has no block in use, and then it is the last. Of an arena, slabs with a free block come
     * before the others. */
    struct slab *slabs[CLASS_COUNT];

    /* Bytes of all blocks in use (law 1), and the peak of that since the last shrink. Only who holds the owner writes
     * used_bytes, so that a plain store suffices; other threads read it for figures: relaxed. */
    _Atomic(size_t) used_bytes;
    size_t used_bytes_peak;
    struct class_blocks blocks[CLASS_COUNT];
    size_t bought_bytes; /* of the purse (superslab/purse.h), for what the classes have paid */

    /* Bytes of all blocks that are carved. Those that are not in use are free in slabs. */
    _Atomic(size_t) carved_bytes; /* as used_bytes */
    size_t idle_bytes_kept; /* how many bytes lay there after the last trim */

    /* When slab_trim_shrunk trimmed last, whether the heap has wanted trimmed memory again since, and how many times in a
     * row it had. Trimmed slabs may end: trimmed_pages_released counts their pages since then, less those of new slabs. */
    uint64_t trimmed_ms;
    uint64_t put_off_ms; /* when a trim may be made that came too early; 0: there is none */
    size_t put_off_bytes; /* bytes in use when it was put off, or looked at last */
    bool trimmed_is_wanted;
    uint8_t trims_wanted;
    uint32_t trimmed_pages_released;

    /* A trim that is under way: the class that it has come to, 0: none; and the slab that it looks at next, NULL: no
     * other of that class; and the blocks that the last step walked beyond its part, which the next steps walk less. */
    uint8_t trim_class;
    uint32_t trim_ahead;
    struct slab *trim_at;

    _Atomic(uint64_t) events[OWNER_EVENT_COUNT]; /* relaxed */

    /* Whether one slab of each class that has paid stays although no block of it is in use. False in an orphan that may never
     * be adopted. */
    bool keeps_empty;

    bool has_limit; /* a heap of the program with a limit: what it has carved counts */
    bool is_draining; /* a slab was taken off its queue and is still to be drained, as a forked child must know */
    bool owes_drain; /* the last drain stopped with slabs left on the queue */

    /* The queue of slabs that received remote frees which the owner has not drained. Any thread pushes; the owner takes one
     * slab after another. On a cache line apart from the owner's members. */
    alignas(64) _Atomic(struct slab *) pending;
};

static inline size_t owner_used_bytes(const struct owner *owner)
{
    return atomic_load_explicit(&owner->used_bytes, memory_order_relaxed);
}

static inline uint32_t owner_used_blocks(const struct owner *owner, uint32_t class_index)
{
    return owner->blocks[class_index].limit - owner->blocks[class_index].room;
}

static inline void owner_limit_set(struct owner *owner, uint32_t class_index, uint32_t limit)
{
    owner->blocks[class_index].room += limit - owner->blocks[class_index].limit;
    owner->blocks[class_index].limit = limit;
}

static inline void owner_used_bytes_set(struct owner *owner, size_t bytes)
{
    atomic_store_explicit(&owner->used_bytes, bytes, memory_order_relaxed);
}

static inline void owner_count_event(struct owner *owner, enum owner_event event)
{
    uint64_t count = atomic_load_explicit(&owner->events[event], memory_order_relaxed);
    atomic_store_explicit(&owner->events[event], count + 1, memory_order_relaxed);
}

static inline void owner_carved_bytes_add(struct owner *owner, size_t bytes) /* negated, to subtract */
{
    size_t carved_bytes = atomic_load_explicit(&owner->carved_bytes, memory_order_relaxed);
    atomic_store_explicit(&owner->carved_bytes, carved_bytes + bytes, memory_order_relaxed);
}

/* Bytes of blocks that are free in slabs. Other threads may get a figure that is out of date, at least 0. */
static inline size_t owner_idle_bytes(const struct owner *owner)
{
    size_t carved_bytes = atomic_load_explicit(&owner->carved_bytes, memory_order_relaxed);
    size_t used_bytes = owner_used_bytes(owner);
    return carved_bytes > used_bytes ? carved_bytes - used_bytes : 0;
}

/* Whether most of the peak has been freed. Then caches hold much of the rest, and slabs are nearly empty. This is asked
 * when blocks come back and not at a certain time, since a process that has freed its memory may sleep. */
static inline bool owner_has_shrunk(const struct owner *owner)
{
    return owner->used_bytes_peak >= SHRINK_BYTES_MIN &&
           owner_used_bytes(owner) < owner->used_bytes_peak >> SHRINK_LOG2;
}

/* Gives a zeroed owner its id and enters it in the table; the caller holds it. False when there are HEAPS_MAX
 * owners. */
bool owner_register(struct owner *owner);

/* Takes an orphan, a preferred one if there is one; NULL when there is none. Lock-free. owner_prefer is for the thread that
 * holds the owner. */
struct owner *owner_adopt(void);
void owner_prefer(const struct owner *owner, bool yes);

/* Takes this owner if it is an orphan. False if not, or if another thread was faster. */
bool owner_adopt_this(struct owner *owner);

/* Makes an owner that the caller holds an orphan. False if slabs are pending: then the caller holds it again and must
 * drain it, since no other thread would. */
bool owner_abandon(struct owner *owner);

/* In the child after fork: makes the owner of a thread that the child lacks an orphan, pending slabs or not. */
void owner_leave(struct owner *owner);

/* The owner with this id, NULL if there is none. Ids run from 1 to owner_count(). */
struct owner *owner_with_id(uint32_t id);
uint32_t owner_count(void);

/* For walks over all of them: the owner behind this one; NULL: the first. Returns NULL behind the last. */
struct owner *owner_next(const struct owner *before);
uint32_t owner_orphan_count(void);
bool owner_is_orphan(const struct owner *owner);

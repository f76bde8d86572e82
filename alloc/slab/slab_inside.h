/* slab_inside.h: the counts of a slab, and its place in its owner's list. For slab/slab.c and slab/take.c. */
#pragma once

#include "slab/slab.h"

/* Only the owner writes used_count; other threads read it for figures. So both accesses are relaxed. */
static inline uint32_t used_get(const struct slab *slab)
{
    return atomic_load_explicit(&slab->used_count, memory_order_relaxed);
}

static inline void used_set(struct slab *slab, uint32_t used_count)
{
    atomic_store_explicit(&slab->used_count, (uint16_t)used_count, memory_order_relaxed);
}

/* count blocks leave the slab. */
static inline void used_add(struct slab *slab, uint32_t count)
{
    struct owner *owner = slab->owner;
    used_set(slab, used_get(slab) + count);
    size_t used_bytes = owner_used_bytes(owner) + (size_t)count * sizeclass_bytes(slab->class_index);
    owner_used_bytes_set(owner, used_bytes);
    if (used_bytes > owner->used_bytes_peak) owner->used_bytes_peak = used_bytes;
    owner->blocks[slab->class_index].room -= count;
}

static inline void link_before(struct slab *slab, struct slab *next)
{
    slab->next = next;
    slab->prev = next->prev;
    slab->prev->next = slab->next->prev = slab;
    slab->full = false;
}

static inline void list_insert(struct slab *slab, bool last)
{
    struct slab **first = &slab->owner->slabs[slab->class_index];
    if (*first == NULL) {
        slab->next = slab->prev = *first = slab;
        slab->full = false;
    } else { /* insert it between the last and the first; then perhaps make it the first */
        link_before(slab, *first);
        if (!last) *first = slab;
    }
}

static inline void list_remove(struct slab *slab)
{
    struct slab **first = &slab->owner->slabs[slab->class_index];
    if (HAK_UNLIKELY(slab->owner->trim_at == slab)) slab->owner->trim_at = slab->next != *first ? slab->next : NULL;
    if (slab->next == slab) {
        *first = NULL;
    } else {
        slab->prev->next = slab->next;
        slab->next->prev = slab->prev;
        if (*first == slab) *first = slab->next;
    }
    slab->full = true;
}

/* trim.h: purges the system's pages inside a slab that no block in use touches.
 *
 * A slab with a single block in use keeps its 64 KiB of address space, but most of the system's pages in it need no
 * memory. The free blocks on purged pages are not free any more. The slab is then `hollow`, and those blocks count as not
 * carved. When the slab has nothing else to give, they are carved again, one system page at a time (hollow.h). Each page's
 * descriptor has a bit for each system page in it.
 *
 * In a hollow slab the blocks that are not carved are exactly those on pages whose bit is set, so law 1 holds unchanged.
 * When a slab is trimmed that was not wholly carved, the rest of it becomes hollow too, and its blocks on pages that
 * stay become free. Only the thread that holds the owner, or visits it, may call these functions. */
#pragma once

#include "slab/slab.h"

enum {
    TRIM_STEP_SLABS = 64, /* a step of a trim looks at this many slabs at most */
    TRIM_STEP_CALLS = 3, /* it makes this many calls to the system at most */
    TRIM_STEP_BLOCKS =
        256, /* it looks at no further slab once it has unlinked this many blocks that others freed; a slab counts as 8 or 40 more (slab/trim.c) */
    TRIM_WAIT_LOG2_MAX = 6, /* a heap that wants trimmed memory back each time waits up to 64 delays between trims */
};

/* Trims every slab in the owner's lists to which blocks came back since the last trim. Returns how many bytes went back to
 * the system. Its time grows with the heap, so malloc and free do not call it. */
size_t slab_trim_all(struct owner *owner);

/* The same in steps of bounded time. slab_trim_begin starts a trim, and the caller sees to it that slab_trim_step is called
 * while slab_trim_is_due. A step looks at TRIM_STEP_SLABS slabs, makes TRIM_STEP_CALLS calls to the system, or walks
 * TRIM_STEP_BLOCKS blocks, at most, but for the rest of the last slab. */
void slab_trim_begin(struct owner *owner);
size_t slab_trim_step(struct owner *owner);

/* Continues a trim until this much has gone back to the system, or until it has looked at all slabs. It ends with a slab, so at
 * most one slab's pages more go back. */
size_t slab_trim_some(struct owner *owner, size_t enough_bytes);

static inline bool slab_trim_is_due(const struct owner *owner)
{
    return owner->trim_class != 0;
}

/* Begins a trim of an owner that owner_has_shrunk. If the heap has carved trimmed memory again since the last
 * trim, it waits a delay (purge_delay_ms) after that trim, since a loop with swings would otherwise make system calls
 * in each of them. The wait doubles each time this happens again, up to 64 delays, and is forgotten when nothing was
 * wanted for WINDOW_DELAYS. A trim that comes earlier is put off. With a delay of 0 it always trims. */
void slab_trim_shrunk(struct owner *owner);

/* Whether a trim that was put off may be made now: its wait is over, most of the heap is idle still, and the heap does not grow.
 * If only the wait is over, it is put off for another delay. */
bool slab_trim_put_off(struct owner *owner, uint64_t now_ms);

/* For an owner that nobody may hold for long: trims it if it has shrunk, if a trim was put off, or if one is under way. All at once,
 * whatever was wanted again, since nobody may come for later steps. */
void slab_trim_left(struct owner *owner);

/* Called when a slab is made after trimmed slabs were released (owner->trimmed_pages_released). */
void slab_trim_may_be_wanted(struct owner *owner, uint32_t pages);

/* trim.h: takes the memory of the system's pages inside a slab that no block in use touches.
 *
 * A slab with one block in use keeps its 64 KiB; its other pages need not keep their memory. The free
 * blocks that such pages hold leave the free list, since their links go with the memory: the slab is
 * `hollow`, and those blocks count as not carved. They are carved again when the slab has nothing else to
 * give, page by page. Each page's descriptor has a bit for each of the system's pages in it.
 *
 * Only a slab that is carved to its end, or hollow already, is trimmed: so what is not carved is exactly
 * what the bits cover, and law 1 stands as it is. By the thread that holds the owner. */
#pragma once

#include "slab/slab.h"

/* Trims one slab. Returns bytes that went back to the system. */
size_t slab_trim(struct slab *slab);

/* Trims every slab of the owner that has something to give. Returns bytes. */
size_t slab_trim_all(struct owner *owner);

/* As that, for an owner_has_shrunk; but not where what was trimmed less than a delay ago has been wanted
 * again since: a loop with swings would make system calls at each of them. Each time that turns out so, the
 * wait doubles, up to 16 delays. The delay: purge_delay_ms; 0: always trims. */
void slab_trim_shrunk(struct owner *owner);

/* Carves from a hollow slab: the blocks of one of the system's pages, or one block where blocks are
 * longer. *count: how many; at least one. The list ends in NULL. */
struct block *slab_carve_hollow(struct slab *slab, uint32_t *count);

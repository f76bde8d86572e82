/* credits.h: how many frees a heap's bins take (struct parking): where a credit begins, grows and falls. What a heap has
 * learned stays with it when another thread takes it over. A heap that idles forgets it: a visit resets the credits, and
 * so does the tick that flushes a cold orphan. */
#pragma once

#include <stdint.h>

#include "cache/tcache.h"

/* Fills the credits of a thread that has just taken a heap: the heap's own, or those of a new heap. */
void tcache_fill_credits(struct tcache *tcache);

/* The credits of new heaps from now on, and of the calling thread's own where it has learned nothing: credits[class_index],
 * brought within what a class may have. */
void credits_at_first_set(const uint16_t *credits);

/* The highest credit that a heap has now; without heaps, that of a new one. Other threads may be changing it. */
uint32_t credits_highest(uint32_t class_index);

/* The credit to begin with in a next run: the most that a heap has learned in this one. Of what it began with and did not
 * want again, half, but at least sizeclass_credit. Other threads may be changing it. */
uint32_t credits_learned(uint32_t class_index);

/* A parked list is wanted again. */
HAK_NOINLINE void credit_grow(struct heap *heap, uint32_t class_index);

/* The bins take no more frees than at first, where they had grown. */
void heap_credits_decay(struct heap *heap);

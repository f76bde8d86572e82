/* pops.h: makes the small allocation that is to be sampled reach a slow path, though the hit paths count nothing.
 *
 * Each block that malloc pops from a bin has entered the bin before: a free pushed it, or a refill brought it in a list.
 * The slow paths can count entries: frees by the credit, lists by a walk. So what is sampled is chosen when it enters:
 * for each class and heap `left` is the number of entries until the next chosen one. It is geometrically distributed,
 * which for independent classes is the same as one Poisson process over all bytes. The malloc that pops a chosen entry
 * is sampled, with the same chance for each call site.
 *
 *   Law: the bin's credit is below `left`, so the free that pushes the chosen entry takes the slow path.
 *
 * There the bin's list, with the chosen block first, is set aside, and the bin is empty. A bin is a stack, so the next
 * malloc that finds it empty is the one that would have popped the chosen block. It takes the sample and the list that was
 * set aside. A list from a slab or from other threads is cut before its chosen block likewise; what lies behind that is
 * counted when it comes back. The lists set aside belong to the bin's list: where that is parked or goes back to its
 * slabs, so do they, with the choices. (If only the rest went back and was chosen from again when it returns, blocks would
 * be sampled too often.) When the thread ends or the caches are emptied, all choices are dropped, and what comes back
 * later is counted afresh.
 *
 * So a sample costs two slow paths, and each other slow path a subtraction. Only the thread that holds the heap calls
 * these; pops_watch also the child of fork, for threads that it does not have. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/tcache.h"

/* Before the ordinary refill: a block if the malloc is sampled. NULL: refill as usual, then call pops_refilled with the
 * block, which may return another one. */
void *pops_refill(struct tcache *tcache, uint32_t class_index, size_t size_bytes);
void *pops_refilled(struct tcache *tcache, void *block, uint32_t class_index, size_t size_bytes);

/* Before the ordinary park: true if the block is freed, since it is a chosen entry. False: park as usual, then call
 * pops_parked with what *had_list is. */
bool pops_park(struct tcache *tcache, void *pointer, uint32_t class_index, bool *had_list);
void pops_parked(struct tcache *tcache, uint32_t class_index, bool had_list);

/* A thread has just taken a heap, or its bins are about to be emptied. See base/hooks.h. */
void pops_watch(void *tcache, bool begins);

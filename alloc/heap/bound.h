/* bound.h: what happens at the limit of superslab/limit.h.
 *
 * An allocation that the limit or the system refuses first takes back what is cached anywhere, then asks the program's
 * callback to free something, then fails with ENOMEM. Failure is cheap: nothing is taken back for a size that cannot be had
 * in any case, nor again before the threads may have cached something worth the work. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"

/* Makes room for an allocation that could not get its pages. True: there may be some now, so try again. */
bool bound_make_room(size_t size_bytes);

struct tcache;

/* tcache_refill found no page: makes room, asks the program, and tries again. NULL with ENOMEM: in vain. */
HAK_COLD void *bound_refill(struct tcache *tcache, uint32_t class_index);

/* Asks the callback to free memory, if there is one and the thread is not inside it. True: try again. */
bool bound_ask(size_t wanted_bytes);

/* For mlockall in entry/malloc.c: mlockall, after the heap has given back what it does not use. If later mappings are to be locked
 * too, it takes only what it needs from now on. Returns 0 or an errno value. */
__attribute__((visibility("default"))) int hak_private_lock_all(int flags);

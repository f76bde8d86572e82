/* tight.h: whether the process is short of address space (RLIMIT_AS). For the pool, before it makes a superslab. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "superslab/superslab.h"

/* Whether address space is short, and a new superslab for this run and its like would waste it, while blocks of its length would
 * not be too many mappings. superslab_count: how many there are; each counts whole against RLIMIT_AS. need->block_bytes is not
 * 0. The limit is looked for when a superslab would be made, and once in TIGHT_READ_MS while none is. If it was far, it is looked
 * for again once there are a 64th more superslabs. Any thread. */
bool tight_is(const struct page_need *need, size_t superslab_count);

/* sweep.h: checks the frames of blocks that nobody frees: at the end of the process, and when a heap of the program's own
 * gives back all of its blocks. Not a part of the release library. */
#pragma once

#include <stdbool.h>

#include "debug/frame_layout.h"

struct slab;

/* Calls visit with each place of the heap that may be a block's, live or not. For a process with one thread. */
typedef void sweep_visit_fn(char *start, void *context);
void sweep_each(sweep_visit_fn *visit, void *context);

/* The live block of the program's that starts at such a place. False: there is none, or both ends of its frame are
 * overwritten. */
bool sweep_find(char *start, struct framed *framed);

/* Checks every live block of the process; then reports leaks, if they were asked for. Does nothing while the process has
 * other threads, or if that is not known: one of them may be writing a frame. The same in a forked child whose parent had
 * others, and in a handler of a signal that came within malloc or free. */
void sweep_finish(void);

/* Checks the live blocks of a slab, or a run. The program has no call on them under way. For base/hooks.h. */
void sweep_discarded(struct slab *slab);

/* The same for one block of the heap. */
void sweep_block(char *start);

/* In the child of a fork. */
void sweep_after_fork(void);

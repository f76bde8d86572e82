/* held.h: a heap is used by the one kernel thread that holds it. Not a part of the release library. */
#pragma once

struct tcache;

/* On slow paths: ends the process where another kernel thread uses this thread cache, as one does that a raw clone
 * made with its creator's thread-local storage. */
void held_check(struct tcache *tcache);

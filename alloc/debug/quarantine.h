/* quarantine.h: at level 2 and above, a freed block is filled with FRAME_JUNK and waits for a while before the heap
 * gets it back; when it leaves, its fill and its frame must be as they were. Each thread has its own: no
 * lock, so that no order is added between threads that the heap does not give. It ends with the
 * thread, and hak_purge empties the caller's.
 *
 * Not a part of the release library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "debug/frame_layout.h"

enum {
    QUARANTINE_BYTES_MAX = 256 * 1024, /* of the heap's blocks, in each thread; */
    QUARANTINE_BYTES_MIN = 16 * 1024,  /* or so much in one that has freed little, or has little in use: */
    QUARANTINE_SHARE_LOG2 = 2,         /* a quarter of that, since short threads, and programs at rest, would */
                                       /* keep much memory from the system */
    QUARANTINE_BLOCKS_MAX = 1024,
    QUARANTINE_MEAN_BYTES = QUARANTINE_BYTES_MAX / QUARANTINE_BLOCKS_MAX, /* fewer bytes, fewer blocks */
    QUARANTINE_BLOCK_BYTES_MAX = 64 * 1024, /* larger ones do not wait, and are not filled */
};

/* Takes a block whose frame says freed; gives the oldest ones to the heap where there are too many. */
void quarantine_put(const struct framed *framed);

/* Gives all that the calling thread's quarantine holds to the heap. True: there was something. */
bool quarantine_empty(void);

/* On slow paths: at level 3, looks at every block of the calling thread's. */
void quarantine_sweep(void);

/* The calling thread ends: what waits goes back, and its ring is for another. */
void quarantine_thread_ends(void);

/* In the child after fork: the rings of threads that do not exist there. */
void quarantine_after_fork(void);

/* Whether a block that starts here waits in any thread's: by a search. A hint; for reports. */
bool quarantine_holds(const char *start);

/* quarantine.h: at level 2 and above a freed block is filled with FRAME_JUNK and waits for a while before the heap gets
 * it back. When it leaves, its junk and its frame must be unchanged. Each thread has a quarantine of its own, without a
 * lock, so that it does not order threads which the heap leaves unordered. When the thread ends, the blocks wait on until
 * a later thread that has taken its ring drives them out. hak_purge empties the calling thread's and those of ended
 * threads.
 *
 * Not a part of the release library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "debug/frame_layout.h"

enum {
    /* Bytes of the heap's blocks that may wait in one thread: a quarter of what the thread has freed, or of what its
     * heap has in use if that is less, between MIN and MAX. So short threads and programs at rest keep little memory
     * from the system. */
    QUARANTINE_BYTES_MAX = 256 * 1024,
    QUARANTINE_BYTES_MIN = 16 * 1024,
    QUARANTINE_SHARE_LOG2 = 2,

    QUARANTINE_BLOCKS_MAX = 1024,
    QUARANTINE_MEAN_BYTES = QUARANTINE_BYTES_MAX / QUARANTINE_BLOCKS_MAX, /* a smaller limit allows fewer blocks */
    QUARANTINE_BLOCK_BYTES_MAX = 64 * 1024, /* larger blocks are sealed instead (debug/fault/sealed.h) */
};

/* Takes a block whose frame says FREED. If too many wait, gives the oldest ones to the heap. */
void quarantine_put(const struct framed *framed);

/* Gives all blocks of the calling thread's quarantine, and of ended threads', to the heap. True if there were any. */
bool quarantine_empty(void);

/* Called on slow paths: at level 3, checks every block in the calling thread's quarantine. */
void quarantine_sweep(void);

/* The calling thread ends: checks every block in its quarantine, and leaves the ring to another thread, with at most
 * QUARANTINE_BYTES_MIN bytes in it. */
void quarantine_thread_ends(void);

/* The process ends: checks every block in the quarantines of all threads. Those of a thread that still runs leave its
 * quarantine for good, and the thread's later frees go to the heap at once. */
void quarantine_finish(void);

/* In the child after fork: frees the rings of threads that do not exist there. */
void quarantine_after_fork(void);

/* Whether a block that starts here waits in any thread's quarantine. Searches them all; a hint, for reports. */
bool quarantine_holds(const char *start);

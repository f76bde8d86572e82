/* sealed.h: the quarantine of large blocks, from level 2 on. A freed block above QUARANTINE_BLOCK_BYTES_MAX waits here, and
 * every access to it faults but for the parts of system pages at its two ends, which hold its frame. Those are filled with
 * FRAME_JUNK and checked when the block leaves. The memory of the others goes back to the system. One ring for the
 * process, without a lock. debug/fault/fault.h reports the faults.
 *
 * Not a part of the release library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "debug/frame_layout.h"

enum {
    SEALED_BYTES_MAX = 64 * 1024 * 1024, /* of address space; a larger block does not wait */
    SEALED_BLOCKS_MAX = 64,
};

/* From now on blocks wait, unless there is a limit on memory or on address space. Before main. */
void sealed_start(void);

/* Takes a block whose frame says FREED. If too many wait, gives the oldest ones to the heap. False: it cannot wait, and the
 * caller gives it to the heap. */
bool sealed_put(const struct framed *framed);

/* Gives all blocks to the heap. True if there were any. */
bool sealed_empty(void);

/* The process ends: checks all blocks. */
void sealed_finish(void);

/* In the child of a fork. */
void sealed_after_fork(void);

/* Whether a block of the heap waits that starts here. A hint, for reports. */
bool sealed_holds(const char *start);

/* The block that waits at an address, for a handler of signals: async-signal-safe. sealed_open lets the program use it
 * again; sealed_is_open says whether that has been done for the block at an address. */
bool sealed_find(const void *address, struct framed *framed);
void sealed_open(const void *address);
bool sealed_is_open(const void *address);

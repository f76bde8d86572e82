/* sanitizer.h: what the sanitizers are told of blocks, in builds that have one (policy.h: ASAN, TSAN, MSAN). In
 * others nothing of this is called: each call stands behind one of these constants.
 *
 * AddressSanitizer: of the heap's memory the program may touch the bytes that it has asked for, in blocks that it
 * holds, and no others: superslabs are poisoned as they are made, a block's bytes are opened as it goes to the
 * program, and closed as it comes back. What lies between the size asked for and the block's end is thereby a redzone.
 * Descriptors lie apart from blocks, and are the allocator's to touch. The allocator's own accesses to closed bytes are
 * links of free blocks (base/list.h) and frames (debug/frame_layout.c).
 *
 * LeakSanitizer: superslabs and huge blocks are roots: what only they point to is not lost. It does not look into what
 * is poisoned, so what a freed block points to is.
 *
 * ThreadSanitizer: whoever frees a block, and whoever is given it next, writes it, as far as the sanitizer knows: a
 * thread that uses the block unordered with these is in a race.
 *
 * MemorySanitizer: a block is not initialised until it is written to; calloc's is.
 *
 * Any thread; nothing here takes a lock or allocates, but for the roots. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/policy.h"

/* Of a longer block TSan hears of its beginning: the whole would cost twice the memory. */
enum { SANITIZER_RACE_BYTES = 16 * 1024 };

/* The block at start goes to the program, which may use size_bytes from user on, inside of it. What the block holds
 * is not initialised. A size of 0 counts as 1, as in AddressSanitizer's own malloc: so a block whose first byte is
 * poisoned is free. */
void sanitizer_given(char *start, size_t bytes, char *user, size_t size_bytes);

/* As sanitizer_given, of a block that the program holds and knows, and of which it may use this much from now on. */
void sanitizer_resized(char *start, size_t bytes, char *user, size_t size_bytes);

/* The block comes back. */
void sanitizer_returned(char *start, size_t bytes);

/* No access is an error any more, and none has been initialised or not by this. */
void sanitizer_open(const void *start, size_t bytes);

/* Every access of the program's is. start and bytes are multiples of 8. */
void sanitizer_close(void *start, size_t bytes);

/* Whether the program may touch the byte; and how many it may from here on, up to bytes. */
bool sanitizer_is_open(const void *address);
size_t sanitizer_open_bytes(const void *start, size_t bytes);

/* What stands there counts as not initialised; as initialised. */
void sanitizer_fresh(void *start, size_t bytes);
void sanitizer_zeroed(void *start, size_t bytes);

/* A range may hold the only pointer to a block of libc's; and no longer: the same range, as a whole. */
void sanitizer_root(void *start, size_t bytes);
void sanitizer_unroot(void *start, size_t bytes);

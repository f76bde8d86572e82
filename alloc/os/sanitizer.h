/* sanitizer.h: tells the sanitizers about blocks, in builds that have one (policy.h: ASAN, TSAN, MSAN). Other builds
 * call nothing of this: every call is guarded by one of these constants.
 *
 * AddressSanitizer: the program may touch only the bytes that it asked for, in blocks that it holds. A superslab is
 * poisoned (closed) when it is made; malloc opens a block's bytes and free closes them. So the bytes between the size
 * asked for and the block's end are a redzone. Descriptors lie apart from blocks and are never closed. The allocator
 * itself accesses closed bytes only in links of free blocks (base/list.h) and in frames (debug/frame_layout.c).
 *
 * LeakSanitizer: superslabs and huge blocks are roots, so memory that only they point to is no leak. It does not look
 * into poisoned memory, so memory that only a freed block points to is a leak.
 *
 * ThreadSanitizer: free and malloc count as writes to the block by the calling thread. So a thread that uses the block
 * without being ordered with them is reported as a race.
 *
 * MemorySanitizer: a block of malloc is not initialised until the program writes to it; a block of calloc is.
 *
 * Any thread may call these. Only sanitizer_root and sanitizer_unroot may take a lock or allocate. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/policy.h"

/* ThreadSanitizer is shown only this much of a longer block: the whole would cost twice its memory. */
enum { SANITIZER_RACE_BYTES = 16 * 1024 };

/* The block [start, start + bytes) goes to the program, which may use size_bytes from user on. Its content counts as
 * not initialised. A size of 0 counts as 1, as in AddressSanitizer's own malloc, so a block whose first byte is
 * poisoned is free. */
void sanitizer_given(char *start, size_t bytes, char *user, size_t size_bytes);

/* As sanitizer_given, for a block that the program holds already and may now use size_bytes of: content in that part
 * stays initialised. */
void sanitizer_resized(char *start, size_t bytes, char *user, size_t size_bytes);

/* The program has given the block back. */
void sanitizer_returned(char *start, size_t bytes);

/* Opens a range: no access to it is an error. Says nothing about what is initialised. */
void sanitizer_open(const void *start, size_t bytes);

/* Closes a range: every access of the program to it is an error. start and bytes are multiples of 8. */
void sanitizer_close(void *start, size_t bytes);

/* Whether the program may touch the byte at address; and how many bytes it may touch from start on, at most `bytes`. */
bool sanitizer_is_open(const void *address);
size_t sanitizer_open_bytes(const void *start, size_t bytes);

/* The content of a range counts as not initialised (fresh), or as initialised (zeroed). */
void sanitizer_fresh(void *start, size_t bytes);
void sanitizer_zeroed(void *start, size_t bytes);

/* LeakSanitizer is to search this range for pointers to blocks of libc; unroot ends that, for exactly the same
 * range. */
void sanitizer_root(void *start, size_t bytes);
void sanitizer_unroot(void *start, size_t bytes);

/* trace.h: at level 3, and under AddressSanitizer from level 2 on, where blocks were allocated and freed: up to
 * TRACE_DEPTH return addresses each, by frame pointers within the thread's stack, in a fixed table of TRACE_RECORDS
 * blocks by address, the newest ones. Under AddressSanitizer also by which threads. For reports; a race between two
 * threads costs a record. Not a part of the release library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { TRACE_DEPTH = 8, TRACE_RECORDS = 16384 };

/* Below that level these do nothing. */
bool trace_is_on(void);
void trace_allocated(const void *block, size_t size_bytes);
void trace_freed(const void *block);

/* Adds what is known of a block to a report, a line for each return address: MODULE+OFFSET. */
struct text;
void trace_describe(struct text *text, const void *block);

/* trace.h: at level 3, and under AddressSanitizer from level 2 on, where blocks were allocated and freed: up to
 * TRACE_DEPTH return addresses each, by frame pointers within the thread's stack, in a fixed table of TRACE_RECORDS
 * blocks by address, the newest ones. Under AddressSanitizer also by which threads. For reports; a race between two
 * threads costs a record. Not a part of the release library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRACE_DEPTH = 8, TRACE_RECORDS = 16384 };

/* Below that level these do nothing. */
bool trace_is_on(void);
void trace_allocated(const void *block, size_t size_bytes);
void trace_freed(const void *block);

/* Fills in the events of a block, as far as they are known, and how long it was as it was asked for (0: not known). */
struct failfast_event;
size_t trace_find(const void *block, struct failfast_event *allocated, struct failfast_event *freed);

/* The caller's own return addresses; none where tracing is off. */
void trace_here(struct failfast_event *event);

/* Adds a line for each return address to a report: MODULE+OFFSET of the call before it, as addr2line wants it. */
struct text;
void trace_add_places(struct text *text, const struct failfast_event *event);

/* Adds what is known of a block. */
void trace_describe(struct text *text, const void *block);

/* Adds the command that names the functions and lines of the return addresses: those in the module that most of them
 * are in. Returns false, and adds nothing, where they are in no module. */
bool trace_add_command(struct text *text, const struct failfast_event *const *events, uint32_t event_count);

/* trace.h: remembers where blocks were allocated and freed, for reports: at level 3, and under AddressSanitizer from
 * level 2 on. A fixed table has a record for each of the latest TRACE_RECORDS blocks. A record holds up to TRACE_DEPTH
 * return addresses for the malloc and for the free, found by frame pointers on the thread's stack, and the threads. If two threads write the same record at once, its content is lost. Not a part of
 * the release library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRACE_DEPTH = 8, TRACE_RECORDS = 16384 };

/* Below that level trace_allocated and trace_freed do nothing. */
bool trace_is_on(void);
void trace_allocated(const void *block, size_t size_bytes);
void trace_freed(const void *block);

/* In the child of a fork, whose thread has another id. */
void trace_after_fork(void);

/* Fills in the malloc and the free of a block, as far as they are known. Returns the size that was asked for, 0 if not
 * known. */
struct failfast_event;
size_t trace_find(const void *block, struct failfast_event *allocated, struct failfast_event *freed);

/* Fills in the caller's own thread and return addresses, at every level. */
void trace_here(struct failfast_event *event);

/* For a handler of a fault: until it is called with zeros, the caller's addresses are those of the instruction that
 * faulted, by these registers. */
void trace_fault_set(uintptr_t pc, uintptr_t frame, uintptr_t stack);

/* Adds a thread to a report: its number, and in parentheses its name if it still lives and /proc is there. */
struct text;
void trace_add_thread(struct text *text, uint32_t thread);

/* Adds a line for each return address to a report: MODULE+OFFSET of the call, with the offset that addr2line
 * expects. */
void trace_add_places(struct text *text, const struct failfast_event *event);

/* Adds what is known of a block to a report. */
void trace_describe(struct text *text, const void *block);

/* Adds an addr2line command that prints the functions and lines of return addresses, for the module that most of them
 * are in; for one of the C or C++ runtime only if they are in no other. Returns false, and adds nothing, if they are in no module. */
bool trace_add_command(struct text *text, const struct failfast_event *const *events, uint32_t event_count);

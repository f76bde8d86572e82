/* hooks.h: what the layers that serve memory call in those that watch it, debug and crash, which they do not include.
 *
 * debug/hooks.c has the table. What a build has, or has not, stands in it from the start and is read plainly; the
 * caller stands behind `if (VALIDATE)` or `if (ASAN)`, and in other builds the entry is NULL. The last two entries are
 * set while the program runs, atomically; NULL: nothing watches. Slow paths alone read the table. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/policy.h"

struct text;
struct failfast_find;

/* What is known of an address, added to each report and to the find. The report ends with "found by thread N" then:
 * first of all comes the rest of that line. One thread at a time. kind is an enum failfast_kind. */
typedef void failfast_explain_fn(struct text *text, uint32_t kind, struct failfast_find *find);

/* A thread begins and has its heap: true; it ends: false. Not in threads of which nobody tells the end. The function
 * may not enter the heap. */
typedef void thread_watch_fn(bool begins);

struct hooks {
    /* Under VALIDATE. */
    void (*heap_tick)(void); /* a thread is on a slow path of malloc or free */
    void (*thread_before_end)(void); /* a thread ends, and has its heap still */
    void (*thread_after_fork)(void); /* in the child, when the heaps are mended */
    void (*stats_print)(FILE *stream); /* the statistics end with this */
    /* Under ASAN: an error at this address is about to be reported. */
    void (*sanitizer_report)(const void *address);

    /* Set by explain_start, for good: a constant, so relaxed. */
    failfast_explain_fn *failfast_explain;
    /* Set by thread_watch. */
    _Atomic(thread_watch_fn *) thread_watch;
};
extern HAK_HIDDEN struct hooks hooks;

/* settings.h: how much the debug-validation build checks, and what it does about a find. Two environment
 * variables, of which heap/options.h speaks for the other ones:
 *
 *   HAKMEM_FAILFAST        abort: one report, then the process ends (the default)
 *                          report: a report for each find; the bad call does nothing and the program goes on,
 *                          where that is possible
 *   HAKMEM_FAILFAST_LEVEL  0: no checks
 *                          1: those that cost no memory: blocks lie as in the release build
 *                          2: frames around blocks, junk in freed ones, a quarantine (the default)
 *                          3: also where blocks were allocated and freed, and more sweeps of the quarantine
 *
 * Whether blocks have frames must be known at the first malloc, which can be long before any constructor
 * and before libc knows its environment: so they are read from /proc/self/environ, once. Not a part of the
 * release library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/policy.h"

/* X(variable, what it takes, text) for whoever prints the options. */
#define FAILFAST_OPTIONS(X)                                                                       \
    X(FAILFAST, "abort: 0, report: 1", "what a find does: end the process, or be told and go on") \
    X(FAILFAST_LEVEL, "0 to 3", "0: no checks; 1: same layout; 2: frames, junk, quarantine; 3: traces")

enum { LEVEL_NONE, LEVEL_LAYOUT, LEVEL_FRAMES, LEVEL_TRACES, LEVEL_STANDARD = LEVEL_FRAMES };

/* -1 until they are read. Use the functions below. */
extern HAK_HIDDEN int failfast_level_read;

/* Reads them. Every thread that does so finds the same. Keeps errno. Returns the level. */
int failfast_settings_read(void);

/* 0 to 3, for good from the first call on. Any thread. */
static inline int failfast_level(void)
{
    /* relaxed: whoever finds -1 reads the same value again. */
    int level = __atomic_load_n(&failfast_level_read, __ATOMIC_RELAXED);
    return HAK_LIKELY(level >= 0) ? level : failfast_settings_read();
}

/* True where a find is told and the process goes on. */
bool failfast_goes_on(void);

enum settings_entry { SETTINGS_OTHER, SETTINGS_GOOD, SETTINGS_BAD };

/* Whether an entry NAME=VALUE, without the prefix HAKMEM_, is one of the two, and has a value that it takes. */
enum settings_entry failfast_settings_check(const char *entry);

/* Lines as hak_stats_print's for the other options. */
void failfast_settings_print(FILE *stream);

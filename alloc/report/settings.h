/* settings.h: how much the debug-validation build checks, and what it does when a check fails. Four environment
 * variables; control/options.h has the others:
 *
 *   HAKMEM_FAILFAST        abort: one report, then the process ends (the default)
 *                          report: a report for each failed check; the bad call does nothing and the program continues,
 *                          where the heap is sound enough for that
 *   HAKMEM_FAILFAST_LEVEL  0: no checks
 *                          1: the checks that cost no memory: blocks are laid out as in the release build
 *                          2: also frames around blocks, junk in freed ones, a quarantine (the default)
 *                          3: also where blocks were allocated and freed, and more sweeps of the quarantine
 *   HAKMEM_FAILFAST_FILL   0 to 255: at level 2 and above, what fresh memory is filled with, except calloc's
 *   HAKMEM_FAILFAST_LEAKS  1: at level 2 and above, the process reports at its end the blocks to which nothing points
 *
 * The first malloc must know whether blocks have frames. It can run long before any constructor, and before libc has
 * set `environ`. So the settings are read from /proc/self/environ, once. Not a part of the release library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"

/* X(variable, values, text): for lists of options. */
#define FAILFAST_OPTIONS(X)                                                                             \
    X(FAILFAST, "abort: 0, report: 1", "what a find does: end the process, or be told and go on")       \
    X(FAILFAST_LEVEL, "0 to 3", "0: no checks; 1: same layout; 2: frames, junk, quarantine; 3: traces") \
    X(FAILFAST_LEAKS, "0 or 1", "1: from level 2 on, report leaks at the end of the process")           \
    X(FAILFAST_FILL, "none: 256, 0 to 255", "from level 2 on, the byte that fresh memory is filled with")

enum { LEVEL_NONE, LEVEL_LAYOUT, LEVEL_FRAMES, LEVEL_TRACES, LEVEL_STANDARD = LEVEL_FRAMES };

/* -1: not read yet. Use the functions below. */
extern HAK_HIDDEN int failfast_level_read, failfast_goes_on_read, failfast_fill_read;

/* Reads the settings and returns the level. Threads may do so at the same time: all read the same. Keeps errno. */
int failfast_settings_read(void);

/* The level, 0 to 3. It never changes. Any thread. */
static inline int failfast_level(void)
{
    /* relaxed: a thread that finds -1 reads the environment and stores the same value. */
    int level = __atomic_load_n(&failfast_level_read, __ATOMIC_RELAXED);
    return HAK_LIKELY(level >= 0) ? level : failfast_settings_read();
}

/* True where a failed check is only reported, and the process continues. */
bool failfast_goes_on(void);

/* The byte that fresh memory is filled with; -1: none. The level has been asked for before. */
static inline int failfast_fill(void)
{
    return __atomic_load_n(&failfast_fill_read, __ATOMIC_RELAXED); /* relaxed: as the level, which was read after it */
}

/* Whether leaks are asked for. As failfast_fill. */
bool failfast_wants_leaks(void);

enum settings_entry { SETTINGS_OTHER, SETTINGS_GOOD, SETTINGS_BAD };

/* Whether an entry NAME=VALUE (without the prefix HAKMEM_) is one of the settings, and whether its value is
 * valid. */
enum settings_entry failfast_settings_check(const char *entry);

struct output;

/* Prints the settings, in the form that hak_stats_print has for the other options. */
void failfast_settings_print(struct output *out);

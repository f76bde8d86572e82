/* options.h: the options in the environment, read once at start, without allocating. X(variable, default, low, high,
 * text) is the only list: the parser, `hak_stats_print` and the table in docs/use.md use it. The debug-validation build
 * has four more, which it must know earlier than these: report/settings.h. Not numbers, and read
 * elsewhere: HAKMEM_CRASH_DIR (crash/crash.c), HAKMEM_LIMIT, HAKMEM_LIMIT_SOFT and HAKMEM_PREWARM (control/amount.h),
 * HAKMEM_PROFILE, and the targets of HAKMEM_STATS (control/stats_write.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/config.h"

#define OPTIONS(X)                                                                                                   \
    X(PURGE_DELAY_MS, PURGE_DELAY_MS, 0, 3600000,                                                                    \
      "a free page keeps its memory for one to two such delays, longer in a swing; 0: purged at once")               \
    X(HUGE_CACHE_MIB, HUGE_CACHE_BYTES_MAX >> 20, 0, 1048576, "MiB of mappings above 2 MiB kept for reuse; 0: none") \
    X(HUGE_PAGES, 0, 0, 2, "1: huge pages behind superslabs where the system likes; 2: behind those that stay full") \
    X(GUARD_SAMPLE, 0, 0, 1000000000, "N: about one in N small blocks lies alone between pages that fault; 0: none") \
    X(GUARD_SLOTS, GUARD_SLOTS, 1, GUARD_SLOTS_MAX, "such blocks, live or lately freed, at most")                    \
    X(BACKGROUND, 0, 0, 1, "1: a thread of the allocator's own gives idle memory back while the program sleeps")     \
    X(PROFILE_SIGNAL, 0, 0, 64, "N: write a heap profile when signal N comes; 0: at none")                           \
    X(PROFILE_STEP_MIB, 0, 0, 1048576, "write one each time the bytes in use have grown by this; 0: never")          \
    X(STATS_SIGNAL, 0, 0, 64, "N: write the heap's figures when signal N comes; 0: at none")                         \
    X(STATS, 0, 0, 1, "1: print the heap's figures to standard error at exit")

enum option {
#define X(name, standard, low, high, text) OPTION_##name,
    OPTIONS(X)
#undef X
        OPTION_COUNT
};

/* Reads HAKMEM_* from the environment (as `environ`; may be NULL) and sets the options. For a value that is not a
 * number or is out of range, writes a warning line and keeps the default. For a name that no part of the library reads,
 * writes one too, except for the variables of the suite and the build. */
void options_read(char *const environment[]);

uint64_t option_value(enum option option);

/* HAKMEM_PREWARM in bytes; 0: it is not set. */
size_t options_prewarm_bytes(void);

/* The mean distance of samples that HAKMEM_PROFILE asks for, in bytes; 0: no heap profile. */
uint64_t option_profile_mean_bytes(void);

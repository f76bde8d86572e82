/* stats.h: the heap's figures, from its books as they stand; no path keeps counters for them. The debug-
 * validation build prints its counters with them (counters_print.h). */
#pragma once

#include <stdio.h>

struct hak_stats;

/* See hakmem.h. */
void stats_get(struct hak_stats *out);
void stats_print(FILE *stream);

/* stats.h: figures of the whole heap. They are computed from its data when asked for. control/stats_write.h has more of
 * them. */
#pragma once

struct hak_stats;
struct output;

/* As hak_stats_get and hak_stats_print in hakmem.h. */
void stats_get(struct hak_stats *out);
void stats_print(struct output *out);

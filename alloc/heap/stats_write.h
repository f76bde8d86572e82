/* stats_write.h: the figures of hakmem.h's struct hak_figures, and where they are written: to a descriptor, at exit, at a
 * signal; a heap profile is written there too. The signal's handler only notes that it came. The background thread writes, or else the next slow path of any
 * thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"

struct hak_figures;

/* As hak_figures_get and hak_stats_write. */
size_t stats_figures(struct hak_figures *out, size_t size_bytes);
int stats_write(int fd, int format);

/* Where figures go at exit and at the signal: "1" or "exit": text to standard error; "json:PATH", "prom:PATH": a file,
 * which is replaced. False: it is none of these. Called once, at start. */
bool stats_target_set(const char *target);

/* Writes there. At exit a text is that of hak_stats_print. */
void stats_at_exit(void);

/* Writes at this signal from now on: the figures, or a heap profile. Both may have the same signal. False: the system
 * refuses. */
enum { STATS_DUE = 1, PROFILE_DUE = 2 };
bool stats_signal_start(int signal, uint32_t what);

/* What is due; a word, since riscv64 cannot exchange a byte without libatomic. relaxed: the thread that writes takes it by
 * an exchange. */
extern HAK_HIDDEN _Atomic(uint32_t) stats_signal_due;
static inline bool stats_signal_is_due(void)
{
    return atomic_load_explicit(&stats_signal_due, memory_order_relaxed) != 0;
}
void stats_signal_write(void);

/* hooks.c: defines the table of base/hooks.h for this build. */
#include "base/hooks.h"

#include <stddef.h>

#include "base/policy.h"
#include "debug/quarantine.h"
#include "debug/sanitizer_report.h"
#include "debug/exit/sweep.h"
#include "debug/fault/fault.h"
#include "debug/trace.h"
#include "control/background.h"
#include "control/stats_write.h"
#include "heap/own_inside.h"

static void thread_after_fork(void)
{
    if (!VALIDATE) return; /* at -O0 gcc keeps a function that nobody calls */
    quarantine_after_fork();
    sweep_after_fork();
    trace_after_fork();
}

struct hooks hooks = {
    .own_after_fork = own_fork_child,
    .background_after_fork = background_after_fork,
    .background_end_with_first = background_end_with_first,
    .stats_write_due = stats_write_due,
    .heap_tick = VALIDATE ? quarantine_sweep : NULL,
    .thread_before_end = VALIDATE ? quarantine_thread_ends : NULL,
    .thread_after_fork = VALIDATE ? thread_after_fork : NULL,
    .blocks_discarded = VALIDATE ? sweep_discarded : NULL,
    .block_discarded = VALIDATE ? sweep_block : NULL,
    .fault_is_told = VALIDATE ? fault_is_told : NULL,
    .fault_stop = VALIDATE ? fault_stop : NULL,
    .sanitizer_report = ASAN ? sanitizer_report : NULL,
};

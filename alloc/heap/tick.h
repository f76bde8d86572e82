/* tick.h: what slow paths do once in a round: they give idle memory back, and write what is due in a process without the
 * library's thread (control/background.h). */
#pragma once

#include <stdint.h>

#include "base/hooks.h"
#include "cache/tcache.h"
#include "cache/thread.h"
#include "heap/huge.h"
#include "superslab/pool.h"
#include "superslab/purge.h"

/* The thread's first slow path in a round: posts remote frees that were staged before, for their owners. */
void tick_round(struct tcache *tcache);

/* There is idle memory: gives back what has been idle for a delay. */
void tick_clock(struct tcache *tcache);

/* Called on slow paths. Reads the clock only if there is idle memory. */
static inline void tick(struct tcache *tcache)
{
    if (VALIDATE) hooks.heap_tick();
    if (HAK_UNLIKELY(tcache->tick_rounds != pool_tick_rounds())) tick_round(tcache);
    if (purge_any_dirty() || huge_any_cached() || thread_any_warm() || tcache->watches_idle) tick_clock(tcache);
}

/* tick.c: see tick.h. */
#include "heap/tick.h"

#include <stdatomic.h>

#include "base/config.h"
#include "cache/owed.h"
#include "os/os.h"
#include "report/writer.h"
#include "slab/remote.h"

/* The thread's first slow path in a round: posts remote frees that were staged before, for their owners. */
HAK_NOINLINE void tick_round(struct tcache *tcache)
{
    if (tcache->heap == NULL) return;
    tcache->tick_rounds = pool_tick_rounds();
    atomic_store_explicit(&tcache->heap->rounds_seen, tcache->tick_rounds, memory_order_relaxed);
    remote_post_all(&tcache->heap->staging);
    if (HAK_UNLIKELY(writer_is_due_here())) hooks.stats_write_due();
}

static void watch_idle(struct tcache *tcache, uint64_t now_ms)
{
    struct heap *heap = tcache->heap;
    if (heap == NULL || !tcache->watches_idle) return;
    uint64_t pause_ms = now_ms - heap->seen_ms;
    heap->seen_ms = now_ms;
    const bool was_put_off = now_ms - 1 >= heap->owner.put_off_ms - 1; /* never if that is 0 */
    if (HAK_UNLIKELY(pause_ms >= PAUSE_MS_MIN || was_put_off)) tcache_trim_idle(tcache, now_ms, pause_ms);
    if (HAK_UNLIKELY(tcache->owes)) tcache_pay(tcache);
    tcache->watches_idle = tcache->owes || owner_idle_bytes(&heap->owner) >= TRIM_IDLE_BYTES_MIN;
}

/* There is idle memory: gives back what has been idle for a delay. The heap's own comes first: only its thread can give it, and
 * a round of the pool may need all calls that this malloc or free may make. */
HAK_NOINLINE void tick_clock(struct tcache *tcache)
{
    uint64_t now_ms = os_now_ms();
    watch_idle(tcache, now_ms);
    thread_tick(pool_tick(now_ms));
    huge_tick(now_ms);
}

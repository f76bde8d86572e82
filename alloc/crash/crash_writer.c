/* crash_writer.c: see crash_writer.h. */
#include "crash/crash_writer.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "base/sync_point.h"
#include "os/call.h"

enum { WAIT_MS = 2000 }; /* a thread waits at most this long for another one's record */

static _Atomic(uint64_t) writer; /* 0, or a thread of another process: nobody */

static void wait_a_moment(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    if (sync_points_are_hooked()) {
        sync_point("lock_wait");
    } else {
        call_nanosleep(&moment);
    }
}

bool crash_writer_is(uint64_t me)
{
    return atomic_load_explicit(&writer, memory_order_relaxed) == me;
}

bool crash_writer_take(uint64_t me)
{
    for (int waited_ms = 0; waited_ms < WAIT_MS; waited_ms++) {
        /* acquire: pairs with the release in crash_writer_release, so that the last writer's data is seen. */
        uint64_t holder = 0;
        if (atomic_compare_exchange_strong_explicit(&writer, &holder, me, memory_order_acquire, memory_order_relaxed))
            return waited_ms == 0;
        /* unreached: by chance: a fork while another thread writes a record */
        bool is_gone = holder >> 32 != me >> 32; /* the holder is in the process that this one was forked from */
        if (!is_gone) {
            wait_a_moment();
            continue;
        }
        /* unreached: by chance: as above */
        /* relaxed: fork has copied that thread's data. */
        if (atomic_compare_exchange_strong_explicit(&writer, &holder, me, memory_order_relaxed, memory_order_relaxed))
            return true;
    }
    return false;
}

void crash_writer_release(uint64_t me)
{
    /* release: pairs with the acquire in crash_writer_take. */
    if (crash_writer_is(me)) atomic_store_explicit(&writer, 0, memory_order_release);
}

// Remote free: every block is freed by another thread than allocated it. Four modes, in equal shares
// unless one is asked for:
//
// - queue: producers send blocks to random consumers, which free them between calls of their own. Finds
//   lost and doubled remote frees, and races of a remote free with the owner's refill.
// - ring: each thread allocates, sends to the next, and frees what comes from the one before. All are
//   owners and remote at once: finds deadlocks and lists that grow because each waits for the other.
// - owner-exit: owners allocate, hand over and end; their blocks are freed while they end, or after. Finds
//   heaps given back with live blocks, remote lists of ended threads that nobody drains, and growth.
// - free-only: the freeing threads never allocate, and end after a batch. Finds per-thread state that only
//   malloc sets up, and frees that stay in the cache of a thread that is gone.
#include "scenario/remote_free.h"

#include "engine/run.h"
#include "scenario/owner_exit.h"
#include "scenario/queue_modes.h"

namespace stress {

void remote_free_run(Run &run)
{
    struct Part {
        RemoteMode mode;
        void (*phase)(Run &run, double share);
    };
    constexpr Part parts[] = {{RemoteMode::Queue, queue_phase},
                              {RemoteMode::Ring, ring_phase},
                              {RemoteMode::OwnerExit, owner_exit_phase},
                              {RemoteMode::FreeOnly, free_only_phase}};
    const RemoteMode asked = run.options.mode;
    for (const Part &part : parts)
        if ((asked == RemoteMode::All || asked == part.mode) && !run.failed())
            part.phase(run, asked == RemoteMode::All ? 0.25 : 1);
}

}  // namespace stress

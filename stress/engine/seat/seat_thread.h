// The thread that sits on a seat: how it will end, which threads came before it, and what the main thread must know to
// join them. The team fills this in (engine/team/team.h).
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/base/queue.h"
#include "engine/op/op.h"

namespace stress {

struct SeatThread {
    RenewHow renew = RenewHow::Return; // how it will end
    std::uint64_t cancel_after = 0;    // ops until a pending cancellation takes effect; 0: none is pending
    std::uint64_t cancel_in = 0;       // ops until it is cancelled at random; 0: it is not
    std::size_t ticket = 0;            // in the seeded scheduler
    std::optional<pthread_t> predecessor;
    std::atomic<pid_t> tid{0}; // for reports; 0: no thread is on the seat

    std::atomic<bool> finished{true}; // no more ops are applied in this lap
    SpscQueue<pthread_t> retired{256}; // threads of this seat that are ending and must be joined
};

} // namespace stress

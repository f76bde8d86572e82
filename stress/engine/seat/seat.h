// A seat is a logical worker: its stream of ops, counters and interpreter. Threads sit on it one after another, so the
// stream continues unchanged when a successor takes over.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "engine/base/queue.h"
#include "engine/op/counters.h"
#include "engine/op/op.h"
#include "engine/op/process_counts.h"
#include "engine/seat/generator.h"
#include "engine/seat/interp.h"
#include "engine/seat/seat_log.h"

namespace stress {

struct Seat {
    Seat(std::uint32_t seat_index, InterpShared &shared, Support support, bool check)
        : index(seat_index), interp(shared, counters, support, seat_index, check), stop(shared.stop), ring(kRingOps),
          retired(kRetiredSlots)
    {}

    // Whether to start another op: the lap is not over and the share of ops is not used up.
    bool go_on() const { return read(counters.ops) < ops_limit && !stop.load(std::memory_order_relaxed); }

    // The next op of the stream, or nullptr at its end. It stays the next op until it is consumed.
    const Op *next_op()
    {
        if (next == filled && !refill()) return nullptr;
        if (log != nullptr) [[unlikely]]
            log_begin();
        return &ring[next % kRingOps];
    }
    void consume();

    // Ops are drawn from the stream in batches, into a ring. So the ring also records the last ops: at least kRingOps -
    // kBatchOps of them.
    static constexpr std::size_t kRingOps = 1024, kBatchOps = 256;
    static constexpr std::size_t kRetiredSlots = 256;

    alignas(128) Counters counters;
    std::uint32_t index;
    Interp interp;
    std::uint64_t ops_limit = 0;
    const std::atomic<bool> &stop;

    Generator *generator = nullptr;
    Mapped<Op> ring;
    std::uint64_t next = 0, filled = 0; // ops of the stream so far

    SeatLog *log = nullptr; // where to write ops when the run is recorded

    // For the team and the process ops. `renew` says how the present thread will end.
    RenewHow renew = RenewHow::Return;
    std::uint64_t cancel_after = 0; // ops until a pending cancellation takes effect; 0: none is pending
    std::size_t ticket = 0; // ticket in the seeded scheduler
    pthread_t predecessor{};
    bool has_predecessor = false;
    ProcessCounts process;
    bool holds_failure = false, holds_limit = false; // this seat made memory scarce: counted in InterpShared::scarce
    void *stream = nullptr; // FILE of the GetLine op
    std::size_t stream_left = 0; // bytes that it will still deliver
    std::atomic<bool> finished{true};
    std::atomic<pid_t> tid{0}; // of the present thread, for reports; 0: none
    SpscQueue<pthread_t> retired; // threads of this seat that are ending and must be joined

  private:
    bool refill();
    void log_begin();
};

} // namespace stress

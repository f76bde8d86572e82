// A seat is a logical worker: its stream of ops, counters and interpreter. Threads sit on it one after another, so the
// stream continues unchanged when a successor takes over.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/op/counters.h"
#include "engine/seat/interp.h"
#include "engine/seat/op_stream.h"
#include "engine/seat/seat_process.h"
#include "engine/seat/seat_thread.h"

namespace stress {

struct Seat {
    Seat(std::uint32_t seat_index, InterpShared &shared, Support support, bool check)
        : index(seat_index), interp(shared, counters, support, seat_index, check), stop(shared.stop), ops(seat_index)
    {}

    // Whether to start another op: the lap is not over and the share of ops is not used up.
    bool go_on() const { return read(counters.ops) < ops_limit && !stop.load(std::memory_order_relaxed); }

    alignas(128) Counters counters;
    std::uint32_t index;
    Interp interp;
    std::uint64_t ops_limit = 0;
    const std::atomic<bool> &stop;
    OpStream ops;
    SeatThread thread;
    SeatProcess process;
};

} // namespace stress

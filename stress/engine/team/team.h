// Threads of a run. The main thread starts seats; a thread may ask for a successor and end, and the main thread joins
// the threads that have ended.
#pragma once

#include <cstdint>

#include "engine/base/mapped.h"
#include "engine/seat/seat.h"

namespace stress {

// Starts a thread on the seat, which applies the seat's ops. Records a failure if the system has no thread.
void team_start(Seat &seat, FailureLog &failures);

// How long the threads of a run may work. By the clock, or in time of work (engine/watch/work_clock.h).
struct TimeLimit {
    std::uint64_t ns = UINT64_MAX; // no limit
    bool of_work = false;
};

// Runs the threads of the seats to their end and joins them. Sets stop at the limit, and when every seat waits for
// another.
void team_wait(Mapped<Seat *> &seats, const Slots &slots, TimeLimit limit, std::atomic<bool> &stop);

} // namespace stress

// Threads of a run. The main thread starts seats; a thread may ask for a successor and end, and the main thread joins
// the threads that have ended.
#pragma once

#include <cstdint>

#include "engine/base/mapped.h"
#include "engine/seat/seat.h"

namespace stress {

// Starts a thread on the seat, which applies the seat's ops. Records a failure if the system has no thread.
void team_start(Seat &seat, FailureLog &failures);

// Runs the threads of the seats to their end and joins them. Sets stop at deadline_ns (of clock_ns), and when every
// seat waits for another.
void team_wait(Mapped<Seat *> &seats, const Slots &slots, std::uint64_t deadline_ns, std::atomic<bool> &stop);

} // namespace stress

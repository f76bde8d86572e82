// All threads asleep. Idle waits until every seat has come to it; then all sleep, call nothing of the subject, and the last
// to come watches what is resident: it must fall to the bound for what is live.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/judge/memory.h"
#include "engine/seat/seat.h"

namespace stress {

// Before the first thread starts. The meter outlives the run; nullptr: Idle does nothing.
void idle_op_begin(std::size_t seat_count, MemoryMeter *meter);

// False: a failure was recorded. Where not all seats come, nothing is judged.
bool idle_apply(std::uint64_t ms_max, Seat &seat, FailureLog &failures, const std::atomic<bool> &stop);

} // namespace stress

// The work of a thread on a seat: it applies the seat's ops until the lap is over.
#pragma once

#include "engine/seat/seat.h"

namespace stress {

enum class Outcome { Done, Successor };

// What the threads of a run share besides their seats; set before the first starts.
struct WorkerShared {
    FailureLog *failures;
    InterpShared *interp;
    std::uint64_t signal_us;  // see Injection
    std::uint64_t cancel_ops, seed; // see Options
};
extern WorkerShared worker_shared;

Outcome worker_run(Seat &seat);

}  // namespace stress

// Sweep: runs a program in every schedule with at most so many preemptions.
#pragma once

#include <cstdint>

#include "explore/runner.h"

namespace stress {

struct Sweep {
    std::uint64_t schedules = 0;  // of the last pass, each of them run
    std::uint64_t points = 0;     // accesses in those
    std::uint64_t runs = 0;       // with those of passes that began anew, see shares.h; adds up over calls
    Outcome failure;              // the first one; rule nullptr: none
};

// Seconds of a clock that does not go back.
double sweep_clock();

// True: all schedules were run, and held. False: one failed, or the deadline (by sweep_clock; 0: none) has passed.
bool sweep(Runner &runner, const Program &program, Shares &shares, unsigned bound, double deadline, Sweep &result);

}  // namespace stress

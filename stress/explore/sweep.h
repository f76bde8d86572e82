// Sweep: runs a program in every schedule with at most a given number of preemptions.
#pragma once

#include <cstdint>

#include "explore/runner.h"

namespace stress {

struct Sweep {
    std::uint64_t schedules = 0;  // of the last pass, all of which were run
    std::uint64_t points = 0;     // accesses in those
    std::uint64_t runs = 0;       // includes passes that were started over, see shares.h; adds up over calls
    Outcome failure;              // the first failure; rule nullptr: none
};

// Seconds of a clock that never goes back.
double sweep_clock();

// True: all schedules were run, and held. False: one failed, or the deadline (by sweep_clock; 0: none) has passed.
bool sweep(Runner &runner, const Program &program, Shares &shares, unsigned bound, double deadline, Sweep &result);

}  // namespace stress

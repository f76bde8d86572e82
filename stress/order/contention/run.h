// Counted runs of a malloc, each in a process of its own.
#pragma once

#include "order/contention/patterns.h"

namespace stress::order {

struct CountedRun {
    unsigned threads;
    std::uint64_t seed; // of the schedule and of what is allocated
    unsigned warm; // operations of a thread before it counts
};

struct ContentionResult {
    Contention counts;
    std::string failure; // empty: none
    std::string places; // who moved most lines, a line each
};

ContentionResult count_contention(const Subject &subject, const OwnHeaps &heaps, const Pattern &pattern,
                                  const CountedRun &run);

} // namespace stress::order

// Runs a scenario on a malloc, schedule after schedule. All of them run in one process, a child, in which the malloc's state
// comes back before each (run/pages.h), so that each begins with the same heap and one that crashes says so.
#pragma once

#include <cstdint>
#include <string>

#include "order/malloc/scenario.h"

namespace stress::order {

enum class Strategy : std::uint8_t { mixed, uniform, pct, pos, surw };

struct ExploreRequest {
    const Subject *subject = nullptr;
    const Scenario *scenario = nullptr;
    void (*before_run)() = nullptr; // nullptr: nothing
    unsigned threads = 2;
    Rules rules;
    Bounds bounds;
    bool ignores_races = false;
    bool stops_at_stores = false; // also of private memory, for programs that fork
    bool is_search = false; // every schedule within the bounds; else random ones
    bool is_reduced = true; // leaves out schedules that show nothing new; README.md says why that is so
    bool keeps_ends = false; // digests of the memory at the end of the runs
    Strategy strategy = Strategy::mixed;
    std::uint64_t schedules = 1000, seed = 42; // of random ones; the seeds count up
    double seconds = 0; // 0: no limit
    std::uint64_t points_max = 100000; // of a run; one with more is given up
    std::uint64_t points_enough = 0; // of random runs: with this many in all no other one begins; 0: no limit
};

struct ExploreNumbers {
    std::uint64_t schedules = 0; // that were begun
    std::uint64_t pruned = 0; // of a search: those that came to a state that was known
    std::uint64_t points = 0; // most places of a schedule where a thread could be switched
    std::uint64_t given_up = 0, states = 0, shared = 0, ends = 0, ends_digest = 0;
    double seconds = 0; // of processor time
    bool is_complete = false; // a search: there is no other schedule
    std::uint64_t seed = 0; // of the random schedule that failed
};

struct ExploreResult : ExploreNumbers {
    std::string failure; // empty: none
    std::string refused; // what the system refused, so that nothing ran; empty: nothing
};

ExploreResult explore(const ExploreRequest &request);

} // namespace stress::order

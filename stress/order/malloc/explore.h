// Runs a scenario on a malloc, schedule after schedule, each in a process of its own, so that each begins with the same
// heap and one that crashes says so.
#pragma once

#include <cstdint>
#include <string>

#include "order/malloc/scenario.h"

namespace stress::order {

struct ExploreRequest {
    const Subject *subject = nullptr;
    const Scenario *scenario = nullptr;
    unsigned threads = 2;
    Rules rules;
    Bounds bounds;
    bool ignores_races = false;
    bool is_search = false; // every schedule within the bounds; else random ones
    std::uint64_t schedules = 1000, seed = 42; // of random ones; the seeds count up
    double seconds = 0; // 0: no limit
};

struct ExploreResult {
    std::uint64_t schedules = 0, points = 0, given_up = 0;
    bool is_complete = false; // a search: there is no other schedule
    std::uint64_t seed = 0; // of the random schedule that failed
    std::string failure; // empty: none
};

ExploreResult explore(const ExploreRequest &request);

} // namespace stress::order

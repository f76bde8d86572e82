// Scenarios of the explorer: a few calls in each of two or three threads, so chosen that a protocol of the allocator
// meets another one. Small: a run is some hundred accesses, and all its interleavings are to be had.
#pragma once

#include <vector>

#include "explore/world.h"

namespace stress {

struct ExploreScenario {
    const char *name;
    const char *hunts;  // which interleaving
    unsigned threads_max;  // 2 or 3; each runs with two
    void (*setup)(World &world);  // alone; threads that it uses are live afterwards
    void (*body)(World &world, unsigned thread);
    void (*check)(World &world) = nullptr;  // afterwards, alone; beyond what is to hold of all
    bool forks = false; // the last thread is a forked child's only one: others stay where they are; judged by child.h
};

const std::vector<ExploreScenario> &explore_scenarios();
const ExploreScenario *explore_scenario(const char *name);

// The parts of the list.
void explore_remote_scenarios(std::vector<ExploreScenario> &list);
void explore_page_scenarios(std::vector<ExploreScenario> &list);
void explore_fork_scenarios(std::vector<ExploreScenario> &list);

} // namespace stress

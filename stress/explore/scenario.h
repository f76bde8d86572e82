// Scenarios of the explorer: a few calls in each of two or three threads, chosen so that one protocol of the allocator
// meets another. They are small: a run has a few hundred accesses, so that all of its interleavings can be run.
#pragma once

#include <vector>

#include "explore/world.h"

namespace stress {

struct ExploreScenario {
    const char *name;
    const char *hunts;  // which interleaving
    unsigned threads_max;  // 2 or 3; every scenario also runs with two
    void (*setup)(World &world);  // runs alone; the threads that it uses stay live
    void (*body)(World &world, unsigned thread);
    void (*check)(World &world) = nullptr;  // runs alone at the end; checks more than what must always hold
    // The last thread is the only one of a forked child; the others stop where they are; child.h judges.
    bool forks = false;
    // Its setup or check counts on a heap that nothing has used (ExploreStart).
    bool fresh_only = false;
};

const std::vector<ExploreScenario> &explore_scenarios();
const ExploreScenario *explore_scenario(const char *name);

// The parts of the list.
void explore_remote_scenarios(std::vector<ExploreScenario> &list);
void explore_own_scenarios(std::vector<ExploreScenario> &list);
void explore_page_scenarios(std::vector<ExploreScenario> &list);
void explore_fork_scenarios(std::vector<ExploreScenario> &list);
void explore_report_scenarios(std::vector<ExploreScenario> &list);
void explore_watch_scenarios(std::vector<ExploreScenario> &list);

} // namespace stress

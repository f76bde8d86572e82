// Scenarios of the explorer: a few calls in each of two or three threads, chosen so that one protocol of the allocator
// meets another. They are small: a run has a few hundred accesses, so that all of its interleavings can be run.
#pragma once

#include <cstddef>
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

// Places of most scenarios: setup fills 0 to 39; each thread has ten of its own from 40 on; those from 90 on keep a
// thread live.
constexpr unsigned kOwn = 40, kLive = 90;
constexpr std::size_t kTiny = 16; // the size of such a block

inline unsigned own(unsigned thread, unsigned place)
{
    return kOwn + 10 * thread + place;
}

// Gives the calling thread a block, and so a heap.
void be_live(World &world);
void all_live(World &world);

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

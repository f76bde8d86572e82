#include "explore/scenario.h"

#include <cstring>

namespace stress {

void be_live(World &world)
{
    world.take(kLive + world.runner.fibers().current(), kTiny);
}

void all_live(World &world)
{
    for (unsigned thread = 0; thread < world.threads; ++thread) world.in(thread, be_live);
}

const std::vector<ExploreScenario> &explore_scenarios()
{
    static const std::vector<ExploreScenario> all = [] {
        std::vector<ExploreScenario> list;
        explore_remote_scenarios(list);
        explore_page_scenarios(list);
        explore_own_scenarios(list);
        explore_watch_scenarios(list);
        explore_report_scenarios(list);
        explore_fork_scenarios(list);
        return list;
    }();
    return all;
}

const ExploreScenario *explore_scenario(const char *name)
{
    for (const ExploreScenario &scenario : explore_scenarios())
        if (std::strcmp(scenario.name, name) == 0) return &scenario;
    return nullptr;
}

}  // namespace stress

#include "explore/scenario.h"

#include <cstring>

namespace stress {

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

// The commands that make many runs; campaign/ does the work.
#include "command/all.h"

#include "campaign/command.h"
#include "command/command.h"
#include "engine/base/build.h"
#include "engine/run/scenario.h"

namespace stress {

int all_main(int argc, char **argv)
{
    CampaignDefaults defaults;
    for (const Scenario &scenario : scenarios()) defaults.scenarios.push_back(scenario.name);
    if (kSanitized && !kDirect) defaults.allocator = "system";
    return campaign_all(argc, argv, defaults);
}

int soak_main(int argc, char **argv, const Options &options)
{
    SoakRequest request;
    request.scenario = options.scenario;
    request.allocator = options.allocator;
    request.schedule = options.schedule == Schedule::Seeded ? "seeded" : "os";
    request.soak = options.soak;
    request.report_directory = options.report_directory;
    request.json_path = options.json_path;
    request.seed = options.seed;
    request.seconds = options.seconds;
    request.fresh = options.fresh;
    return campaign_soak(argc, argv, request);
}

}  // namespace stress

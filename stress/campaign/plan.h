// Which runs a campaign makes, in which order, and the command line of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "campaign/campaign.h"
#include "campaign/soak_state.h"

namespace stress {

// One run of a pass.
struct PlannedRun {
    std::size_t cell;
    std::uint64_t seed_offset;
};

// What is counted together: for each scenario the checked runs of each allocator and schedule; with speed_rounds also the
// unchecked ones of each allocator, for throughput, and those for latency.
std::vector<CampaignCell> plan_cells(const CampaignOptions &options);

// The runs of one pass, for these cells: every checked run once, then rounds in which each allocator is the first in
// turn, then the runs for latency.
std::vector<PlannedRun> plan_runs(const CampaignOptions &options);

// The arguments of a run, which the command that repeats it contains too.
std::vector<std::string> run_arguments(const CampaignOptions &options, const CampaignCell &cell, std::uint64_t seed);

// Everything that decides which runs are made, as text.
std::string options_text(const CampaignOptions &options);

} // namespace stress

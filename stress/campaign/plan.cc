#include "campaign/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "campaign/command_words.h"

namespace stress {
namespace {

std::vector<CampaignCell> cells_of(const CampaignOptions &o, const std::string &scenario)
{
    std::vector<CampaignCell> cells;
    const auto add = [&](const std::string &allocator, const std::string &schedule, RunMode mode) {
        cells.emplace_back();
        cells.back().scenario = scenario;
        cells.back().allocator = allocator;
        cells.back().schedule = schedule;
        cells.back().mode = mode;
    };
    for (const std::string &allocator : o.allocators)
        for (const std::string &schedule : o.schedules) add(allocator, schedule, RunMode::Check);
    if (o.speed_rounds == 0) return cells;
    for (RunMode mode : {RunMode::Speed, RunMode::Tails})
        for (const std::string &allocator : o.allocators) add(allocator, "os", mode);
    return cells;
}

} // namespace

std::vector<CampaignCell> plan_cells(const CampaignOptions &o)
{
    std::vector<CampaignCell> cells;
    for (const std::string &scenario : o.scenarios)
        for (const CampaignCell &cell : cells_of(o, scenario)) cells.push_back(cell);
    return cells;
}

std::vector<PlannedRun> plan_runs(const CampaignOptions &o)
{
    std::vector<PlannedRun> plan;
    const std::size_t allocators = o.allocators.size(), checked = allocators * o.schedules.size();
    const std::size_t cells = checked + (o.speed_rounds == 0 ? 0 : 2 * allocators);
    for (std::size_t first = 0; first < o.scenarios.size() * cells; first += cells) {
        for (std::size_t i = 0; i < checked; ++i) plan.push_back({first + i, 0});
        for (std::uint32_t round = 0; round < o.speed_rounds; ++round)
            for (std::size_t i = 0; i < allocators; ++i)
                plan.push_back({first + checked + (round + i) % allocators, round});
        for (std::size_t i = checked + allocators; i < cells; ++i) plan.push_back({first + i, 0});
    }
    return plan;
}

std::vector<std::string> run_arguments(const CampaignOptions &o, const CampaignCell &cell, std::uint64_t seed)
{
    const bool loop = cell.mode == RunMode::Speed && std::ranges::find(o.loops, cell.scenario) != o.loops.end();
    std::vector<std::string> words{cell.scenario};
    if (loop) words.insert(words.begin(), "speed");
    words.insert(words.end(), o.run_words.begin(), o.run_words.end());
    words.insert(words.end(), {"--allocator", cell.allocator, "--seed", std::to_string(seed)});
    if (cell.schedule == "os") words.insert(words.end(), o.os_words.begin(), o.os_words.end());
    else words.insert(words.end(), {"--schedule", cell.schedule});
    if (cell.mode != RunMode::Check && !loop)
        words.insert(words.end(), {"--no-check", cell.mode == RunMode::Tails ? "--latency" : "--no-latency"});
    return words;
}

std::string options_text(const CampaignOptions &o)
{
    std::vector<std::string> words = o.run_words;
    words.insert(words.end(), o.os_words.begin(), o.os_words.end());
    const std::string with = words_quoted(words);
    const std::string speed =
        o.speed_rounds == 0 ? "" : fmt::format("; {} rounds without checks, and one for latency", o.speed_rounds);
    const std::string seeds = o.shard.empty() ? "" : "; seeds " + o.shard;
    return fmt::format("{} on {}; schedule {}{}{}{}{}", fmt::join(o.scenarios, ", "), fmt::join(o.allocators, ", "),
                       fmt::join(o.schedules, " and "), with.empty() ? "" : ", with ", with, speed, seeds);
}

} // namespace stress

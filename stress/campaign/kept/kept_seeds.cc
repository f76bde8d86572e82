#include "campaign/kept/kept_seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "engine/base/cli_numbers.h"
#include "engine/base/file.h"

namespace stress {
namespace {

std::string file_name(const std::string &allocator)
{
    return allocator.substr(allocator.rfind('/') + 1);
}

} // namespace

std::string KeptSeeds::open(const std::string &path)
{
    path_ = path;
    if (path.empty()) return "";
    if (std::string fault = file_append(path, ""); !fault.empty()) return fault;
    std::string text;
    if (std::string fault = file_read(path, text); !fault.empty()) return fault;
    std::istringstream lines(text);
    std::size_t number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        std::istringstream words(line);
        std::string seed, rules;
        Kept kept;
        if (!(words >> seed) || seed[0] == '#') continue;
        words >> kept.scenario >> kept.schedule >> rules >> std::ws;
        std::getline(words, kept.allocator);
        if (kept.allocator.ends_with('\r')) kept.allocator.pop_back();
        const bool known_schedule = kept.schedule == "os" || kept.schedule == "seeded";
        if (!parse_number(seed, kept.seed) || !known_schedule || kept.allocator.empty())
            return fmt::format("{}:{}: must be SEED SCENARIO SCHEDULE RULES ALLOCATOR, not '{}'", path, number, line);
        if (std::find(kept_.begin(), kept_.end(), kept) == kept_.end()) kept_.push_back(kept);
    }
    return "";
}

std::vector<FirstRun> KeptSeeds::runs_of(const std::vector<CampaignCell> &cells, std::uint64_t shard,
                                         std::uint64_t stride) const
{
    std::vector<FirstRun> runs;
    std::uint64_t found = 0;
    for (const Kept &kept : kept_)
        for (std::size_t i = 0; i < cells.size(); ++i)
            if (cells[i].mode == RunMode::Check && cells[i].scenario == kept.scenario &&
                cells[i].schedule == kept.schedule && file_name(cells[i].allocator) == kept.allocator &&
                found++ % stride == shard)
                runs.push_back({i, kept.seed});
    return runs;
}

std::string KeptSeeds::add(const RunRecord &record)
{
    if (path_.empty() || !record.seed.has_value()) return "";
    const Kept kept{*record.seed, record.scenario, record.schedule, file_name(record.allocator)};
    if (std::find(kept_.begin(), kept_.end(), kept) != kept_.end()) return "";
    std::vector<std::string> rules;
    for (const RunFailure &failure : record.failures)
        if (std::find(rules.begin(), rules.end(), failure.rule) == rules.end()) rules.push_back(failure.rule);
    std::string rule = fmt::format("{}", fmt::join(rules, ","));
    std::replace(rule.begin(), rule.end(), ' ', '_');
    kept_.push_back(kept);
    return file_append(path_, fmt::format("{} {} {} {} {}\n", kept.seed, kept.scenario, kept.schedule,
                                          rule.empty() ? "?" : rule, kept.allocator));
}

} // namespace stress

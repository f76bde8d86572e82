#include "campaign/compare/comparison_text.h"

#include <fmt/format.h>

#include "campaign/page/html.h"
#include "campaign/command_words.h"
#include "engine/base/progress.h"

namespace stress {
namespace {

constexpr const char *kUnmeasured = "-";

template <typename Counted> std::string verdict_counts(const Counted &counted)
{
    const std::size_t runs = counted.runs, failed = counted.failed, skipped = counted.skipped, known = counted.known;
    if (failed != 0) return runs == 1 ? "FAIL" : fmt::format("FAIL {} of {}", failed, runs);
    if (known != 0) return runs == 1 ? "known" : fmt::format("known {} of {}", known, runs);
    if (skipped == runs) return "skip";
    return runs - skipped == 1 ? "pass" : fmt::format("pass {}", runs - skipped);
}

std::string ratio_shown(const std::optional<double> &ratio)
{
    return ratio.has_value() ? fmt::format("{:.2f}", *ratio) : kUnmeasured;
}

std::string spread_shown(const ComparedRow &row)
{
    return row.ratio_low.has_value() ? fmt::format("{:.2f}-{:.2f}", *row.ratio_low, *row.ratio_high) : kUnmeasured;
}

std::string time_shown(const LatencyRow &latency, std::uint64_t ns)
{
    return latency.count == 0 ? kUnmeasured : nanoseconds_text(static_cast<double>(ns));
}

std::string memory_shown(const std::optional<std::uint64_t> &bytes)
{
    return bytes.has_value() ? format_bytes(*bytes) : kUnmeasured;
}

std::string speed_explained(const Comparison &comparison)
{
    if (!comparison.has_speed) return "not measured; add --speed";
    const std::string loops = loop_scenarios(comparison), own = "with the suite's own work for each call";
    return "without checks, median of the rounds; to " + comparison.baseline + ": ratios within a round; " +
           (loops.empty() ? own
                          : "in " + loops + " of malloc and free alone, in the loops of ci/bench times" +
                                (comparison.has_own_speed ? "; elsewhere, and in the mean, " + own : ""));
}

} // namespace

std::string comparison_text(const Comparison &comparison)
{
    const std::string to = "to " + comparison.baseline;
    std::vector<std::vector<std::string>> rows{
        {"scenario", "malloc", "verdict", "ops/s", to, "(min-max)", "p50", "p99.9", "memory", "live"}};
    for (const ComparedScenario &one : comparison.scenarios)
        for (const ComparedRow &row : one.rows)
            if (row.runs != 0)
                rows.push_back({one.scenario, row.label, verdict_counts(row),
                                row.ops_per_second.has_value() ? format_rate(*row.ops_per_second) : kUnmeasured,
                                ratio_shown(row.ratio), spread_shown(row), time_shown(row.tail, row.tail.p50),
                                time_shown(row.tail, row.tail.p999), memory_shown(row.memory_bytes),
                                memory_shown(row.live_bytes)});
    std::string text = table_text(rows, 3);
    rows = {{"malloc", "verdict", "ops/s " + to, "p99.9 " + to, "memory"}};
    for (const ComparedTotal &total : comparison.totals)
        rows.push_back({total.label, verdict_counts(total), ratio_shown(total.ratio), ratio_shown(total.tail_ratio),
                        memory_shown(total.memory_bytes)});
    text += "\nall scenarios:\n" + table_text(rows, 2);
    text += fmt::format(
        "\nops/s: {}\np50, p99.9: of malloc, or of realloc where the scenario calls no malloc, {}\nmemory: the peak of the checked run above the "
        "harness's own; live: what the scenario held of it\n",
        speed_explained(comparison),
        comparison.tails_unchecked ? "without checks, one call in 61"
                                   : "in checked runs; --speed measures it without checks");
    return text;
}

} // namespace stress

#include "campaign/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace stress {
namespace {

using Chosen = std::vector<const RunRecord *>;

template <typename Text> void add_name_once(std::vector<Text> &list, const Text &text)
{
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Chosen runs_on(const std::vector<RunRecord> &runs, const std::string &scenario, const std::string &label)
{
    Chosen chosen;
    for (const RunRecord &run : runs)
        if (run.scenario == scenario && run.label == label) chosen.push_back(&run);
    return chosen;
}

bool measures_rate(const RunRecord &run)
{
    return run.mode == RunMode::Speed && run.verdict == RunVerdict::Pass && run.ops_per_second.value_or(0) > 0;
}

void add_throughput(ComparedRow &row, const Chosen &own, const Chosen &baseline)
{
    std::vector<double> rates, ratios;
    for (const RunRecord *run : own) {
        if (!measures_rate(*run)) continue;
        rates.push_back(*run->ops_per_second);
        for (const RunRecord *other : baseline) // a round has one seed
            if (measures_rate(*other) && other->seed == run->seed)
                ratios.push_back(*run->ops_per_second / *other->ops_per_second);
    }
    if (!rates.empty()) row.ops_per_second = median(rates);
    if (ratios.empty()) return;
    row.ratio = median(ratios);
    row.ratio_low = *std::min_element(ratios.begin(), ratios.end());
    row.ratio_high = *std::max_element(ratios.begin(), ratios.end());
}

// The newest run of this kind under the system's scheduler, or under any if there is none.
const RunRecord *newest_run(const Chosen &runs, RunMode mode)
{
    const RunRecord *found = nullptr;
    for (const RunRecord *run : runs)
        if (run->mode == mode && run->verdict != RunVerdict::Skip &&
            (found == nullptr || run->schedule == "os" || found->schedule != "os"))
            found = run;
    return found;
}

std::optional<std::uint64_t> harness_bytes(const std::vector<RunRecord> &runs, const std::string &scenario)
{
    std::optional<std::uint64_t> least;
    for (const RunRecord &run : runs)
        if (run.scenario == scenario && run.mode == RunMode::Check && run.start_rss_bytes.value_or(0) != 0)
            least = std::min(least.value_or(UINT64_MAX), *run.start_rss_bytes);
    return least;
}

ComparedRow compared_row(const Chosen &own, const Chosen &baseline, const std::optional<std::uint64_t> &harness)
{
    ComparedRow row;
    row.runs = own.size();
    for (const RunRecord *run : own) {
        row.failed += run->verdict == RunVerdict::Fail && run->expected.empty();
        row.known += run->verdict == RunVerdict::Fail && !run->expected.empty();
        row.skipped += run->verdict == RunVerdict::Skip;
    }
    add_throughput(row, own, baseline);
    const RunRecord *checked = newest_run(own, RunMode::Check), *tails = newest_run(own, RunMode::Tails);
    if (tails == nullptr) tails = checked;
    if (tails != nullptr) {
        row.tail = tails->malloc_ns.count != 0 ? tails->malloc_ns : tails->realloc_ns;
    }
    // A run that failed may have stopped before its peak.
    if (checked == nullptr || checked->verdict != RunVerdict::Pass || !harness.has_value()) return row;
    row.live_bytes = checked->peak_live_bytes;
    if (checked->peak_rss_bytes.has_value())
        row.memory_bytes = *checked->peak_rss_bytes > *harness ? *checked->peak_rss_bytes - *harness : 0;
    return row;
}

double tail_ns(const ComparedRow &row)
{
    return static_cast<double>(std::max<std::uint64_t>(row.tail.p999, 1));
}

// Means and sums are fair only over scenarios in which every allocator was measured; a mean of throughput, also, only over
// figures of one kind: loops of malloc and free alone show more of a malloc than scenarios do.
void add_totals(Comparison &comparison, std::size_t base)
{
    const auto whole = [](const ComparedScenario &one, auto measured) {
        return std::all_of(one.rows.begin(), one.rows.end(), measured);
    };
    for (std::size_t i = 0; i < comparison.totals.size(); ++i) {
        ComparedTotal &total = comparison.totals[i];
        double rates = 0, tails = 0;
        std::size_t rate_count = 0, tail_count = 0;
        for (const ComparedScenario &one : comparison.scenarios) {
            const ComparedRow &row = one.rows[i];
            total.runs += row.runs;
            total.failed += row.failed;
            total.skipped += row.skipped;
            total.known += row.known;
            const bool other_kind = comparison.has_own_speed && !one.loop.empty();
            if (!other_kind && whole(one, [](const ComparedRow &r) { return r.ratio.has_value(); })) {
                rates += std::log(*row.ratio);
                ++rate_count;
            }
            if (whole(one, [](const ComparedRow &r) { return r.tail.count != 0; })) {
                tails += std::log(tail_ns(row) / tail_ns(one.rows[base]));
                ++tail_count;
            }
            if (whole(one, [](const ComparedRow &r) { return r.memory_bytes.has_value(); })) {
                total.memory_bytes = total.memory_bytes.value_or(0) + *row.memory_bytes;
                ++total.scenarios;
            }
        }
        if (rate_count != 0) total.ratio = std::exp(rates / static_cast<double>(rate_count));
        if (tail_count != 0) total.tail_ratio = std::exp(tails / static_cast<double>(tail_count));
    }
}

std::string listed(const Comparison &comparison, const std::string ComparedScenario::*name)
{
    std::vector<std::string> names;
    for (const ComparedScenario &one : comparison.scenarios)
        if (!one.loop.empty()) names.push_back(one.*name);
    if (names.size() < 2) return names.empty() ? "" : names[0];
    const std::string last = names.back();
    names.pop_back();
    return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

} // namespace

std::string loop_scenarios(const Comparison &comparison)
{
    return listed(comparison, &ComparedScenario::scenario);
}

std::string loop_rows(const Comparison &comparison)
{
    return listed(comparison, &ComparedScenario::loop);
}

Comparison comparison_of(const std::vector<RunRecord> &runs)
{
    Comparison comparison;
    std::vector<std::string> scenarios, labels;
    for (const RunRecord &run : runs) {
        if (run.scenario.empty()) continue; // a result that cannot be read
        add_name_once(scenarios, run.scenario);
        add_name_once(labels, run.label);
        comparison.has_speed |= measures_rate(run);
        comparison.has_own_speed |= measures_rate(run) && run.loop.empty();
        comparison.tails_unchecked |= run.mode == RunMode::Tails;
    }
    if (labels.empty()) return comparison;
    const auto libc = std::find(labels.begin(), labels.end(), "libc");
    const std::size_t base = libc == labels.end() ? 0 : static_cast<std::size_t>(libc - labels.begin());
    comparison.baseline = labels[base];
    for (const std::string &scenario : scenarios) {
        ComparedScenario one{scenario, "", {}};
        for (const RunRecord &run : runs)
            if (run.scenario == scenario && measures_rate(run)) one.loop = run.loop;
        const Chosen baseline = runs_on(runs, scenario, comparison.baseline);
        const std::optional<std::uint64_t> harness = harness_bytes(runs, scenario);
        for (const std::string &label : labels) {
            one.rows.push_back(compared_row(runs_on(runs, scenario, label), baseline, harness));
            one.rows.back().label = label;
        }
        comparison.scenarios.push_back(one);
    }
    for (const std::string &label : labels) {
        comparison.totals.emplace_back();
        comparison.totals.back().label = label;
    }
    add_totals(comparison, base);
    return comparison;
}

} // namespace stress

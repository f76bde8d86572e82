#include "campaign/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "campaign/compare/labels.h"
#include "campaign/command_words.h"
#include "engine/base/junit.h"
#include "engine/base/progress.h"

namespace stress {
namespace {

constexpr const char *kNone = "-";

std::string rate_text(double ops_per_second)
{
    return ops_per_second < 0 ? kNone : format_rate(ops_per_second);
}

std::string bytes_text(double bytes)
{
    return bytes < 0 ? kNone : format_bytes(static_cast<std::uint64_t>(bytes));
}

std::string seconds_cell(double seconds)
{
    return seconds < 0 ? kNone : fmt::format("{:.1f}", seconds);
}

// A cell with one run says pass, fail or skip; with several runs it shows counts.
std::string verdict_counts(const CampaignCell &cell)
{
    const std::uint64_t runs = cell.passed + cell.failed + cell.skipped + cell.known;
    if (runs == 0) return "not run";
    if (cell.known != 0 && cell.failed == 0)
        return runs == 1 ? "known" : fmt::format("known {} of {}", cell.known, runs);
    if (runs == 1) return cell.failed != 0 ? "FAIL" : cell.skipped != 0 ? "skip" : "pass";
    std::string text = cell.failed != 0   ? fmt::format("FAIL {} of {}", cell.failed, runs)
                       : cell.passed != 0 ? fmt::format("pass {}", cell.passed)
                                          : fmt::format("skip {}", cell.skipped);
    return text;
}

std::string verdict_text(const CampaignCell &cell)
{
    return verdict_counts(cell) + (cell.unconfirmed == 0 ? "" : fmt::format(", {} not confirmed", cell.unconfirmed));
}

}  // namespace

std::string summary_line(const RunRecord &record)
{
    const char *verdict = record.verdict != RunVerdict::Fail ? verdict_name(record.verdict)
                          : record.expected.empty()          ? "FAIL"
                                                             : "known";
    const std::string mode = record.mode == RunMode::Check ? "" : std::string(", ") + mode_text(record.mode);
    std::string text = fmt::format("{}  {} on {}, {}{}, seed {}", verdict, record.scenario, record.allocator,
                                   record.schedule, mode, record.seed.value_or(0));
    if (record.verdict == RunVerdict::Skip) return text + ": skipped: " + record.skip_reason + "\n";
    if (record.ops_per_second.has_value()) text += ": " + format_rate(*record.ops_per_second) + " ops/s";
    if (record.peak_rss_bytes.has_value()) text += ", peak RSS " + format_bytes(*record.peak_rss_bytes);
    text += fmt::format(", {:.1f} s\n", record.seconds.value_or(record.wall_seconds.value_or(0)));
    for (const RunFailure &failure : record.failures)
        text += fmt::format("  failure: {}: {}\n", failure.rule, failure.detail);
    for (const RunFailure &failure : record.unconfirmed)
        text += fmt::format("  {}: {}: {}\n", unconfirmed_text(record), failure.rule, failure.detail);
    if (record.verdict == RunVerdict::Fail && !record.confirmation.empty()) text += "  " + record.confirmation + "\n";
    if (!record.expected.empty()) text += "  known: " + record.expected + "\n";
    if (record.verdict == RunVerdict::Fail) text += "  repeat with: " + record.reproduce + "\n";
    return text;
}

std::string summary_table(const std::vector<CampaignCell> &cells)
{
    std::vector<std::vector<std::string>> rows{
        {"scenario", "allocator", "schedule", "run", "verdict", "ops/s", "peak RSS", "seconds"}};
    std::vector<std::string> allocators;
    for (const CampaignCell &cell : cells)
        if (std::find(allocators.begin(), allocators.end(), cell.allocator) == allocators.end())
            allocators.push_back(cell.allocator);
    const std::vector<std::string> labels = allocator_labels(allocators);
    const auto label = [&](const std::string &allocator) {
        return labels[static_cast<std::size_t>(std::find(allocators.begin(), allocators.end(), allocator) -
                                               allocators.begin())];
    };
    for (const CampaignCell &cell : cells)
        rows.push_back({cell.scenario, label(cell.allocator), cell.schedule, mode_text(cell.mode), verdict_text(cell),
                        rate_text(cell.ops_per_second), bytes_text(cell.peak_rss_bytes), seconds_cell(cell.seconds)});
    return table_text(rows, 5);
}

std::string summary_junit(const std::vector<RunRecord> &runs, const std::vector<std::string> &mended)
{
    std::vector<JunitCase> cases;
    for (const RunRecord &run : runs) {
        JunitCase one;
        one.group = "hakmem-stress." + run.label;
        one.name = run.scenario + ", " + run.schedule + ", " + mode_text(run.mode);
        if (run.mode == RunMode::Speed) one.name += fmt::format(", seed {}", run.seed.value_or(0));
        one.seconds = run.wall_seconds.value_or(run.seconds.value_or(0));
        if (run.verdict == RunVerdict::Skip) one.message = run.skip_reason;
        else if (!run.expected.empty()) one.message = "known failure: " + run.expected;
        for (const RunFailure &failure : run.failures) {
            if (one.message.empty()) one.message = failure.rule + ": " + failure.detail;
            one.detail += failure.rule + ": " + failure.detail + "\n";
        }
        for (const RunFailure &failure : run.unconfirmed)
            one.detail += unconfirmed_text(run) + ": " + failure.rule + ": " + failure.detail + "\n";
        if (run.verdict == RunVerdict::Fail && !run.confirmation.empty()) one.detail += run.confirmation + "\n";
        if (run.verdict != RunVerdict::Pass || !run.unconfirmed.empty())
            one.detail += "repeat with: " + run.reproduce + "\n";
        one.kind = run.verdict == RunVerdict::Pass                            ? JunitCase::Kind::Passed
                   : run.verdict == RunVerdict::Skip || !run.expected.empty() ? JunitCase::Kind::Skipped
                                                                              : JunitCase::Kind::Failed;
        cases.push_back(one);
    }
    for (const std::string &line : mended)
        cases.push_back({"hakmem-stress.expect", line, JunitCase::Kind::Failed, 0, line, line});
    return junit_xml("hakmem-stress all", cases);
}

std::string soak_junit(const std::vector<CampaignCell> &cells, const std::vector<std::string> &mended)
{
    std::vector<JunitCase> cases;
    for (const CampaignCell &cell : cells) {
        JunitCase one{"hakmem-stress." + cell.allocator,
                      cell.scenario + ", " + cell.schedule,
                      JunitCase::Kind::Passed,
                      std::max(cell.seconds, 0.0),
                      "",
                      ""};
        const std::uint64_t runs = cell.passed + cell.failed + cell.skipped + cell.known;
        if (cell.failed != 0) {
            one.kind = JunitCase::Kind::Failed;
            one.message = fmt::format("{} of {} runs failed", cell.failed, runs);
            one.detail = one.message + "; the report's page has each with its command\n";
        } else if (cell.known != 0) {
            one.kind = JunitCase::Kind::Skipped;
            one.message = fmt::format("known failure: {} of {} runs", cell.known, runs);
        } else if (cell.passed == 0) {
            one.kind = JunitCase::Kind::Skipped;
            one.message = cell.skip_reason.empty() ? "not run" : cell.skip_reason;
        } else if (cell.unconfirmed != 0) {
            one.detail =
                fmt::format("{} of {} runs passed after a failure that was not confirmed\n", cell.unconfirmed, runs);
        }
        cases.push_back(one);
    }
    for (const std::string &line : mended)
        cases.push_back({"hakmem-stress.expect", line, JunitCase::Kind::Failed, 0, line, line});
    return junit_xml("hakmem-stress soak", cases);
}

std::string summary_skips(const std::vector<CampaignCell> &cells)
{
    std::string text;
    for (const CampaignCell &cell : cells)
        if (cell.skipped != 0)
            text += fmt::format("skipped: {} on {}, {}: {}\n", cell.scenario, cell.allocator, cell.schedule,
                                cell.skip_reason);
    return text.empty() ? "no skips\n" : text;
}

}  // namespace stress

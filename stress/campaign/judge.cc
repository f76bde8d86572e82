#include "campaign/judge.h"
#include "engine/base/libc.h"
#include "engine/judge/failure.h"
#include "engine/run/monitor.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <iterator>
#include <string_view>

namespace stress {
namespace {

constexpr std::string_view kSkipMark = "skipped: ";

std::string seconds_text(double seconds)
{
    char text[32];
    std::snprintf(text, sizeof text, "%g s", seconds);
    return text;
}

std::string with_last_line(const std::string &what, const ChildOutcome &outcome)
{
    return what +
           (outcome.err_last_line.empty() ? "; nothing on stderr" : "; last line of stderr: " + outcome.err_last_line);
}

void fail(RunRecord &record, const char *rule, const std::string &detail)
{
    record.verdict = RunVerdict::Fail;
    record.failures.push_back({rule, detail});
}

bool has_rule(const std::vector<RunFailure> &list, const std::string &rule)
{
    return std::ranges::any_of(list, [&rule](const RunFailure &failure) { return failure.rule == rule; });
}

bool is_one_of(const RunFailure &failure, std::initializer_list<const char *> rules)
{
    return std::ranges::any_of(rules, [&failure](const char *rule) { return failure.rule == rule; });
}

// Whether a failure may not come again with the same arguments. Memory is sampled by the clock, also where the seed
// decides the schedule.
bool depends_on_timing(const RunRecord &record, const RunFailure &failure)
{
    if (record.strict.value_or(false)) return false;
    return is_one_of(failure, {rule::kMemoryBound, rule::kPlateau, rule::kMemoryReturn, rule::kMappings}) ||
           (record.schedule == "os" && failure.rule == rule::kProvesNothing);
}

// For a run that exited: checks that its status, its result and its verdict agree.
void judge_exit(const ChildOutcome &outcome, const std::string &fault, RunRecord &record)
{
    const std::string status = "exit status " + std::to_string(outcome.code);
    if (outcome.code == kSkipStatus) {
        if (outcome.out_last_line.starts_with(kSkipMark)) {
            record.verdict = RunVerdict::Skip;
            record.skip_reason = outcome.out_last_line.substr(kSkipMark.size());
            record.failures.clear();
        } else {
            fail(record, "error", with_last_line("skipped without a reason", outcome));
        }
        return;
    }
    if (outcome.json.empty() || !fault.empty()) {
        // A run's own watchdog ends it with status 1, before any result.
        const bool hang = outcome.code == 1 && outcome.err_end.find(kWatchdogWords) != std::string::npos;
        const std::string what =
            outcome.json.empty() ? "left no result" : "left a result that cannot be used: " + fault;
        fail(record, hang ? "hang" : "error", with_last_line(what + ", " + status, outcome));
    } else if (outcome.code != (record.verdict == RunVerdict::Pass ? 0 : 1)) {
        fail(record, "error",
             with_last_line(std::string("verdict ") + verdict_name(record.verdict) + ", but " + status, outcome));
    } else if (record.verdict == RunVerdict::Pass && record.ops.value_or(1) == 0) {
        fail(record, "error", "did no op");
    }
}

}  // namespace

RunRecord judge(const ChildOutcome &outcome, double timeout_seconds)
{
    std::string fault;
    RunRecord record = record_read(outcome.json, &fault);
    if (!fault.empty()) record.failures.clear();  // reported below, with how the run ended
    record.wall_seconds = outcome.seconds;
    switch (outcome.end) {
    case ChildEnd::Exited: judge_exit(outcome, fault, record); break;
    case ChildEnd::Signalled: {
        const char *name = signal_name(outcome.code);
        fail(record, "crash",
             with_last_line("signal " + (name != nullptr ? "SIG" + std::string(name) : std::to_string(outcome.code)),
                            outcome));
        break;
    }
    case ChildEnd::TimedOut:
        fail(record, "hang",
             with_last_line("the run " + outcome.stuck + ", killed; the limit is " + seconds_text(timeout_seconds),
                            outcome));
        break;
    case ChildEnd::Memory: fail(record, "memory_cap", with_last_line("the run " + outcome.stuck, outcome)); break;
    case ChildEnd::Slow:
        record.verdict = RunVerdict::Skip;
        record.skip_reason = "slow: the run " + outcome.stuck;
        record.failures.clear();
        break;
    case ChildEnd::Outside:
        record.verdict = RunVerdict::Skip;
        record.skip_reason = outcome.stuck;
        record.failures.clear();
        break;
    case ChildEnd::Interrupted: fail(record, "error", "interrupted"); break;
    case ChildEnd::NotStarted: fail(record, "error", std::string("could not start: ") + strerror(outcome.code)); break;
    }
    if (record.verdict == RunVerdict::Fail) record.err_end = outcome.err_end;
    return record;
}

bool judge_wants_again(const RunRecord &record, unsigned runs)
{
    return record.verdict == RunVerdict::Fail && runs < kConfirmingRuns &&
           std::ranges::all_of(
               record.failures, [&](const RunFailure &failure) { return depends_on_timing(record, failure); });
}

RunRecord judge_again(const RunRecord &before, const RunRecord &again, unsigned runs)
{
    RunRecord record = again.verdict == RunVerdict::Pass ? again : before;
    if (again.verdict == RunVerdict::Skip) {
        record.confirmation =
            fmt::format("seen in {} of {} runs; the last was skipped: {}", runs - 1, runs, again.skip_reason);
        return record;
    }
    const auto keep_once = [](std::vector<RunFailure> &list, const RunFailure &failure) {
        if (!has_rule(list, failure.rule)) list.push_back(failure);
    };
    record.unconfirmed = before.unconfirmed;
    for (const RunFailure &failure : again.unconfirmed) keep_once(record.unconfirmed, failure);
    if (again.verdict == RunVerdict::Pass) {
        record.confirmation = fmt::format("not confirmed: seen in {} of {} runs", runs - 1, runs);
        for (const RunFailure &failure : before.failures) keep_once(record.unconfirmed, failure);
        return record;
    }
    record.confirmation = fmt::format("seen in {} of {} runs", runs, runs);
    if (std::ranges::any_of(before.failures,
                            [&](const RunFailure &failure) { return has_rule(again.failures, failure.rule); })) {
        // A rule that only some of the runs broke is as unsure as one that one of two broke.
        const auto lost = [&](const RunFailure &failure) {
            return depends_on_timing(before, failure) && !has_rule(again.failures, failure.rule);
        };
        for (const RunFailure &failure : record.failures)
            if (lost(failure)) keep_once(record.unconfirmed, failure);
        std::erase_if(record.failures, lost);
    }
    for (const RunFailure &failure : again.failures) {
        if (has_rule(before.failures, failure.rule)) continue;
        const RunFailure later{failure.rule, fmt::format("in run {}: {}", runs, failure.detail)};
        if (depends_on_timing(before, failure)) keep_once(record.unconfirmed, later);
        else record.failures.push_back(later);
    }
    if (record.err_end.empty()) record.err_end = again.err_end;
    // memory_bound ends a run as soon as it is broken. Whether enough laps had passed for plateau is chance, so its
    // figures become a part of the other's.
    const auto is = [](const char *rule) { return [rule](const RunFailure &failure) { return failure.rule == rule; }; };
    const auto bound = std::ranges::find_if(record.failures, is(rule::kMemoryBound));
    const auto plateau = std::ranges::find_if(record.failures, is(rule::kPlateau));
    if (runs == kConfirmingRuns && bound != record.failures.end() && plateau != record.failures.end()) {
        bound->detail += "; plateau: " + plateau->detail;
        record.failures.erase(plateau);
    }
    return record;
}

} // namespace stress

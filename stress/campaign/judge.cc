#include "campaign/judge.h"
#include "engine/base/libc.h"
#include "engine/judge/failure.h"

#include <string.h>

#include <algorithm>
#include <cstdio>
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
        const bool hang = outcome.code == 1 && outcome.err_last_line.find("watchdog") != std::string::npos;
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
    case ChildEnd::Interrupted: fail(record, "error", "interrupted"); break;
    case ChildEnd::NotStarted: fail(record, "error", std::string("could not start: ") + strerror(outcome.code)); break;
    }
    if (record.verdict == RunVerdict::Fail) record.err_end = outcome.err_end;
    return record;
}

bool judge_wants_again(const RunRecord &record)
{
    if (record.verdict != RunVerdict::Fail || record.schedule != "os" || record.strict.value_or(false)) return false;
    return std::all_of(record.failures.begin(), record.failures.end(), [](const RunFailure &failure) {
        for (const char *measured :
             {rule::kMemoryBound, rule::kPlateau, rule::kMemoryReturn, rule::kMappings, rule::kProvesNothing})
            if (failure.rule == measured) return true;
        return false;
    });
}

RunRecord judge_both(const RunRecord &first, const RunRecord &second)
{
    if (second.verdict == RunVerdict::Pass) {
        RunRecord record = second;
        record.confirmation = "not confirmed: seen in 1 of 2 runs";
        record.unconfirmed = first.failures;
        return record;
    }
    RunRecord record = first;
    if (second.verdict == RunVerdict::Skip) {
        record.confirmation = "seen in 1 of 2 runs; the second was skipped: " + second.skip_reason;
        return record;
    }
    record.confirmation = "seen in 2 of 2 runs";
    for (const RunFailure &failure : second.failures) {
        const auto same = [&failure](const RunFailure &seen) { return seen.rule == failure.rule; };
        if (std::none_of(first.failures.begin(), first.failures.end(), same))
            record.failures.push_back({failure.rule, "in the second run: " + failure.detail});
    }
    if (record.err_end.empty()) record.err_end = second.err_end;
    return record;
}

}  // namespace stress

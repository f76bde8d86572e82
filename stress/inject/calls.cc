// Fails each system call for memory in turn, in the manner of SQLite's fault tests.
#include <fmt/core.h>

#include <algorithm>

#include "engine/subject/fault_os.h"
#include "inject/inject.h"

namespace stress::inject {
namespace {

constexpr std::uint64_t kCallsOps = 400, kCallsOpsMin = 20, kCallsOpsMax = 64'000;
constexpr std::uint64_t kCallsMin = 5;
constexpr std::uint32_t kThreadsMore = 16;
constexpr std::uint64_t kFailuresMax = 3;  // of one scenario; further ones are mostly the same

// Runs the scenario with more and more ops as long as it makes too few calls.
Outcome count_up(Task &task, std::uint64_t calls_min)
{
    Outcome outcome = run_once(task);
    while (outcome.failure.empty() && outcome.skip.empty() && outcome.calls < calls_min && task.settings.ops == 0 &&
           task.ops * 4 <= kCallsOpsMax) {
        task.ops *= 4;
        outcome = run_once(task);
    }
    return outcome;
}

// Runs the scenario without a fault and counts its calls. Uses more ops, then more threads, if it makes no call, and
// fewer ops if it makes too many and half as many ops make enough. If a seeded run can prove nothing, it runs under the
// system's scheduler, unless the user chose a schedule.
Outcome count(Task &task)
{
    const std::uint64_t calls_min = std::min(kCallsMin, task.settings.calls_max), ops = task.ops;
    if (!task.settings.schedule && !run_once(task).skip.empty()) task.schedule = Schedule::Os;
    Outcome outcome = count_up(task, calls_min);
    if (outcome.failure.empty() && outcome.skip.empty() && outcome.calls == 0 && task.settings.ops == 0) {
        task.threads = kThreadsMore;
        task.ops = ops;
        outcome = count_up(task, calls_min);
    }
    while (outcome.failure.empty() && outcome.skip.empty() && outcome.calls > task.settings.calls_max &&
           task.settings.ops == 0 && task.ops / 2 >= kCallsOpsMin) {
        Task shorter = task;
        shorter.ops /= 2;
        const Outcome fewer = run_once(shorter);
        if (fewer.failure.empty() && fewer.calls < calls_min) break;
        task.ops = shorter.ops;
        outcome = fewer;
    }
    return outcome;
}

// Fails call 1, 2, ... until a run has no call left to fail.
std::uint64_t each(Task task, bool for_ever, Totals::Row &row, Totals &totals)
{
    std::uint64_t failures = 0;
    for (std::uint64_t call = 1; failures < kFailuresMax; ++call) {
        task.injection.call = call;
        task.injection.for_ever = for_ever;
        const Outcome outcome = run_judged(task, row.kept);
        row.add(outcome);
        if (totals.failed(task, outcome)) ++failures;
        else if (calls_are_over(outcome, call, row.calls)) break;
    }
    return failures;
}

// Fails the one call that --call names, and judges the run in the same way. Returns why there is no verdict, or nothing.
std::string alone(Task task, Totals::Row &row, Totals &totals)
{
    task.injection.call = task.settings.call;
    task.injection.for_ever = task.settings.for_ever;
    const Outcome outcome = run_judged(task, row.kept);
    row.add(outcome);
    if (totals.failed(task, outcome) || outcome.failed_calls != 0) return "";
    if (!outcome.skip.empty()) return outcome.skip;
    const char *runs_differ = task.schedule == Schedule::Os ? ", and the next one may make more; try again" : "";
    totals.proves_nothing(task.scenario, fmt::format("call {} never came: this run makes {}{}", task.injection.call,
                                                     outcome.calls, runs_differ));
    return "";
}

} // namespace

bool calls_are_over(const Outcome &outcome, std::uint64_t call, std::uint64_t counted)
{
    return outcome.failed_calls == 0 && call > counted;
}

void calls_of(const Settings &settings, const std::string &scenario, Totals &totals)
{
    if (const std::string why = fault_os_refusal(); !why.empty()) return totals.skipped(scenario, why);
    Task task{settings,
              scenario,
              settings.schedule.value_or(Schedule::Seeded),
              settings.ops != 0 ? settings.ops : kCallsOps,
              {},
              settings.threads};
    task.injection.traps_calls = true;
    Totals::Row row;
    row.scenario = scenario;
    const Outcome counted = count(task);
    if (!counted.skip.empty()) return totals.skipped(scenario, counted.skip);
    if (totals.failed(task, counted)) return;
    row.ops = task.ops;
    row.calls = counted.calls;
    row.kept = counted.kept;
    row.unseen = loss_unseen(task);
    if (task.schedule == Schedule::Os) row.note = ", under the system's scheduler";
    if (settings.call != 0) {
        const std::string why = alone(task, row, totals);
        return why.empty() ? totals.done(row) : totals.skipped(scenario, why);
    }
    if (row.calls == 0)
        return totals.skipped(scenario, fmt::format("{} ops of {} threads make no call to the system for memory",
                                                    task.ops, task.threads));
    std::uint64_t failures = 0;
    for (bool for_ever : {false, true}) failures += each(task, for_ever, row, totals);
    if (failures == 0 && row.failed_calls == 0 && row.slow != 0) return totals.skipped(scenario, row.without_verdict());
    if (failures == 0 && row.failed_calls == 0)
        totals.proves_nothing(scenario, fmt::format("of {} calls none was made to fail", row.calls));
    totals.done(row);
}

} // namespace stress::inject

// Limits the address space, and doubles the limit from run to run until nothing is refused.
#include <fmt/core.h>

#include "engine/base/build.h"
#include "inject/inject.h"

namespace stress::inject {
namespace {

constexpr std::uint64_t kSpaceOps = 1000;
// Odd, because multiples of the amount that a malloc maps at a time do not reach every sum of such amounts.
constexpr std::uint64_t kFirstBytes = 3 * 4096, kLastBytes = std::uint64_t{64} << 30;

}  // namespace

void space_of(const Settings &settings, const std::string &scenario, Totals &totals)
{
    if (kSanitized) return totals.skipped(scenario, "a sanitizer needs terabytes of address space itself");
    if (scenario == "dlopen")
        return totals.skipped(scenario, "libc ends the process if it has no memory to register a destructor");
    Task task{settings,
              scenario,
              settings.schedule.value_or(Schedule::Seeded),
              settings.ops != 0 ? settings.ops : kSpaceOps,
              {},
              settings.threads};
    Totals::Row row;
    row.scenario = scenario;
    row.ops = task.ops;
    task.injection.limit_bytes = kNoLimitBytes;
    Outcome free = run_once(task);
    if (!free.skip.empty() && !settings.schedule) {
        task.schedule = Schedule::Os;
        free = run_once(task);
    }
    if (!free.skip.empty()) return totals.skipped(scenario, free.skip);
    row.kept = free.kept;
    if (task.schedule == Schedule::Os) row.note = ", under the system's scheduler";
    row.unseen = loss_unseen(task);
    bool failed = totals.failed(task, free), untouched = false;
    const bool alone = settings.limit_bytes != 0;
    std::uint64_t limit_bytes = alone ? settings.limit_bytes : kFirstBytes;
    for (; !failed && !untouched && limit_bytes <= kLastBytes; limit_bytes *= 2) {
        task.injection.limit_bytes = limit_bytes;
        const Outcome outcome = run_judged(task, row.kept);
        row.add(outcome);
        failed = totals.failed(task, outcome);
        untouched = alone || (outcome.skip.empty() && outcome.refused == 0 && limit_bytes > (std::uint64_t{1} << 20));
    }
    if (!failed && row.refused == 0 && row.slow != 0) return totals.skipped(scenario, row.without_verdict());
    if (!failed && row.refused == 0)
        totals.proves_nothing(scenario,
                              fmt::format("no request was refused where {} bytes more could be mapped; give {}",
                                          alone ? settings.limit_bytes : kFirstBytes,
                                          alone ? "a lower --limit" : "more --ops"));
    totals.done(row);
}

}  // namespace stress::inject

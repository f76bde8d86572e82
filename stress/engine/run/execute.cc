#include "engine/run/execute.h"

#include <unistd.h>

#include <optional>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/progress.h"
#include "engine/base/verdict.h"
#include "engine/judge/remains.h"
#include "engine/run/crash.h"
#include "engine/run/monitor.h"
#include "engine/run/run.h"
#include "engine/watch/self_stack.h"

namespace stress {
namespace {

constexpr int kSkipped = 77;

void write_json(const std::string &path, const Result &result)
{
    if (path.empty()) return;
    if (const std::string fault = result_write(path, result_json(result)); !fault.empty())
        result_lost("--json: " + fault);
}

// Two seeded runs of one command must be equal; otherwise something other than the seed decided.
void judge_schedule(const Execution &execution, Result &result)
{
    const Options &options = execution.options;
    if (!result.seeded || !execution.takes_schedule) return;
    if (!options.expect_schedule.has_value()) {
        result.reproduce += " --expect-schedule " + schedule_text({result.schedule_hash, result.logical_clock});
        return;
    }
    const ScheduleMark found{result.schedule_hash, result.logical_clock};
    if (found == *options.expect_schedule) return;
    result.failures.push_back({rule::kDiverged, "expected schedule " + schedule_text(*options.expect_schedule) +
                                                    ", found " + schedule_text(found) +
                                                    "; this run is not the one that was to be repeated"});
}

// Runs the plan, watched, and puts a crash down to it.
Result run_watched(Run &run, const Execution &execution, int out)
{
    const Options &options = execution.options;
    if (execution.before_run) execution.before_run(run);
    crash_report_install({run.failures(), run.seats(), run.so_far(execution.name, execution.reproduce),
                          options.json_path, execution.stacks});
    const auto on_hang = [&](const std::string &detail) {
        Result hung = run.so_far(execution.name, execution.reproduce);
        hung.failures.push_back({rule::kProgress, detail});
        verdict_reached("fail");
        write_json(options.json_path, hung);
    };
    Monitor monitor(run.meter(), run.seats(), run.failures(),
                    {out, options.watchdog_seconds, execution.seed, execution.reproduce, options.check, on_hang});
    Result result = run.run(execution.name, execution.reproduce);
    monitor.stop();
    for (std::size_t i = 0; i < monitor.samples().size(); ++i) result.samples.push_back(monitor.samples()[i]);
    return result;
}

// Runs the plan in rounds, up to the first that fails, and judges what is left after each. The result is that of the last.
Result run_repeated(std::optional<Run> &run, const Execution &execution, Plan &plan, int out)
{
    const Options &options = execution.options;
    Rounds rounds;
    rounds.reserve(options.repeat); // so that it takes no memory between two rounds
    Result result;
    do {
        Plan again = rounds.empty() ? Plan() : execution.plan_again();
        run.emplace(options, execution.seed, execution.support, rounds.empty() ? plan : again);
        result = run_watched(*run, execution, out);
        crash_report_remove();
        run.reset();
        rounds.push_back(held_now());
    } while (result.passed() && rounds.size() < options.repeat);
    result.remains = remains_text(rounds);
    const std::string fault = remains_fault(rounds, options.strict, options.threads);
    if (result.passed() && !fault.empty()) result.failures.push_back({rule::kRemains, fault});
    return result;
}

} // namespace

int execute(const Execution &execution, Plan &plan)
{
    const Options &options = execution.options;
    // JSON on stdout must parse, so all text for people then goes to stderr.
    const int out = options.json_path == "-" ? STDERR_FILENO : STDOUT_FILENO;
    write_text(out, "seed " + std::to_string(execution.seed) + "\n");
    if (options.repeat > 1 && plan.traps_os)
        plan.skip = "a filter of system calls stays for good, so a run that sets one cannot be repeated";
    if (!plan.skip.empty()) {
        write_text(out, "skipped: " + plan.skip + "\n");
        verdict_reached("skipped");
        return kSkipped;
    }

    if (execution.stacks) self_stack_prepare(plan.traps_os || plan.injection.traps_calls);
    std::optional<Run> run; // until the result is written
    Result result;
    if (options.repeat > 1) {
        result = run_repeated(run, execution, plan, out);
    } else {
        run.emplace(options, execution.seed, execution.support, plan);
        result = run_watched(*run, execution, out);
    }
    judge_schedule(execution, result);
    if (execution.after_run) execution.after_run(result);
    verdict_reached(result.passed() ? "pass" : "fail");
    write_json(options.json_path, result);
    write_text(out, result_summary(result));
    crash_report_remove();
    self_stack_end();
    return result.passed() ? 0 : 1;
}

} // namespace stress

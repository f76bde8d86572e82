// The outcome of the runs: a line for each scenario, each failure with the command that repeats it, and the totals.
#include <fmt/core.h>
#include <unistd.h>

#include "engine/base/progress.h"
#include "engine/base/verdict.h"
#include "inject/inject.h"

namespace stress::inject {
namespace {

std::string figures(const Settings &settings, const Tally::Row &row)
{
    if (settings.kind == "signals")
        return fmt::format("{} runs, {} ops, {} signals, {} of them inside the allocator", row.runs, row.ops,
                           row.signals, row.signals_inside);
    if (settings.kind == "space") return fmt::format("{} runs, {} requests refused", row.runs, row.refused);
    return fmt::format("{} calls, {} runs, {} calls failed, {} requests refused", row.calls, row.runs, row.failed_calls,
                       row.refused);
}

}  // namespace

void Tally::Row::add(const Outcome &outcome)
{
    runs += 1;
    slow += !outcome.skip.empty();
    failed_calls += outcome.failed_calls;
    refused += outcome.refused;
    signals += outcome.signals;
    signals_inside += outcome.signals_inside;
}

void Tally::skipped(const std::string &scenario, const std::string &why)
{
    ++skipped_;
    write_text(out_, fmt::format("{:<16} skipped: {}\n", scenario, why));
}

bool Tally::failed(const Task &task, const Outcome &outcome)
{
    if (outcome.failure.empty()) return false;
    ++failures_;
    write_text(out_, fmt::format("{:<16} failure: {}\n{:<16} repeat with: {}\n", task.scenario, outcome.failure, "",
                                 task_command(task)));
    return true;
}

void Tally::proves_nothing(const std::string &scenario, const std::string &why)
{
    ++failures_;
    write_text(out_, fmt::format("{:<16} failure: proves_nothing: {}\n", scenario, why));
}

void Tally::done(const Row &row)
{
    ++scenarios_;
    sum_.ops += row.ops;
    sum_.calls += row.calls;
    sum_.runs += row.runs;
    sum_.failed_calls += row.failed_calls;
    sum_.refused += row.refused;
    sum_.signals += row.signals;
    sum_.signals_inside += row.signals_inside;
    const std::string ops = settings_.kind == "signals" ? "" : fmt::format("{} ops, ", row.ops);
    if (!row.unseen.empty()) ++unseen_;
    const std::string unseen = row.unseen.empty() ? "" : "; not looked at for loss: " + row.unseen;
    const std::string slow = row.slow == 0 ? "" : fmt::format("; {} runs were too slow to judge", row.slow);
    write_text(out_,
               fmt::format("{:<16} {}{}{}{}{}\n", row.scenario, ops, figures(settings_, row), row.note, slow, unseen));
}

int Tally::finish()
{
    const bool passed = failures_ == 0;
    // Signals refuse no memory. Only the balance of each run judges what was freed.
    const std::string unseen = settings_.kind == "signals" ? "" : fmt::format(", {} not looked at for loss", unseen_);
    write_text(out_, fmt::format("inject {} on {}, seed {}: {} scenarios, {} skipped{}: {}, {} failures\nverdict {}\n",
                                 settings_.kind, settings_.allocator, settings_.seed, scenarios_, skipped_, unseen,
                                 figures(settings_, sum_), failures_,
                                 !passed           ? "fail"
                                 : scenarios_ == 0 ? "skipped"
                                                   : "pass"));
    verdict_reached(!passed ? "fail" : scenarios_ == 0 ? "skipped" : "pass");
    if (!passed) return 1;
    return scenarios_ == 0 ? kSkipped : 0;
}

}  // namespace stress::inject

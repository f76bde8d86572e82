// The outcome of the runs: a line for each scenario, each failure with the command that repeats it, and the totals.
#include <fmt/core.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/junit.h"
#include "engine/base/progress.h"
#include "engine/base/verdict.h"
#include "inject/inject.h"

namespace stress::inject {
namespace {

std::string figures(const Settings &settings, const Totals::Row &row)
{
    if (settings.kind == "signals")
        return fmt::format("{} runs, {} ops, {} signals, {} of them inside the allocator", row.runs, row.ops,
                           row.signals, row.signals_inside);
    if (settings.kind == "space") return fmt::format("{} runs, {} requests refused", row.runs, row.refused);
    return fmt::format("{} calls, {} runs, {} calls failed, {} requests refused", row.calls, row.runs, row.failed_calls,
                       row.refused);
}

}  // namespace

void Totals::Row::add(const Outcome &outcome)
{
    runs += 1;
    slow += !outcome.skip.empty();
    failed_calls += outcome.failed_calls;
    refused += outcome.refused;
    signals += outcome.signals;
    signals_inside += outcome.signals_inside;
}

std::string Totals::Row::without_verdict() const
{
    return fmt::format("{} run{} gave no verdict (slow, or killed from outside)", slow, slow == 1 ? "" : "s");
}

void Totals::begin(const std::string &scenario)
{
    judged_.push_back({scenario, "", {}, {}, now_seconds(), 0});
}

void Totals::fail(const std::string &scenario, const std::string &rule, const std::string &text)
{
    ++failures_;
    if (judged_.empty() || judged_.back().scenario != scenario) begin(scenario);
    judged_.back().rules.push_back(rule);
    judged_.back().texts.push_back(text);
}

void Totals::skipped(const std::string &scenario, const std::string &why)
{
    ++skipped_;
    if (judged_.empty() || judged_.back().scenario != scenario) begin(scenario);
    if (judged_.back().rules.empty()) judged_.back().skip = why; // a run before may have failed
    write_text(out_, fmt::format("{:<16} skipped: {}\n", scenario, why));
}

bool Totals::failed(const Task &task, const Outcome &outcome)
{
    if (outcome.failure.empty()) return false;
    fail(task.scenario, outcome.failure.substr(0, outcome.failure.find(": ")),
         outcome.failure + "\nrepeat with: " + task_command(task));
    write_text(out_, fmt::format("{:<16} failure: {}\n{:<16} repeat with: {}\n", task.scenario, outcome.failure, "",
                                 task_command(task)));
    return true;
}

void Totals::proves_nothing(const std::string &scenario, const std::string &why)
{
    fail(scenario, "proves_nothing", "proves_nothing: " + why);
    write_text(out_, fmt::format("{:<16} failure: proves_nothing: {}\n", scenario, why));
}

void Totals::done(const Row &row)
{
    ++scenarios_;
    if (!judged_.empty()) judged_.back().seconds = now_seconds() - judged_.back().start_seconds;
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
    const std::string slow = row.slow == 0 ? "" : "; " + row.without_verdict();
    write_text(out_,
               fmt::format("{:<16} {}{}{}{}{}\n", row.scenario, ops, figures(settings_, row), row.note, slow, unseen));
}

// A line for each scenario whose failures are all known; they no longer count as failures. Fills in why.
std::string Totals::judge_known()
{
    std::string text;
    for (Judged &one : judged_) {
        if (!one.skip.empty()) continue;
        const std::string reason = expected_.judge(one.scenario, settings_.allocator, one.rules);
        if (reason.empty()) continue;
        failures_ -= one.rules.size();
        known_ += one.rules.size();
        one.skip = "known failure: " + reason;
        text += fmt::format("{:<16} known: {}\n", one.scenario, reason);
    }
    return text;
}

std::string Totals::junit(const std::vector<std::string> &mended)
{
    std::vector<JunitCase> cases;
    for (const Judged &one : judged_) {
        JunitCase test{"hakmem-stress.inject." + settings_.kind + "." + settings_.allocator,
                       one.scenario,
                       JunitCase::Kind::Passed,
                       one.seconds,
                       one.skip,
                       ""};
        if (!one.skip.empty()) test.kind = JunitCase::Kind::Skipped;
        else if (!one.rules.empty()) test.kind = JunitCase::Kind::Failed;
        for (const std::string &failure : one.texts) test.detail += failure + "\n";
        if (test.message.empty() && !one.texts.empty()) test.message = one.texts[0].substr(0, one.texts[0].find('\n'));
        cases.push_back(test);
    }
    for (const std::string &line : mended)
        cases.push_back({"hakmem-stress.expect", line, JunitCase::Kind::Failed, 0, line, line});
    return junit_xml("hakmem-stress inject " + settings_.kind, cases);
}

int Totals::finish()
{
    write_text(out_, judge_known());
    const std::vector<std::string> mended = expected_.mended();
    for (const std::string &line : mended) write_text(out_, line + "\n");
    const bool passed = failures_ == 0 && mended.empty();
    const std::string known = known_ == 0 ? "" : fmt::format(", {} known", known_);
    // Signals refuse no memory. Only the balance of each run judges what was freed.
    const std::string unseen = settings_.kind == "signals" ? "" : fmt::format(", {} not looked at for loss", unseen_);
    write_text(out_,
               fmt::format("inject {} on {}, seed {}: {} scenarios, {} skipped{}: {}, {} failures{}\nverdict {}\n",
                           settings_.kind, settings_.allocator, settings_.seed, scenarios_, skipped_, unseen,
                           figures(settings_, sum_), failures_, known,
                           !passed           ? "fail"
                           : scenarios_ == 0 ? "skipped"
                                             : "pass"));
    verdict_reached(!passed ? "fail" : scenarios_ == 0 ? "skipped" : "pass");
    if (std::string fault = result_write(settings_.junit_path, junit(mended)); !fault.empty())
        result_lost("--junit: " + fault);
    if (!passed) return 1;
    return scenarios_ == 0 ? kSkipped : 0;
}

}  // namespace stress::inject

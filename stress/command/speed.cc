// speed: times the loop that hakmem-bench has for a scenario. It calls malloc and free and does next to nothing else, so
// its figures are those of the malloc, and the same as those of `ci/bench times`.
#include "command/speed.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/row.h"
#include "command/arguments.h"
#include "command/command.h"
#include "command/setup.h"
#include "engine/base/file.h"
#include "engine/base/progress.h"
#include "engine/base/verdict.h"
#include "engine/run/options_parse.h"
#include "engine/subject/subject_load.h"
#include "engine/watch/child_start.h"

namespace stress {
namespace {

struct Loop {
    const char *scenario, *row;
};

// Rows of the scenarios' own sizes and windows.
constexpr Loop kLoops[] = {{"larson", "larson"}, {"random-mixed", "mixed-1024"}, {"remote-free", "remote-free"}};

constexpr std::uint64_t kPairsMax = std::uint64_t{1} << 40;
constexpr double kTrialSeconds = 0.01;
constexpr double kSecondsUsual = 2;

const bench::Row *row_of(const std::string &scenario)
{
    for (const Loop &loop : kLoops)
        if (scenario == loop.scenario) return bench::row_find(loop.row);
    return nullptr;
}

// A check in the loop would cost time, so NULL from malloc ends it.
void explain_crash(int signal)
{
    static constexpr char text[] =
        "hakmem-stress: speed: SIGSEGV in the loop; it writes a word into each block, also where malloc returned NULL\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    raise(signal); // once more after this, and by default
}

void watch_crash()
{
    struct sigaction action{};
    action.sa_handler = explain_crash;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGSEGV, &action, nullptr);
}

// The seconds of a run in a child: the heap of this process stays as it is. None: the child did not end well.
std::optional<double> trial_seconds(const bench::Row &row, const bench::Plan &plan)
{
    int ends[2];
    if (pipe(ends) != 0) return std::nullopt;
    const pid_t child = fork();
    if (child == 0) {
        child_start();
        signal(SIGSEGV, SIG_DFL);
        const double took = row.run(plan);
        _exit(write(ends[1], &took, sizeof took) == sizeof took ? 0 : 1);
    }
    close(ends[1]);
    double took = 0;
    const bool whole = read(ends[0], &took, sizeof took) == sizeof took;
    close(ends[0]);
    if (child > 0) wait_for(child);
    return whole ? std::optional(took) : std::nullopt;
}

// The pairs of malloc and free that take about `seconds`. Where a trial fails the timed run, of the row's own number, will
// do so too, and show how.
std::uint64_t pairs_in(const bench::Row &row, bench::Plan plan, double seconds)
{
    for (std::uint64_t pairs = row.ops / 100; pairs < kPairsMax; pairs *= 4) {
        const std::optional<double> took = trial_seconds(row, bench::plan_of(row, plan.threads, pairs, plan.seed));
        if (!took.has_value()) break;
        if (*took < kTrialSeconds) continue;
        return static_cast<std::uint64_t>(static_cast<double>(pairs) * seconds / *took);
    }
    return row.ops;
}

bench::Plan plan_for(const bench::Row &row, const Arguments &a, std::uint32_t threads)
{
    bench::Plan plan = bench::plan_of(row, threads, row.ops, a.seed.value_or(1));
    std::uint64_t pairs = a.ops == 0 ? kPairsMax : a.ops / 2;
    const double seconds = a.seconds == 0 && a.ops == 0 ? kSecondsUsual : a.seconds;
    if (seconds > 0) pairs = std::min(pairs, pairs_in(row, plan, seconds));
    return bench::plan_of(row, threads, std::max<std::uint64_t>(pairs, 1), plan.seed);
}

// As a scenario's result, of which this has no more than it measured.
std::string result_text(const Arguments &a, const bench::Row &row, const bench::Plan &plan, double seconds,
                        const std::string &reproduce)
{
    const nlohmann::ordered_json json{
        {"scenario", a.scenario}, {"allocator", a.allocator},
        {"loop", row.name},       {"check", false},
        {"seed", plan.seed},      {"threads", plan.threads},
        {"schedule", "os"},       {"ops", 2 * plan.ops},
        {"seconds", seconds},     {"ops_per_second", 2 * static_cast<double>(plan.ops) / seconds},
        {"verdict", "pass"},      {"failures", nlohmann::json::array()},
        {"reproduce", reproduce}};
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string refusal(const Arguments &a)
{
    const bool known =
        std::any_of(std::begin(kLoops), std::end(kLoops), [&](const Loop &l) { return a.scenario == l.scenario; });
    if (!known)
        return "speed: there is no loop of '" + a.scenario +
               "'; choose larson, random-mixed or remote-free, or run the scenario with --no-check";
    if (row_of(a.scenario) == nullptr) return "speed: this build, for a sanitizer or an emulator, times nothing";
    if (std::string fault = result_prepare(a.json_path); !fault.empty()) return "--json: " + fault;
    return "";
}

} // namespace

std::vector<std::string> speed_scenarios()
{
    std::vector<std::string> names;
    for (const Loop &loop : kLoops)
        if (bench::row_find(loop.row) != nullptr) names.emplace_back(loop.scenario);
    return names;
}

int speed_main(int argc, char **argv)
{
    const Arguments a = arguments_parse(argc, argv);
    if (!a.run) return arguments_refused(a);
    if (const std::string fault = refusal(a); !fault.empty()) return bad_input(fault);
    const SubjectOutcome subject = subject_load(a.allocator, false, argv);
    if (!subject.ok) {
        write_text(STDERR_FILENO, subject.error);
        return kExitBadInput;
    }
    const bench::Row &row = *row_of(a.scenario);
    const std::uint32_t step = row.threads_step, threads = std::max(a.threads / step, 1u) * step;
    if (threads != a.threads)
        write_text(STDERR_FILENO,
                   fmt::format("{}: {} threads, since its loop takes a multiple of {}\n", a.scenario, threads, step));
    watch_crash();
    const bench::Plan plan = plan_for(row, a, threads);
    const double seconds = row.run(plan);
    Options given;
    given.seed = a.seed;
    const std::string reproduce = options_reproduce(argc, argv, given, plan.seed);
    verdict_reached("pass");
    if (!a.json_path.empty())
        if (std::string fault = result_write(a.json_path, result_text(a, row, plan, seconds, reproduce));
            !fault.empty())
            result_lost("--json: " + fault);
    const double pairs = static_cast<double>(plan.ops);
    write_text(
        a.json_path == "-" ? STDERR_FILENO : STDOUT_FILENO,
        fmt::format("{} on {}, {} threads, the loop of hakmem-bench run {}\n  ops        {} in {:.2f} s, {} ops/s, "
                    "{:.2f} ns for a malloc and a free\n",
                    a.scenario, a.allocator, plan.threads, row.name, 2 * plan.ops, seconds,
                    format_rate(2 * pairs / seconds), seconds * 1e9 / pairs));
    return 0;
}

} // namespace stress

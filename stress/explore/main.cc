// hakmem-explore: runs scenarios of the allocator's protocols in every schedule with a few preemptions; see README.md
// beside this file. Exit status: 0 if every schedule held, or the time was up (the last line counts those searches); 1
// if one failed; 2 for bad input; 3 if the JSON could not be written.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/base/cli_numbers.h"
#include "engine/base/file.h"
#include "explore/explorer.h"
#include "explore/visits.h"

namespace {

using namespace stress;

struct Options {
    std::string scenario = "all", except, replay, json, visits, start = "fresh";
    unsigned bound = 2;
    unsigned threads = 0; // 0: two, and three if the scenario has three
    double seconds = 0;
    bool list = false, every_access = false;
};

int bad_input(const std::string &text)
{
    fmt::print(stderr, "hakmem-explore: {}\n", text);
    return 2;
}

ExploreStart start_of(const Options &options)
{
    if (options.start == "warm") return ExploreStart::Warm;
    return options.start == "full" ? ExploreStart::Full : ExploreStart::Fresh;
}

void list_scenarios()
{
    for (const ExploreScenario &each : explore_scenarios())
        fmt::print("{:20} 2{}  {}\n", each.name, each.threads_max > 2 ? " or 3 threads" : " threads     ", each.hunts);
}

std::string command(const ExploreScenario &scenario, const ExploreRequest &request, const Schedule &schedule)
{
    const char *start = request.start == ExploreStart::Warm   ? " --start warm"
                        : request.start == ExploreStart::Full ? " --start full"
                                                              : "";
    return fmt::format("hakmem-explore --scenario {} --threads {}{} --replay {}", scenario.name, request.threads, start,
                       schedule_print(schedule));
}

void print_failure(const Explorer &explorer, const ExploreScenario &scenario, const ExploreRequest &request,
                   const Outcome &failure, bool every_access)
{
    fmt::print("FAILED: {}, {} threads: {}: {}\n  hunts: {}\n  again: {}\n  {} preemptions, {} accesses{}:\n{}",
               scenario.name, request.threads, failure.rule, failure.detail, scenario.hunts,
               command(scenario, request, failure.schedule), failure.preemptions, failure.points,
               every_access ? "" : "; shown: those to words of several threads (--every-access: all)",
               explorer.interleaving(every_access));
    std::fflush(stdout);
}

nlohmann::json json_of(const ExploreScenario &scenario, const ExploreRequest &request, const ExploreResult &result)
{
    const Sweep &sweep = result.sweep;
    nlohmann::json row = {{"scenario", scenario.name},
                          {"threads", request.threads},
                          {"bound", request.bound},
                          {"bound_reached", nullptr},
                          {"schedules", sweep.schedules},
                          {"runs", sweep.runs},
                          {"points", sweep.points},
                          {"shared_words", result.shared},
                          {"seconds", result.seconds},
                          {"complete", result.complete},
                          {"failed", sweep.failure.rule != nullptr}};
    if (result.bound_reached) row["bound_reached"] = *result.bound_reached;
    if (sweep.failure.rule != nullptr) {
        row["rule"] = sweep.failure.rule;
        row["detail"] = sweep.failure.detail;
        row["preemptions"] = sweep.failure.preemptions;
        row["schedule"] = schedule_print(sweep.failure.schedule);
        row["replay"] = command(scenario, request, sweep.failure.schedule);
    }
    return row;
}

void print_row(const ExploreScenario &scenario, const ExploreRequest &request, const ExploreResult &result)
{
    const Outcome &failure = result.sweep.failure;
    std::string verdict = result.complete ? "complete" : "NOT COMPLETE: the time was up";
    if (failure.rule != nullptr) verdict = fmt::format("FAILED at {}: {}", failure.preemptions, failure.rule);
    const std::string reached = result.bound_reached ? fmt::format("{}", *result.bound_reached) : "none";
    fmt::print("{:20} {:7} {:5} {:>7} {:6} {:10} {:10} {:12} {:8.2f}  {}\n", scenario.name, request.threads,
               request.bound, reached, result.shared, result.sweep.schedules, result.sweep.runs, result.sweep.points,
               result.seconds, verdict);
    std::fflush(stdout);
}

// Scenarios that are not run have a row too.
constexpr const char *kTwoThreads = "has two threads", *kFreshOnly = "begins with a fresh heap";

// nullptr: it is run.
const char *why_skipped(const ExploreScenario &scenario, const ExploreRequest &request)
{
    if (request.threads > scenario.threads_max) return kTwoThreads;
    return scenario.fresh_only && request.start != ExploreStart::Fresh ? kFreshOnly : nullptr;
}

nlohmann::json json_of_skipped(const ExploreScenario &scenario, const ExploreRequest &request, const char *why)
{
    return {{"scenario", scenario.name},
            {"threads", request.threads},
            {"bound", request.bound},
            {"schedules", 0},
            {"complete", false},
            {"failed", false},
            {"skipped", why}};
}

void print_skipped(const ExploreScenario &scenario, const ExploreRequest &request, const char *why)
{
    fmt::print("{:20} {:7} {:5} {:>7} {:>6} {:>10} {:>10} {:>12} {:>8}  skipped: {}\n", scenario.name, request.threads,
               request.bound, "-", "-", "-", "-", "-", "-", why);
}

struct Counts {
    unsigned searches = 0, complete = 0, failed = 0, given_up = 0, skipped = 0;

    void add(const ExploreResult &result)
    {
        ++searches;
        const bool has_failed = result.sweep.failure.rule != nullptr;
        failed += has_failed;
        complete += !has_failed && result.complete;
        given_up += !has_failed && !result.complete;
    }
};

void print_counts(const Counts &counts)
{
    fmt::print("{} of {} complete, {} failed, {} not complete, {} skipped\n", counts.complete, counts.searches,
               counts.failed, counts.given_up, counts.skipped);
}

nlohmann::json json_of(const Visits &visits)
{
    nlohmann::json rows = nlohmann::json::array();
    for (const Visits::Visit &visit : visits.all()) {
        const std::string file = visit.site->file;
        const std::size_t folder = file.rfind("/alloc/");
        rows.push_back({{"file", folder == file.npos ? file : file.substr(folder + 7)},
                        {"line", visit.site->line},
                        {"function", visit.site->function},
                        {"access", visit.site->what},
                        {"scenarios", visit.scenarios},
                        {"two_sided", visit.two_sided}});
    }
    return rows;
}

int write_result(const char *option, const std::string &path, const nlohmann::json &rows)
{
    const std::string fault = stress::result_write(path, rows.dump(2) + "\n");
    if (fault.empty()) return 0;
    bad_input(option + (": " + fault));
    return 3;
}

int replay(const Options &options, const ExploreScenario &scenario)
{
    const unsigned threads = options.threads == 0 ? 2 : options.threads;
    std::string error;
    const auto schedule = schedule_parse(options.replay, threads, error);
    if (!schedule) return bad_input("--replay: " + error);
    Explorer explorer;
    bool diverged = false;
    const Outcome outcome = explorer.replay(scenario, threads, *schedule, diverged, start_of(options));
    if (diverged)
        return bad_input("--replay: the schedule does not fit this scenario and build; use one that the same "
                         "build has printed");
    if (outcome.rule != nullptr) {
        print_failure(explorer, scenario, {.threads = threads, .bound = 0, .seconds = 0, .start = start_of(options)},
                      outcome, options.every_access);
        return 1;
    }
    fmt::print("{}, {} threads: held. {} preemptions, {} accesses:\n{}", scenario.name, threads, outcome.preemptions,
               outcome.points, explorer.interleaving(options.every_access));
    return 0;
}

int explore(const Options &options, const std::vector<const ExploreScenario *> &scenarios)
{
    if (const std::string fault = stress::result_prepare(options.json); !fault.empty())
        return bad_input("--json: " + fault);
    if (const std::string fault = stress::result_prepare(options.visits); !fault.empty())
        return bad_input("--visits: " + fault);
    Explorer explorer;
    Visits visits;
    nlohmann::json rows = nlohmann::json::array();
    Counts counts;
    const bool table = options.json != "-";
    if (table)
        fmt::print("{:20} {:>7} {:>5} {:>7} {:>6} {:>10} {:>10} {:>12} {:>8}\n", "scenario", "threads", "bound",
                   "reached", "shared", "schedules", "runs", "points", "seconds");
    for (const ExploreScenario *scenario : scenarios) {
        for (unsigned threads = 2; threads <= 3; ++threads) {
            if (options.threads != 0 && options.threads != threads) continue;
            const ExploreRequest request{threads, options.bound, options.seconds, start_of(options)};
            if (const char *why = why_skipped(*scenario, request); why != nullptr) {
                ++counts.skipped;
                rows.push_back(json_of_skipped(*scenario, request, why));
                if (table) print_skipped(*scenario, request, why);
                continue;
            }
            Visits::begin();
            const ExploreResult result = explorer.explore(*scenario, request);
            visits.add(scenario->name);
            counts.add(result);
            rows.push_back(json_of(*scenario, request, result));
            if (table) print_row(*scenario, request, result);
            if (result.sweep.failure.rule != nullptr && table)
                print_failure(explorer, *scenario, request, result.sweep.failure, options.every_access);
        }
    }
    if (table) print_counts(counts);
    std::fflush(stdout);
    if (const int status = write_result("--json", options.json, rows); status != 0) return status;
    if (const int status = write_result("--visits", options.visits, json_of(visits)); status != 0) return status;
    return counts.failed > 0 ? 1 : 0;
}

int no_scenario(const std::string &name)
{
    return bad_input("there is no scenario '" + name + "': --list shows them all");
}

int run(const Options &options)
{
    std::vector<const ExploreScenario *> scenarios;
    for (const ExploreScenario &each : explore_scenarios())
        if ((options.scenario == "all" || options.scenario == each.name) && options.except != each.name)
            scenarios.push_back(&each);
    const bool is_one = options.scenario != "all";
    if (is_one && explore_scenario(options.scenario.c_str()) == nullptr) return no_scenario(options.scenario);
    if (!options.except.empty() && explore_scenario(options.except.c_str()) == nullptr)
        return no_scenario(options.except);
    if (scenarios.empty()) return bad_input("--except leaves no scenario");
    if (is_one && options.threads > scenarios[0]->threads_max)
        return bad_input("'" + options.scenario + "' has fewer threads: --threads 2");
    if (options.replay.empty()) return explore(options, scenarios);
    if (options.scenario == "all") return bad_input("--replay needs --scenario NAME");
    return replay(options, *scenarios[0]);
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("Explores the interleavings of the allocator's lock-free protocols, up to a bound of preemptions.");
    app.add_option("--scenario", options.scenario, "NAME or all")->capture_default_str();
    app.add_option("--except", options.except, "NAME of a scenario to leave out");
    app.add_option("--bound", options.bound, "preemptions, at most")->capture_default_str()->check(CLI::Range(0, 20));
    app.add_option("--threads", options.threads, "2 or 3; default: both")->check(CLI::Range(2, 3));
    app.add_option("--replay", options.replay, "one schedule, as a failure prints it: THREAD:POINTS,...");
    app.add_flag("--every-access", options.every_access, "show also accesses to words that only one thread uses");
    app.add_option("--json", options.json, "FILE for the results, or - for standard output instead of the table");
    app.add_option("--visits", options.visits,
                   "FILE for a report: each atomic access, and the scenarios that visit it from two sides");
    app.add_option(
           "--start", options.start,
           "the heap that each scenario begins with: fresh, or with the caches of a thread that has ended, which "
           "hold a little (warm) or all that they may (full)")
        ->capture_default_str()
        ->check(CLI::IsMember({"fresh", "warm", "full"}));
    app.add_option("--seconds", options.seconds, "after which a scenario is given up; 0: no limit")
        ->check(CLI::NonNegativeNumber);
    app.add_flag("--list", options.list, "list the scenarios and the bugs that they hunt");
    try {
        stress::parse_strictly(app, argc, argv);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() == 0) return app.exit(error);
        return bad_input(error.what());
    }
    if (options.list) {
        list_scenarios();
        return 0;
    }
    return run(options);
}

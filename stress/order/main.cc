// hakmem-order: what C11's memory orders allow; see README.md beside this file. Exit status: 0 if all was as it must be; 1 if
// not; 2 for bad input.
#include <fmt/format.h>

#include <sys/personality.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "engine/base/cli_numbers.h"
#include "order/contention/command.h"
#include "order/litmus/axioms.h"
#include "order/litmus/explore.h"
#include "order/litmus/random.h"
#include "order/litmus/table.h"
#include "order/malloc/explore.h"
#include "order/malloc/report.h"
#include "order/run/pages.h"
#include "order/simulate/command.h"

namespace {

using namespace stress::order;

struct Options {
    std::string name = "all", program, memory = "c11";
    unsigned random = 0, steps = 8, stale = kUnbounded;
    std::uint64_t seed = 42;
    bool own_stores = false;
};

int bad_input(const std::string &text)
{
    fmt::print(stderr, "hakmem-order: {}\n", text);
    return 2;
}

std::string not_negative(const std::string &text)
{
    return text.starts_with('-') ? text + " is below 0" : "";
}

std::string list(const std::set<std::string> &outcomes, std::size_t most = 24)
{
    std::string text;
    std::size_t count = 0;
    for (const std::string &outcome : outcomes) {
        if (++count > most) return text + fmt::format(" and {} more", outcomes.size() - most);
        text += " " + outcome;
    }
    return text;
}

// What one of the two allows and the other does not, in words; empty: nothing.
std::string difference(const LitmusSeen &seen, const LitmusAllowed &allowed)
{
    std::set<std::string> missed, wrong;
    for (const std::string &outcome : allowed.outcomes)
        if (!seen.outcomes.contains(outcome)) missed.insert(outcome);
    for (const std::string &outcome : seen.outcomes)
        if (!allowed.outcomes.contains(outcome)) wrong.insert(outcome);
    std::string text;
    if (!missed.empty()) text += "not seen, and the axioms allow it:" + list(missed) + "; ";
    if (!wrong.empty()) text += "seen, and the axioms forbid it:" + list(wrong) + "; ";
    if (text.empty() && seen.executions != allowed.executions && !seen.outcomes.contains("race"))
        text = fmt::format("{} executions, and by the axioms {}; ", seen.executions, allowed.executions);
    return text;
}

std::string judge(const LitmusTest &test, const LitmusSeen &seen, const LitmusAllowed &allowed)
{
    std::string text = allowed.gave_up.empty() ? difference(seen, allowed) : "";
    if (seen.outcomes.contains(test.asked) != test.is_allowed)
        text += fmt::format("{} was {}seen, and its source {} it; ", test.asked, test.is_allowed ? "not " : "",
                            test.is_allowed ? "allows" : "forbids");
    if (test.executions != 0 && seen.executions != static_cast<unsigned>(test.executions))
        text += fmt::format("{} executions, and GenMC counts {}; ", seen.executions, test.executions);
    return text;
}

int run_table(const std::string &name)
{
    unsigned count = 0, counted = 0, enumerated = 0, failed = 0;
    for (const LitmusTest &test : litmus_tests()) {
        if (name != "all" && name != test.name) continue;
        std::string error;
        const LitmusProgram program = litmus_parse(test.program, error);
        if (!error.empty()) return bad_input(fmt::format("{}: {}", test.name, error));
        const LitmusSeen seen = litmus_explore(program, {true, test.own_stores_release}, {});
        const LitmusAllowed allowed = litmus_allowed(program, {SerialRule::rc11, test.own_stores_release});
        const std::string wrong = judge(test, seen, allowed);
        fmt::print("{:20} {:>4} executions  {:9} {:9}  {:46} {}\n", test.name, seen.executions, test.asked,
                   test.is_allowed ? "allowed" : "forbidden", test.source, wrong.empty() ? "" : "FAILED: " + wrong);
        if (name != "all") fmt::print("  {}\n  outcomes:{}\n", test.program, list(seen.outcomes));
        count++;
        counted += test.executions != 0;
        enumerated += allowed.gave_up.empty();
        failed += !wrong.empty();
    }
    if (count == 0) return bad_input("there is no litmus test '" + name + "': hakmem-order litmus shows them all");
    fmt::print("{} tests, {} failed; {} with all outcomes of the axioms, {} with as many executions as GenMC counts\n",
               count, failed, enumerated, counted);
    return failed == 0 ? 0 : 1;
}

int run_program(const Options &options)
{
    std::string error;
    const LitmusProgram program = litmus_parse(options.program, error);
    if (!error.empty()) return bad_input(error);
    const LitmusSeen seen =
        litmus_explore(program, {options.memory == "c11", options.own_stores}, {kUnbounded, options.stale});
    fmt::print("{}\n{} executions, outcomes:{}\n", litmus_print(program), seen.executions, list(seen.outcomes, 1000));
    return 0;
}

int run_random(const Options &options)
{
    std::mt19937_64 random(options.seed);
    unsigned failed = 0, races = 0;
    std::uint64_t executions = 0;
    for (unsigned i = 0; i < options.random; ++i) {
        const auto steps = static_cast<unsigned>(2 + random() % (options.steps - 1));
        const LitmusProgram program = litmus_random(random, steps);
        const bool own_stores = random() % 2 != 0;
        const LitmusSeen seen = litmus_explore(program, {true, own_stores}, {});
        const std::string wrong = difference(seen, litmus_allowed(program, {SerialRule::rc11, own_stores}));
        executions += seen.executions;
        races += seen.outcomes.contains("race");
        if (wrong.empty()) continue;
        if (++failed <= 10)
            fmt::print("FAILED: {}{}: {}\n", litmus_print(program), own_stores ? " (--own-stores)" : "", wrong);
    }
    fmt::print("seed {}: {} programs, {} failed; {} have races, the others {} executions\n", options.seed,
               options.random, failed, races, executions);
    return failed == 0 ? 0 : 1;
}

struct MallocOptions {
    std::string allocator, scenario = "all", memory = "c11";
    unsigned threads = 2, bound = kUnbounded, stale = kUnbounded;
    std::uint64_t schedules = 200, seed = 42;
    double seconds = 0;
    bool own_stores = false, ignores_races = false, list = false, all = false, ends = false;
    Strategy strategy = Strategy::mixed;
};

const std::map<std::string, Strategy> kStrategies = {{"mixed", Strategy::mixed},
                                                     {"uniform", Strategy::uniform},
                                                     {"pct", Strategy::pct},
                                                     {"pos", Strategy::pos},
                                                     {"surw", Strategy::surw}};

void print_result(const ExploreRequest &request, const ExploreResult &result)
{
    fmt::print("{:14} {} threads  {:>7} schedules  {:>6} points  {:>6.0f}/s{}{}{}\n", request.scenario->name,
               request.threads, result.schedules, result.points,
               static_cast<double>(result.schedules) / std::max(result.seconds, 1e-6),
               result.given_up == 0 ? "" : fmt::format("  {} given up: too many steps", result.given_up),
               request.keeps_ends ? fmt::format("  {} ends {:016x}", result.ends, result.ends_digest) : "",
               result.is_complete ? "  complete" : "");
    if (result.failure.empty()) return;
    std::string schedule = fmt::format(" --schedules 1 --seed {}", result.seed);
    for (const auto &[name, strategy] : kStrategies)
        if (strategy == request.strategy && strategy != Strategy::mixed) schedule += " --by " + name;
    if (request.is_search) schedule = fmt::format(" --bound {}", request.bounds.preemptions);
    if (request.bounds.stale != kUnbounded) schedule += fmt::format(" --stale {}", request.bounds.stale);
    if (!request.rules.is_weak) schedule += " --memory sc";
    if (request.rules.own_stores_release) schedule += " --own-stores";
    if (request.ignores_races) schedule += " --ignore-races";
    if (!request.is_reduced) schedule += " --no-reduction";
    fmt::print(
        "FAILED: {}: {}\n  hunts: {}\n  again: hakmem-order explore --allocator {} --scenario {} --threads {}{}\n",
        request.scenario->name, report_with_names(result.failure), request.scenario->hunts, request.subject->path,
        request.scenario->name, request.threads, schedule);
}

// A malloc may do other things at other addresses: a schedule repeats in another process only if they are the same.
void fix_addresses(char **argv)
{
    const int now = personality(0xffffffff);
    if (now == -1 || (now & ADDR_NO_RANDOMIZE) != 0) return;
    personality(static_cast<unsigned>(now) | ADDR_NO_RANDOMIZE);
    if ((personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0) execv("/proc/self/exe", argv);
}

// Empty, or what is wrong.
std::string load(const std::string &allocator, Subject &subject)
{
    if (allocator.empty()) return "--allocator FILE: a malloc that was compiled with -fsanitize=thread";
    static Pages pages;
    if (!pages.reserve()) return "the system refuses address space: ulimit -v unlimited";
    pages_now = &pages;
    pages.is_active = true; // what the malloc maps when it is loaded
    std::string error = subject_load(allocator, subject);
    pages.is_active = false;
    return error;
}

int run_malloc(const MallocOptions &options)
{
    if (options.list && options.allocator.empty()) {
        for (const Scenario &each : scenarios()) fmt::print("{:14} {}\n", each.name, each.hunts);
        return 0;
    }
    Subject subject;
    if (const std::string error = load(options.allocator, subject); !error.empty()) return bad_input(error);
    unsigned run = 0, failed = 0;
    for (const Scenario &each : scenarios_with(subject)) {
        if (options.list) {
            fmt::print("{:14} {}\n", each.name, each.hunts);
            run++;
            continue;
        }
        const bool is_chosen = options.scenario == "all" || options.scenario == each.name ||
                               std::string(each.name).starts_with(options.scenario + ":");
        if (!is_chosen) continue;
        ExploreRequest request;
        request.subject = &subject;
        request.scenario = &each;
        request.threads = options.threads;
        request.rules = {options.memory == "c11", options.own_stores};
        request.bounds = {options.bound, options.stale};
        request.is_search = options.bound != kUnbounded;
        request.is_reduced = !options.all;
        request.keeps_ends = options.ends;
        request.strategy = options.strategy;
        request.ignores_races = options.ignores_races;
        request.schedules = options.schedules;
        request.seed = options.seed;
        request.seconds = options.seconds;
        const ExploreResult result = explore(request);
        if (!result.refused.empty()) return bad_input(result.refused);
        print_result(request, result);
        run++;
        failed += !result.failure.empty();
    }
    if (run == 0) return bad_input("there is no scenario '" + options.scenario + "': --list shows them all");
    return failed == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("Runs code that was compiled with -fsanitize=thread in every order that C11 allows.");
    app.require_subcommand(1);
    CLI::App *litmus = app.add_subcommand("litmus", "published litmus tests, or one of your own");
    litmus->add_option("name", options.name, "NAME of a test, or all")->capture_default_str();
    litmus->add_option("--program", options.program,
                       "a test of your own, for instance 'x=1 rlx; y rlx | y=1 rlx; x rlx'");
    litmus->add_option("--memory", options.memory, "of --program: c11, or sc for sequential consistency")
        ->check(CLI::IsMember({"c11", "sc"}));
    litmus->add_option("--stale", options.stale,
                       "of --program: accesses that do not read, or become, the last store; "
                       "default: no bound");
    litmus->add_flag("--own-stores", options.own_stores,
                     "of --program: C11's release sequences, which include later stores of the releasing thread");
    litmus->add_option("--random", options.random, "instead: compare this many random tests with the axioms");
    litmus->add_option("--seed", options.seed, "of --random")->capture_default_str()->check(not_negative);
    litmus->add_option("--steps", options.steps, "of --random: steps of a test, at most")
        ->capture_default_str()
        ->check(CLI::Range(2, 12));
    MallocOptions mallocs;
    CLI::App *explore = app.add_subcommand("explore", "a malloc, in scenarios of a few calls");
    explore->add_option("--allocator", mallocs.allocator, "FILE: a shared library, compiled with -fsanitize=thread");
    explore->add_option("--scenario", mallocs.scenario, "NAME or all")->capture_default_str();
    explore->add_option("--threads", mallocs.threads, "")->capture_default_str()->check(CLI::Range(2, 7));
    explore->add_option("--memory", mallocs.memory, "c11, or sc for sequential consistency")
        ->capture_default_str()
        ->check(CLI::IsMember({"c11", "sc"}));
    explore->add_option("--bound", mallocs.bound,
                        "search every schedule with at most this number of preemptions; default: random ones");
    explore->add_option("--stale", mallocs.stale,
                        "accesses that do not read, or become, the last store; default: no bound");
    explore->add_option("--schedules", mallocs.schedules, "random ones")->capture_default_str()->check(not_negative);
    explore->add_option("--seed", mallocs.seed, "of the first random one")->capture_default_str()->check(not_negative);
    explore->add_option("--seconds", mallocs.seconds, "after which a scenario is given up; 0: no limit")
        ->check(not_negative);
    explore
        ->add_option("--by", mallocs.strategy, "how random ones are drawn: uniform, pct, pos, surw, or mixed, in turn")
        ->transform(CLI::CheckedTransformer(kStrategies));
    explore->add_flag("--no-reduction", mallocs.all, "also schedules that show nothing new");
    explore->add_flag("--ends", mallocs.ends, "count what the memory is like at the end of the schedules");
    explore->add_flag("--own-stores", mallocs.own_stores, "C11's release sequences");
    explore->add_flag("--ignore-races", mallocs.ignores_races,
                      "data races are no failures; blocks, crashes and deadlocks are");
    explore->add_flag("--list", mallocs.list,
                      "list the scenarios and the bugs that they hunt; with --allocator also those that it brings");
    ContentionOptions counted;
    CLI::App *contention = contention_options(app, counted);
    SimulateOptions simulated;
    CLI::App *simulate = simulate_options(app, simulated);
    try {
        stress::parse_strictly(app, argc, argv);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() == 0) return app.exit(error);
        return bad_input(error.what());
    }
    if (contention->parsed()) {
        fix_addresses(argv);
        Subject subject;
        if (!counted.list)
            if (const std::string error = load(counted.allocator, subject); !error.empty()) return bad_input(error);
        const std::string error = contention_run(counted, subject);
        return error.empty() ? counted.status : bad_input(error);
    }
    if (simulate->parsed()) {
        fix_addresses(argv);
        return simulate_run(simulated, [&](Subject &subject) { return load(simulated.allocator, subject); });
    }
    if (explore->parsed()) {
        fix_addresses(argv);
        return run_malloc(mallocs);
    }
    if (!options.program.empty()) return run_program(options);
    if (options.random != 0) return run_random(options);
    return run_table(options.name);
}

#include "engine/run/options_parse.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "engine/base/build.h"
#include "engine/base/cli_numbers.h"
#include "engine/base/file.h"
#include "engine/base/nearest.h"
#include "engine/base/shell_word.h"
#include "engine/judge/remains.h"
#include "engine/run/own_options.h"
#include "engine/run/scenario.h"

namespace stress {
namespace {

// Filled in by CLI11, before the options are checked as a whole.
struct Raw {
    Options options;
    std::uint64_t seed = 0;
    std::map<std::string, std::shared_ptr<OwnOptions>> own; // of each scenario that has any
    std::vector<CLI::Option *> seed_options, strict_options, latency_options;
};

void add_extent(CLI::App &app, Raw &raw)
{
    Options &o = raw.options;
    app.add_option("--threads", o.threads, "threads that work at the same time (default 2)")
        ->check(whole_number(1, kThreadsMax));
    app.add_option(
           "--seconds", o.seconds,
           "stop after this time (default 2, unless --ops is given); with checks, a busy machine takes up to 8 times as long")
        ->check(seconds_number(false));
    app.add_option("--ops", o.ops, "stop after this many calls of malloc, free and relatives, all threads together")
        ->check(whole_number(1, kCountMax));
    raw.seed_options.push_back(
        app.add_option("--seed", raw.seed, "decides everything random (default: a fresh one, printed first)")
            ->check(whole_number(0, UINT64_MAX)));
}

void add_subject(CLI::App &app, Options &o)
{
    app.add_option("--allocator", o.allocator,
                   kDirect ? "hakmem, linked into this build"
                           : "hakmem, validate (the libraries beside this program), system, or PATH.so")
        ->default_str("hakmem");
}

void add_results(CLI::App &app, Options &o)
{
    app.add_option("--json", o.json_path, "write the result as JSON to FILE, or to stdout for -");
    app.add_option("--report", o.report_directory, "write DIR/index.html, a page of figures, and DIR/results")
        ->type_name("DIR");
    app.add_option("--soak", o.soak,
                   "repeat the run with increasing seeds for a time such as 90m or 8h; needs --report, and continues "
                   "where it stopped when started again")
        ->type_name("TIME");
    app.add_flag("--fresh", o.fresh, "forget what an earlier --soak in the same directory did");
    app.add_option("--junit", o.junit_path, "with --soak: write the results as JUnit XML to FILE, or to stdout for -");
    app.add_option("--expect", o.expect, "with --soak: FILE of known failures, as for all");
}

void add_checks(CLI::App &app, Raw &raw)
{
    Options &o = raw.options;
    app.add_flag("--check,!--no-check", o.check, "check every block (default), or only measure speed");
    raw.strict_options.push_back(
        app.add_flag("--strict,!--no-strict", o.strict,
                     "also apply rules that widely used mallocs are known to break (default for hakmem and validate)"));
}

// The table of words is never destroyed. A destructor would add an atexit entry, and the list of entries is allocated
// from the malloc under test; a recorded run and its repetition must find the same heap.
void add_schedule(CLI::App &app, Options &o)
{
    static const auto &schedules =
        *new std::map<std::string, Schedule>{{"os", Schedule::Os}, {"seeded", Schedule::Seeded}};
    app.add_option_function<std::string>(
           "--schedule", [&o](const std::string &name) { o.schedule = schedules.at(name); },
           "os: the system schedules threads (default); seeded: one runs at a time, and the seed decides every "
           "switch, the same in each run")
        ->check(CLI::Validator(
            [](std::string &name) {
                return schedules.count(name) != 0 ? std::string() : "must be os or seeded, not '" + name + "'";
            },
            "SCHEDULE"));
    app.add_option_function<std::string>(
           "--expect-schedule",
           [&o](const std::string &text) {
               ScheduleMark mark;
               schedule_parse(text, mark);
               o.expect_schedule = mark;
           },
           "HASH:CLOCK that a seeded run must have; any other is a failure")
        ->check(CLI::Validator(
            [](std::string &text) {
                ScheduleMark mark;
                return schedule_parse(text, mark)
                           ? std::string()
                           : "must be 16 hexadecimal digits, a colon and a number, not '" + text + "'";
            },
            "HASH:CLOCK"));
}

void add_shape(CLI::App &app, Raw &raw)
{
    Options &o = raw.options;
    app.add_option("--laps", o.laps, "parts of the run, with all threads at rest in between (default 8; unchecked: 1)")
        ->check(whole_number(1, 1000));
    app.add_option("--repeat", o.repeat,
                   "run this often in one process, and fail if each round leaves more mappings, address space, "
                   "descriptors or keys (default 1; 5 or more show it, and 9 or more without --strict)")
        ->check(whole_number(1, 1000));
    raw.latency_options.push_back(
        app.add_flag("--latency,!--no-latency", o.latency, "time one call in 61 (default in checked runs)"));
    app.add_option("--working-set", o.working_set, "slots of each thread")->check(whole_number(1, kCountMax));
    app.add_option(
           "--cancel", o.cancel_ops,
           "cancel each thread at random, after about N ops, and continue in a fresh one; all have the smallest "
           "stacks that the system gives")
        ->check(whole_number(1, kCountMax));
    app.add_option("--watchdog", o.watchdog_seconds,
                   "end the run when no op completes for this long (default 60, 0: never)")
        ->check(seconds_number(true));
    app.add_option("--min-size", o.min_size_bytes, "smallest block in bytes")->check(whole_number(1, kSizeMax));
    app.add_option("--max-size", o.max_size_bytes, "largest block in bytes")->check(whole_number(1, kSizeMax));
}

// --help shows them in this order.
void add_common(CLI::App &app, Raw &raw)
{
    add_extent(app, raw);
    add_subject(app, raw.options);
    add_results(app, raw.options);
    add_checks(app, raw);
    add_schedule(app, raw.options);
    add_shape(app, raw);
}

void settle_limits(Raw &raw)
{
    Options &o = raw.options;
    for (const CLI::Option *option : raw.seed_options)
        if (option->count() > 0) o.seed = raw.seed;
    const ScenarioDefaults &defaults = scenario_find(o.scenario)->defaults;
    if (o.schedule == Schedule::Seeded) {
        if (o.seconds != 0) throw BadInput{"--seconds: a seeded run is limited by --ops, or it would not repeat"};
        if (o.ops == 0) o.ops = defaults.seeded_ops;
    } else if (o.expect_schedule.has_value()) {
        throw BadInput{"--expect-schedule: only a seeded run repeats its schedule; add --schedule seeded"};
    }
    if (o.seconds == 0 && o.ops == 0) o.seconds = 2;
    // A short run would never get through a large window, so it gets fewer slots, unless a number was given.
    if (o.working_set == 0)
        o.working_set = std::min(defaults.working_set, std::max<std::uint64_t>(o.thread_ops() / 32, 8));
    if (o.laps == 0) o.laps = o.check ? 8 : 1;
    const std::size_t default_min = defaults.min_size_bytes, default_max = defaults.max_size_bytes;
    if (o.min_size_bytes == 0)
        o.min_size_bytes = o.max_size_bytes != 0 && o.max_size_bytes < default_min ? 1 : default_min;
    if (o.max_size_bytes == 0) o.max_size_bytes = o.min_size_bytes > default_max ? o.min_size_bytes : default_max;
    if (o.min_size_bytes > o.max_size_bytes)
        throw BadInput{"min-size " + std::to_string(o.min_size_bytes) + " is above max-size " +
                       std::to_string(o.max_size_bytes) + "; swap them"};
}

void settle_allocator(Options &o)
{
    if (o.allocator.empty()) o.allocator = kSanitized && !kDirect ? "system" : "hakmem";
    if (kDirect && o.allocator != "hakmem")
        throw BadInput{"--allocator: this build has hakmem linked in and takes no other, not '" + o.allocator + "'"};
    if (kSanitized && !kDirect && o.allocator != "system")
        throw BadInput{"--allocator: a sanitizer build brings its own malloc and takes only system, not '" +
                       o.allocator + "'"};
}

// Latencies are measured with checks, unless asked for without them: timing a call costs as much as the call.
void settle_latency(Raw &raw)
{
    bool given = false;
    for (const CLI::Option *option : raw.latency_options) given |= option->count() > 0;
    if (!given) raw.options.latency = raw.options.check;
}

// Strict adds two rules that jemalloc 5.3.0, mimalloc 2.0.9 and gperftools 2.10 break in some cases: ENOMEM for each
// size that cannot exist, and aligned blocks whose size is a power of two times the alignment.
void settle_strict(Raw &raw)
{
    Options &o = raw.options;
    bool given = false;
    for (const CLI::Option *option : raw.strict_options) given |= option->count() > 0;
    if (!given) o.strict = o.allocator == "hakmem" || o.allocator == "validate";
}

void check_repeat(const Options &o)
{
    const std::uint32_t least = o.strict ? kRepeatsMin : kRepeatsMinLenient;
    if (o.repeat > 1 && o.repeat < least)
        throw BadInput{"--repeat: " + std::to_string(least) + " rounds or more tell a leak from a cache that fills"};
}

// Opens the file now, so that a run of an hour does not end with a result that cannot be written.
void check_json(const Options &o)
{
    if (std::string fault = result_prepare(o.json_path); !fault.empty()) throw BadInput{"--json: " + fault};
}

std::string one_line(std::string text)
{
    for (char &c : text)
        if (c == '\n') c = ' ';
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return "hakmem-stress: " + text + "\n";
}

ParseOutcome refuse(const std::string &text)
{
    ParseOutcome outcome;
    outcome.exit_code = 2;
    outcome.text = one_line(text);
    return outcome;
}

std::string list_text()
{
    std::string text;
    for (const Scenario &scenario : scenarios()) {
        std::string name = scenario.name;
        name.resize(16, ' ');
        text += name + scenario.purpose + "\n";
    }
    return text;
}

std::vector<std::string> option_names(const CLI::App &app)
{
    std::vector<std::string> names;
    for (const CLI::Option *option : app.get_options()) names.push_back(option->get_name());
    return names;
}

// Finds an unknown scenario, which CLI11 would report as a stray argument.
std::string unknown_scenario(int argc, const char *const *argv, std::vector<std::string> names)
{
    const std::string choices = "choose one that hakmem-stress list shows";
    if (argc < 2) return "no scenario given; " + choices;
    const std::string word = argv[1];
    if (word.empty() || word[0] != '-') {
        if (word == "list" || scenario_find(word) != nullptr) return "";
        for (const Scenario &scenario : scenarios()) names.push_back(scenario.name);
        names.push_back("list");
        return "unknown scenario '" + word + "'" + nearest_name(word, names) + "; " + choices;
    }
    return word == "-h" || word == "--help" ? "" : "the scenario comes first, not '" + word + "'; " + choices;
}

ParseOutcome settle(CLI::App &app, Raw &raw)
{
    ParseOutcome outcome;
    if (app.got_subcommand("list")) {
        outcome.text = list_text();
        return outcome;
    }
    raw.options.scenario = app.get_subcommands().front()->get_name();
    const std::shared_ptr<OwnOptions> own = raw.own[raw.options.scenario];
    raw.options.own = own;
    if (own != nullptr) own->settle(raw.options);
    settle_limits(raw);
    if (own != nullptr) own->finish(raw.options);
    check_blocks(raw.options, raw.options.working_set);
    settle_allocator(raw.options);
    settle_strict(raw);
    settle_latency(raw);
    check_repeat(raw.options);
    check_json(raw.options);
    outcome.options = raw.options;
    outcome.run = true;
    return outcome;
}

} // namespace

ParseOutcome options_parse(int argc, const char *const *argv, const std::vector<std::string> &commands)
{
    const std::string unknown = unknown_scenario(argc, argv, commands);
    if (!unknown.empty()) return refuse(unknown);

    Raw raw;
    CLI::App app("Stress any malloc and judge every block that it hands out.", "hakmem-stress");
    app.require_subcommand(1);
    app.add_subcommand("list", "list the scenarios and their purposes");
    for (const Scenario &scenario : scenarios()) {
        CLI::App &command = *app.add_subcommand(scenario.name, scenario.purpose);
        // Options for all 25 would take half the time of a short run, which parses them twice.
        const auto is_named = [&scenario](const char *word) { return std::strcmp(scenario.name, word) == 0; };
        if (std::none_of(argv + 1, argv + argc, is_named)) continue; // --help may come first
        add_common(command, raw);
        if (scenario.own_options == nullptr) continue;
        raw.own[scenario.name] = scenario.own_options();
        raw.own[scenario.name]->add(command);
    }
    try {
        parse_strictly(app, argc, argv);
        return settle(app, raw);
    } catch (const CLI::CallForHelp &) {
        ParseOutcome outcome;
        outcome.text = app.help();
        return outcome;
    } catch (const CLI::ParseError &error) {
        return refuse(error.what() + nearest_option(error.what(), option_names(command_of(app, argv[1]))) +
                      "; see hakmem-stress " + argv[1] + " --help");
    } catch (const BadInput &bad) {
        return refuse(bad.text + "; see hakmem-stress " + argv[1] + " --help");
    }
}

std::string options_reproduce(int argc, const char *const *argv, const Options &options, std::uint64_t seed)
{
    std::string command;
    for (int i = 0; i < argc; ++i) command += (i > 0 ? " " : "") + shell_word(argv[i]);
    if (!options.seed.has_value()) command += " --seed " + std::to_string(seed);
    return command;
}

} // namespace stress

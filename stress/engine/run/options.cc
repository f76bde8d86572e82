// More than 400 lines: each option's text, limits and default are in one place, and add_common names one after the other.
#include "engine/run/options.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <vector>

#include "engine/base/build.h"
#include "engine/base/cli_numbers.h"
#include "engine/base/file.h"
#include "engine/run/scenario.h"

namespace stress {
namespace {

constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 32;
constexpr std::uint64_t kCountMax = std::uint64_t{1} << 53;
constexpr std::uint32_t kThreadsMax = 1024;

// Filled in by CLI11, before the options are checked as a whole.
struct Raw {
    Options options;
    std::uint64_t seed = 0;
    std::vector<std::string> classic; // positional arguments
    std::vector<CLI::Option *> seed_options, strict_options, latency_options;
};

// Bad input that shows only when all of it has been read.
struct BadInput {
    std::string text;
};

bool seconds_ok(const std::string &text, bool zero_allowed)
{
    double value = 0;
    return parse_number(text, value) && (zero_allowed ? value >= 0 : value > 0) && value <= 1e7;
}

CLI::Validator seconds_number(bool zero_allowed)
{
    return CLI::Validator(
        [zero_allowed](std::string &text) {
            if (seconds_ok(text, zero_allowed)) return std::string();
            return "must be a number of seconds " + std::string(zero_allowed ? "of 0 or more" : "above 0") + ", not '" +
                   text + "'";
        },
        "SECONDS");
}

// The tables of words below are never destroyed. A destructor would add an atexit entry, and the list of entries is
// allocated from the malloc under test; a recorded run and its repetition must find the same heap.
void add_common(CLI::App &app, Raw &raw)
{
    Options &o = raw.options;
    app.add_option("--threads", o.threads, "threads that work at the same time (default 2)")
        ->check(whole_number(1, kThreadsMax));
    app.add_option("--seconds", o.seconds, "stop after this time (default 2, unless --ops is given)")
        ->check(seconds_number(false));
    app.add_option("--ops", o.ops, "stop after this many calls of malloc, free and relatives, all threads together")
        ->check(whole_number(1, kCountMax));
    raw.seed_options.push_back(
        app.add_option("--seed", raw.seed, "decides everything random (default: a fresh one, printed first)")
            ->check(whole_number(0, UINT64_MAX)));
    app.add_option("--allocator", o.allocator,
                   kDirect ? "hakmem, linked into this build"
                           : "hakmem, validate (the libraries beside this program), system, or PATH.so")
        ->check(not_empty())
        ->default_str("hakmem");
    app.add_option("--json", o.json_path, "write the result as JSON to FILE, or to stdout for -");
    app.add_option("--report", o.report_directory, "write DIR/index.html, a page of figures, and DIR/results")
        ->type_name("DIR");
    app.add_option("--soak", o.soak,
                   "repeat the run with increasing seeds for a time such as 90m or 8h; needs --report, and continues "
                   "where it stopped when started again")
        ->type_name("TIME");
    app.add_flag("--fresh", o.fresh, "forget what an earlier --soak in the same directory did");
    app.add_flag("--check,!--no-check", o.check, "check every block (default), or only measure speed");
    raw.strict_options.push_back(
        app.add_flag("--strict,!--no-strict", o.strict,
                     "also apply rules that widely used mallocs are known to break (default for hakmem and validate)"));
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
    app.add_option("--laps", o.laps, "parts of the run, with all threads at rest in between (default 8; unchecked: 1)")
        ->check(whole_number(1, 1000));
    raw.latency_options.push_back(
        app.add_flag("--latency,!--no-latency", o.latency, "time one call in 64 (default in checked runs)"));
    app.add_option("--working-set", o.working_set, "slots of each thread")->check(whole_number(1, kCountMax));
    app.add_option("--watchdog", o.watchdog_seconds,
                   "end the run when no op completes for this long (default 60, 0: never)")
        ->check(seconds_number(true));
    app.add_option("--min-size", o.min_size_bytes, "smallest block in bytes")->check(whole_number(1, kSizeMax));
    app.add_option("--max-size", o.max_size_bytes, "largest block in bytes")->check(whole_number(1, kSizeMax));
}

void add_larson(CLI::App &app, Raw &raw)
{
    app.add_option("--chunks", raw.options.chunks,
                   "blocks in the window of a thread (default 1000, fewer in short runs)")
        ->check(whole_number(1, kCountMax));
    app.add_option("--rounds", raw.options.rounds,
                   "times that a thread replaces its window before a fresh one takes it (default 10)")
        ->check(whole_number(1, kCountMax));
    app.add_option("classic", raw.classic,
                   "the classic arguments: seconds min-size max-size chunks rounds seed threads")
        ->expected(0, 7);
}

void add_random_mixed(CLI::App &app, Raw &raw)
{
    app.add_option("classic", raw.classic, "iterations of each thread, working set, seed")->expected(0, 3);
}

void add_remote_free(CLI::App &app, Raw &raw)
{
    static const auto &modes = *new std::map<std::string, RemoteMode>{
        {"queue", RemoteMode::Queue},         {"ring", RemoteMode::Ring},
        {"all-to-all", RemoteMode::AllToAll}, {"owner-exit", RemoteMode::OwnerExit},
        {"free-only", RemoteMode::FreeOnly},  {"all", RemoteMode::All}};
    Options &o = raw.options;
    app.add_option("--producers", o.producers, "threads that allocate (default: half of --threads, at least 1)")
        ->check(whole_number(1, kThreadsMax));
    app.add_option("--consumers", o.consumers, "threads that free (default: the other half, at least 1)")
        ->check(whole_number(1, kThreadsMax));
    app.add_option_function<std::string>(
           "--mode", [&o](const std::string &name) { o.mode = modes.at(name); },
           "queue, ring, all-to-all, owner-exit, free-only, or all in turn (default)")
        ->check(CLI::Validator(
            [](std::string &name) {
                return modes.count(name) != 0
                           ? std::string()
                           : "must be queue, ring, all-to-all, owner-exit, free-only or all, not '" + name + "'";
            },
            "MODE"));
    app.add_option("--queue-slots", o.queue_slots,
                   "blocks on the way between two threads, a power of two (default 1024, fewer in short runs)")
        ->check(whole_number(2, 1 << 20));
}

// Takes the classic positional arguments in order; each stands for an option, whose name it holds.
class Classic {
  public:
    explicit Classic(const std::vector<std::string> &words) : words_(words) {}

    bool take_count(const char *name, std::uint64_t low, std::uint64_t high, std::uint64_t &value)
    {
        if (next_ == words_.size()) return false;
        const std::string &word = words_[next_++];
        if (!parse_number(word, value) || value < low || value > high)
            throw BadInput{std::string(name) + ": must be a whole number from " + std::to_string(low) + " to " +
                           std::to_string(high) + ", not '" + word + "'"};
        return true;
    }

    void take_seconds(double &value)
    {
        if (next_ == words_.size()) return;
        const std::string &word = words_[next_++];
        if (!seconds_ok(word, false))
            throw BadInput{"seconds: must be a number of seconds above 0, not '" + word + "'"};
        parse_number(word, value);
    }

  private:
    const std::vector<std::string> &words_;
    std::size_t next_ = 0;
};

void settle_larson(Raw &raw)
{
    Options &o = raw.options;
    Classic classic(raw.classic);
    classic.take_seconds(o.seconds);
    classic.take_count("min-size", 1, kSizeMax, o.min_size_bytes);
    classic.take_count("max-size", 1, kSizeMax, o.max_size_bytes);
    classic.take_count("chunks", 1, kCountMax, o.chunks);
    classic.take_count("rounds", 1, kCountMax, o.rounds);
    if (std::uint64_t seed; classic.take_count("seed", 0, UINT64_MAX, seed)) o.seed = seed;
    if (std::uint64_t threads; classic.take_count("threads", 1, kThreadsMax, threads))
        o.threads = static_cast<std::uint32_t>(threads);
    // Some versions of Larson's benchmark take the larger bound first.
    if (raw.classic.size() >= 3 && o.min_size_bytes > o.max_size_bytes) {
        std::swap(o.min_size_bytes, o.max_size_bytes);
        o.note = "larson: sizes of " + std::to_string(o.min_size_bytes) + " to " + std::to_string(o.max_size_bytes) +
                 " bytes: the bounds were given in reverse\n";
    }
}

void settle_random_mixed(Raw &raw)
{
    Options &o = raw.options;
    Classic classic(raw.classic);
    classic.take_count("iterations", 1, kCountMax / kThreadsMax, o.iterations);
    classic.take_count("working-set", 1, kCountMax, o.working_set);
    if (std::uint64_t seed; classic.take_count("seed", 0, UINT64_MAX, seed)) o.seed = seed;
    if (o.iterations != 0) o.ops = o.iterations * o.threads;
}

void settle_remote_free(Raw &raw)
{
    Options &o = raw.options;
    const std::uint32_t half = o.threads / 2 > 0 ? o.threads / 2 : 1;
    const std::uint32_t rest = o.threads > half ? o.threads - half : 1;
    if (o.producers == 0) o.producers = half;
    if (o.consumers == 0) o.consumers = rest;
    o.threads = o.producers + o.consumers;
    // Two of these modes have a channel from every thread to every other; see kOpSlotsMax.
    constexpr std::uint32_t threads_max = 512;
    if (o.threads > threads_max)
        throw BadInput{"--threads: remote-free takes at most " + std::to_string(threads_max) + " threads, not " +
                       std::to_string(o.threads)};
    if ((o.queue_slots & (o.queue_slots - 1)) != 0)
        throw BadInput{"--queue-slots: must be a power of two, not " + std::to_string(o.queue_slots)};
}

void check_blocks(const Options &o, std::uint64_t blocks)
{
    constexpr std::uint64_t blocks_max = std::uint64_t{1} << 30;
    if (blocks > blocks_max / o.threads)
        throw BadInput{"the threads would hold more than " + std::to_string(blocks_max) +
                       " blocks; ask for fewer chunks, slots or threads"};
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
    const std::uint64_t seat_ops = o.ops == 0 ? UINT64_MAX : o.ops / o.threads;
    if (o.working_set == 0) o.working_set = std::min(defaults.working_set, std::max<std::uint64_t>(seat_ops / 32, 8));
    if (o.chunks == 0) o.chunks = std::min<std::uint64_t>(1000, std::max<std::uint64_t>(seat_ops / 100, 4));
    if (o.laps == 0) o.laps = o.check ? 8 : 1;
    const std::size_t default_min = defaults.min_size_bytes, default_max = defaults.max_size_bytes;
    if (o.min_size_bytes == 0)
        o.min_size_bytes = o.max_size_bytes != 0 && o.max_size_bytes < default_min ? 1 : default_min;
    if (o.max_size_bytes == 0) o.max_size_bytes = o.min_size_bytes > default_max ? o.min_size_bytes : default_max;
    if (o.min_size_bytes > o.max_size_bytes)
        throw BadInput{"min-size " + std::to_string(o.min_size_bytes) + " is above max-size " +
                       std::to_string(o.max_size_bytes) + "; swap them"};
    if (o.scenario == "larson") check_blocks(o, o.chunks);
    check_blocks(o, o.working_set);
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

// Finds an unknown scenario, which CLI11 would report as a stray argument.
std::string unknown_scenario(int argc, const char *const *argv)
{
    const std::string choices = "choose one that hakmem-stress list shows";
    if (argc < 2) return "no scenario given; " + choices;
    const std::string word = argv[1];
    if (word.empty() || word[0] != '-') {
        if (word == "list" || scenario_find(word) != nullptr) return "";
        return "unknown scenario '" + word + "'; " + choices;
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
    if (raw.options.scenario == "larson") settle_larson(raw);
    if (raw.options.scenario == "random-mixed") settle_random_mixed(raw);
    if (raw.options.scenario == "remote-free") settle_remote_free(raw);
    settle_limits(raw);
    settle_allocator(raw.options);
    settle_strict(raw);
    settle_latency(raw);
    check_json(raw.options);
    outcome.options = raw.options;
    outcome.run = true;
    return outcome;
}

} // namespace

ParseOutcome options_parse(int argc, const char *const *argv)
{
    const std::string unknown = unknown_scenario(argc, argv);
    if (!unknown.empty()) return refuse(unknown);

    Raw raw;
    CLI::App app("Stress any malloc and judge every block that it hands out.", "hakmem-stress");
    app.require_subcommand(1);
    app.add_subcommand("list", "list the scenarios and their purposes");
    for (const Scenario &scenario : scenarios()) add_common(*app.add_subcommand(scenario.name, scenario.purpose), raw);
    add_larson(*app.get_subcommand("larson"), raw);
    add_random_mixed(*app.get_subcommand("random-mixed"), raw);
    add_remote_free(*app.get_subcommand("remote-free"), raw);
    try {
        app.parse(argc, argv);
        return settle(app, raw);
    } catch (const CLI::CallForHelp &) {
        ParseOutcome outcome;
        outcome.text = app.help();
        return outcome;
    } catch (const CLI::ParseError &error) {
        return refuse(std::string(error.what()) + "; see hakmem-stress " + argv[1] + " --help");
    } catch (const BadInput &bad) {
        return refuse(bad.text + "; see hakmem-stress " + argv[1] + " --help");
    }
}

std::string options_reproduce(int argc, const char *const *argv, const Options &options, std::uint64_t seed)
{
    constexpr const char *unquoted = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+";
    std::string command;
    for (int i = 0; i < argc; ++i) {
        const std::string word = argv[i];
        const bool plain = !word.empty() && word.find_first_not_of(unquoted) == std::string::npos;
        if (i > 0) command += ' ';
        if (plain) {
            command += word;
            continue;
        }
        command += '\'';
        for (char c : word) command += c == '\'' ? std::string("'\\''") : std::string(1, c);
        command += '\'';
    }
    if (!options.seed.has_value()) command += " --seed " + std::to_string(seed);
    return command;
}

} // namespace stress

#include "command/arguments.h"

#include <unistd.h>

#include <charconv>

#include "command/command.h"
#include "command/keep.h"
#include "engine/base/build.h"
#include "engine/base/cli_numbers.h"
#include "engine/base/progress.h"
#include "engine/run/own_options.h"
#include "engine/run/scenario.h"

namespace stress {
namespace {

CLI::Validator command_seconds(bool takes_zero = true)
{
    return CLI::Validator(
        [takes_zero](std::string &text) {
            double value = 0;
            if (parse_number(text, value) && value >= 0 && (takes_zero || value > 0) && value <= 1e7)
                return std::string();
            return (takes_zero ? "must be a number of seconds, not '" : "must be a number of seconds above 0, not '") +
                   text + "'";
        },
        "SECONDS");
}

// Options that several commands share.
void add_allocator(CLI::App &app, Arguments &a)
{
    app.add_option("--allocator", a.allocator, "hakmem (default), validate, system, or PATH.so");
}

void add_seed(CLI::App &app, Arguments &a)
{
    app.add_option_function<std::string>(
           "--seed", [&a](const std::string &text) { parse_number(text, a.seed.emplace()); },
           "of the schedule (default: the file's)")
        ->check(whole_number(0, UINT64_MAX));
}

void add_strict(CLI::App &app, Arguments &a)
{
    app.add_flag_callback("--strict", [&a] { a.strict = true; }, "also apply rules that widely used mallocs break");
    app.add_flag_callback("--no-strict", [&a] { a.strict = false; }, "do not apply those rules");
}

void add_file(CLI::App &app, Arguments &a, bool required)
{
    app.add_option("file", a.file, "a file of ops, text or binary")->required(required);
}

void add_show(CLI::App &app, Arguments &a)
{
    add_file(app, a, true);
    auto *binary = app.add_option("--binary", a.output, "write the binary form to this file instead");
    app.add_flag("--json", a.json, "print JSON instead")->excludes(binary);
}

void add_run(CLI::App &app, Arguments &a)
{
    add_file(app, a, true);
    add_allocator(app, a);
    add_seed(app, a);
    add_strict(app, a);
    app.add_flag_callback("--no-check", [&a] { a.check = false; }, "judge nothing, for time and memory");
    app.add_option_function<std::string>(
           "--schedule", [&a](const std::string &word) { a.schedule = word == "os" ? Schedule::Os : Schedule::Seeded; },
           "os or seeded (default: the file's)")
        ->check(CLI::Validator(
            [](std::string &word) {
                return word == "os" || word == "seeded" ? std::string() : "must be os or seeded, not '" + word + "'";
            },
            "SCHEDULE"));
    app.add_option("--json", a.json_path, "write the result as JSON to FILE, or to stdout for -");
    app.add_option("--watchdog", a.watchdog_seconds, "end the run when no op completes for this long (default 60)")
        ->check(command_seconds());
    app.add_option("--tries", a.tries, "run it up to this many times, until it fails (default 1)")
        ->check(whole_number(1, 1'000'000))
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app.add_option_function<std::string>(
           "--expect-schedule", [&a](const std::string &text) { schedule_parse(text, a.expect_schedule.emplace()); },
           "HASH:CLOCK that a seeded run must have (default: the file's)")
        ->check(CLI::Validator(
            [](std::string &text) {
                ScheduleMark mark;
                return schedule_parse(text, mark)
                           ? std::string()
                           : "must be 16 hexadecimal digits, a colon and a number, not '" + text + "'";
            },
            "HASH:CLOCK"));
}

void add_record(CLI::App &app, Arguments &a)
{
    app.allow_extras();
    app.add_option("-o", a.output, "the file to write")->required();
    app.add_flag("--text", a.text, "write the text form instead of the binary one");
    app.footer("All other arguments are a scenario and its options.");
}

void add_capture(CLI::App &app, Arguments &a)
{
    app.prefix_command();
    app.add_option("-o", a.output, "the trace to write; other processes of the program get FILE.PID")->required();
    app.add_option("--allocator", a.allocator,
                   "the malloc that the program runs on: system (default: what it uses by itself), hakmem, or PATH.so");
    app.add_option("--calls", a.records, "record the first N calls of each process (default: all)")
        ->check(whole_number(1, std::uint64_t{1} << 31));
    app.footer(
        "Behind -- come the program and its arguments. Without them: finishes what a capture that was killed left.");
}

void add_shrink(CLI::App &app, Arguments &a)
{
    add_file(app, a, true);
    add_allocator(app, a);
    add_strict(app, a);
    app.add_option("--tries", a.tries,
                   "runs that must pass before a program counts as passing, for bugs that come and go (default 1)")
        ->check(whole_number(1, 10'000));
    app.add_option("--seconds", a.seconds, "stop after this time and keep the best result (default 300)")
        ->check(command_seconds());
    app.add_option("-o", a.output, "directory for the result (default: corpus/regress of the source tree, else .)");
    app.add_option("--keep", a.keep,
                   "keep a cost instead of a failure: rss, time, faults, syscalls or instructions > FACTORx:ALLOCATOR, "
                   "such as 'rss>1.3x:glibc'")
        ->check(CLI::Validator(
            [](std::string &text) {
                return keep_parse(text).has_value()
                           ? std::string()
                           : "must be like 'rss>1.3x:glibc', with rss, time, faults, syscalls or instructions, not '" +
                                 text + "'";
            },
            "COST"));
    app.add_option("--name", a.name, "name of the result, without its ending (default: rule-allocator)");
}

void add_compare(CLI::App &app, Arguments &a)
{
    app.add_option("a", a.allocator, "hakmem, validate, system, or PATH.so")->required();
    app.add_option("b", a.allocator_b, "the other one (default: system)");
    add_file(app, a, false);
    add_seed(app, a);
    add_strict(app, a);
    app.add_option("--scenario", a.scenario, "scenario to take ops from if no file is given (default random-mixed)")
        ->check(CLI::Validator(
            [](std::string &word) {
                return scenario_find(word) != nullptr ? std::string() : "there is no scenario '" + word + "'";
            },
            "SCENARIO"));
    app.add_option("--ops", a.ops, "number of ops of the scenario (default 20000)")->check(whole_number(1, 4'000'000));
}

void add_speed(CLI::App &app, Arguments &a)
{
    app.add_option("scenario", a.scenario, "larson, random-mixed or remote-free")->required();
    app.add_option("--threads", a.threads, "threads that work at the same time (default 2); remote-free takes pairs")
        ->check(whole_number(1, kThreadsMax));
    a.seconds = 0;
    app.add_option("--seconds", a.seconds,
                   "about how long the timed part takes (default 2, unless --ops is given); short trials in other "
                   "processes find the number of calls")
        ->check(command_seconds(false));
    a.ops = 0;
    app.add_option("--ops", a.ops, "calls of malloc and free in the timed part at most, all threads together")
        ->check(whole_number(1, kCountMax));
    app.add_option_function<std::string>(
           "--seed", [&a](const std::string &text) { parse_number(text, a.seed.emplace()); },
           "decides sizes and order (default 1)")
        ->check(whole_number(0, UINT64_MAX));
    add_allocator(app, a);
    app.add_option("--json", a.json_path, "write the result as JSON to FILE, or to stdout for -");
}

void add_conform(CLI::App &app, Arguments &a)
{
    add_allocator(app, a);
    app.add_flag("--list", a.list, "show the checks and run none");
    app.add_option("--only", a.only, "run only this check; may be repeated")->type_name("ID");
    app.add_option("--json", a.json_path, "write the result as JSON to FILE, or to stdout for -");
    app.add_option("--junit", a.junit_path, "write the results as JUnit XML to FILE, or to stdout for -");
    app.add_option("--expect", a.expect,
                   "FILE of known failures, which do not fail the run: CHECK [ALLOCATOR] RULE # REASON, where RULE is "
                   "fail or memory_cap; one that no longer comes does");
    app.add_option("--shard", a.shard, "I/N: only every Nth check, from the Ith on");
    app.add_option("--deadline", a.deadline_seconds,
                   "a check hangs that uses no processor time for this long, or six times as much in one call; it is "
                   "slow if it has not ended after sixty times as much (default 10)")
        ->check(command_seconds(false));
    app.add_option("--memory-cap", a.memory_cap_mib,
                   "MiB that a check may take, with its children (default: half of what the machine has available)")
        ->check(whole_number(16, std::uint64_t{1} << 40));
}

void add_report(CLI::App &app, Arguments &a)
{
    app.add_option("file", a.file, "a crash record, hakmem-PID-TID-N.crash")->required();
    app.add_option("--json", a.json_path, "write it as JSON to FILE, or to stdout for -");
    app.add_option_function<std::string>(
           "--symbols", [&a](const std::string &word) { a.symbols = word == "auto"; },
           "auto (default): names of functions from llvm-symbolizer or addr2line; none: offsets only")
        ->check(CLI::Validator(
            [](std::string &word) {
                return word == "auto" || word == "none" ? std::string() : "must be auto or none, not '" + word + "'";
            },
            "SYMBOLS"));
}

Arguments refuse(const std::string &text, const std::string &command)
{
    Arguments refused;
    refused.exit_code = 2;
    refused.message = text + "; see hakmem-stress " + command + " --help";
    return refused;
}

std::string allocator_fault(const std::string &allocator)
{
    if (kDirect && allocator != "hakmem")
        return "this build has hakmem linked in and takes no other allocator, not '" + allocator + "'";
    if (kSanitized && !kDirect && allocator != "system")
        return "a sanitizer build brings its own malloc and takes only system, not '" + allocator + "'";
    return "";
}

}  // namespace

Arguments arguments_parse(int argc, char **argv)
{
    const std::string command = argv[1];
    Arguments a;
    CLI::App app(command_find(command)->purpose != nullptr ? command_find(command)->purpose : "",
                 "hakmem-stress " + command);
    if (command == "show") add_show(app, a);
    else if (command == "run" || command == "trace") add_run(app, a);
    else if (command == "record") add_record(app, a);
    else if (command == "capture") add_capture(app, a);
    else if (command == "shrink") add_shrink(app, a);
    else if (command == "speed") add_speed(app, a);
    else if (command == "conform") add_conform(app, a);
    else if (command == "report") add_report(app, a);
    else add_compare(app, a);
    try {
        parse_strictly(app, argc - 1, argv + 1);
    } catch (const CLI::CallForHelp &) {
        a.message = app.help();
        return a;
    } catch (const CLI::ParseError &error) {
        return refuse(error.what(), command);
    }
    a.rest = app.remaining();
    if (command == "record" && (a.rest.empty() || scenario_find(a.rest[0]) == nullptr))
        return refuse(a.rest.empty() ? "no scenario given" : "unknown scenario '" + a.rest[0] + "'", command);
    if (!a.rest.empty() && a.rest[0] == "--") a.rest.erase(a.rest.begin());
    if (command == "capture" && a.allocator.empty()) a.allocator = "system";
    const std::string usual = kSanitized && !kDirect ? "system" : "hakmem";
    if (a.allocator.empty()) a.allocator = usual;
    if (command == "compare" && a.allocator_b.empty()) a.allocator_b = "system";
    for (const std::string &allocator : {a.allocator, a.allocator_b.empty() ? usual : a.allocator_b})
        if (std::string fault = allocator_fault(allocator); !fault.empty()) return refuse(fault, command);
    a.run = true;
    return a;
}

int arguments_refused(const Arguments &arguments)
{
    if (arguments.exit_code != 0) return bad_input(arguments.message);
    write_text(STDOUT_FILENO, arguments.message);
    return 0;
}

int bad_input(const std::string &what)
{
    std::string line = what;
    for (char &c : line)
        if (c == '\n') c = ' ';
    write_text(STDERR_FILENO, "hakmem-stress: " + line + "\n");
    return 2;
}

}  // namespace stress

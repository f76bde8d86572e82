// The command line of `inject`, and its loop over the scenarios.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "engine/base/cli_numbers.h"
#include "engine/base/file.h"
#include "engine/base/progress.h"
#include "engine/base/rng.h"
#include "engine/base/shard.h"
#include "inject/inject.h"

namespace stress::inject {
namespace {

struct InjectRaw {
    std::string seed, threads, ops, calls_max, call, limit, signal_us, watchdog, schedule, shard;
};

CLI::Validator name_of(const std::vector<std::string> &names)
{
    return CLI::Validator(
        [names](std::string &text) {
            if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
            std::string choices;
            for (const std::string &name : names) choices += (choices.empty() ? "" : ", ") + name;
            return "must be one of " + choices + ", not '" + text + "'";
        },
        "NAME");
}

void add_inject_options(CLI::App &app, Settings &s, InjectRaw &raw, const std::vector<std::string> &scenarios)
{
    app.add_option("kind", s.kind,
                   "calls: each system call for memory fails, once and for ever; space: the address "
                   "space is limited, to twice as much in each run; signals: threads are interrupted")
        ->required()
        ->check(name_of({"calls", "space", "signals"}));
    app.add_option("scenario", s.scenarios,
                   "only these scenarios (default: all; signals: larson, random-mixed, remote-free)")
        ->check(name_of(scenarios));
    app.add_option("--allocator", s.allocator, "hakmem, validate, system or PATH.so");
    app.add_option("--junit", s.junit_path, "write a test for each scenario as JUnit XML to FILE, or to stdout for -");
    app.add_option(
        "--expect", s.expect_path,
        "FILE of known failures, which do not fail the command: SCENARIO [ALLOCATOR] RULE # REASON; one that "
        "no longer comes does");
    app.add_option("--shard", raw.shard, "I/N: only every Nth scenario, from the Ith on");
    app.add_option("--seed", raw.seed, "of each run (default: a fresh one)")->check(whole_number(0, UINT64_MAX));
    app.add_option("--threads", raw.threads, "of each run (default: 3)")->check(whole_number(1, 64));
    app.add_option("--ops", raw.ops, "of each run (default: chosen to suit --calls, from 400; space: 1000)")
        ->check(whole_number(1, 1'000'000));
    app.add_option("--calls", raw.calls_max, "maximum of system calls for memory in a run (default: 30)")
        ->check(whole_number(1, 100'000));
    app.add_option("--call", raw.call, "calls: only one run, in which this call fails")
        ->check(whole_number(1, 1'000'000'000));
    app.add_flag("--for-ever", s.for_ever, "with --call: all later calls fail too");
    app.add_option("--limit", raw.limit, "space: only one run, with this many bytes")
        ->check(whole_number(1, std::uint64_t{1} << 36));
    app.add_option("--seconds", s.seconds, "signals: of each run (default: 1)")->check(seconds_number(false));
    app.add_option("--period", raw.signal_us, "signals: microseconds between two (default: 100)")
        ->check(whole_number(10, 1'000'000));
    app.add_option("--schedule", raw.schedule,
                   "calls, space: seeded, or os for the system's scheduler (default: "
                   "seeded, or os if a seeded run can prove nothing)")
        ->check(name_of({"seeded", "os"}));
    app.add_option("--watchdog", raw.watchdog, "seconds without an op after which a run has hung (default: 20)")
        ->check(whole_number(1, 3600));
}

template <typename T> void take(const std::string &text, T &value)
{
    std::uint64_t number = 0;
    if (!text.empty() && parse_number(text, number)) value = static_cast<T>(number);
}

// Checks options against each other. Returns what is wrong; empty: nothing.
std::string settle_injection(Settings &s, const InjectRaw &raw, const std::vector<std::string> &scenarios)
{
    s.seed = seed_draw();
    s.calls_max = 30;
    take(raw.seed, s.seed);
    take(raw.threads, s.threads);
    take(raw.ops, s.ops);
    take(raw.calls_max, s.calls_max);
    take(raw.call, s.call);
    take(raw.limit, s.limit_bytes);
    take(raw.signal_us, s.signal_us);
    take(raw.watchdog, s.watchdog_seconds);
    if ((s.call != 0 || s.for_ever) && s.kind != "calls") return "--call and --for-ever are for calls; leave them out";
    if (s.for_ever && s.call == 0) return "--for-ever needs --call; without it each call fails in both ways anyway";
    if (!raw.schedule.empty() && s.kind == "signals")
        return "--schedule is for calls and space, and signals come as the system likes; leave it out";
    if (!raw.schedule.empty()) s.schedule = raw.schedule == "os" ? Schedule::Os : Schedule::Seeded;
    if (s.limit_bytes != 0 && s.kind != "space") return "--limit is for space; leave it out";
    if (!s.expect_path.empty() && (s.call != 0 || s.limit_bytes != 0))
        return "--expect: it judges whole scenarios, not one --call or --limit; leave it out";
    if (std::string wrong = s.expected.read(s.expect_path, scenarios); !wrong.empty()) return "--expect: " + wrong;
    if (s.scenarios.empty())
        s.scenarios =
            s.kind == "signals" ? std::vector<std::string>{"larson", "random-mixed", "remote-free"} : scenarios;
    if (raw.shard.empty()) return "";
    Shard shard;
    if (std::string wrong = shard_parse(raw.shard, shard); !wrong.empty()) return wrong;
    return shard_keep(shard, "scenarios", s.scenarios);
}

}  // namespace

Parsed parse(int argc, const char *const *argv, const std::string &default_allocator,
             const std::vector<std::string> &scenarios)
{
    Parsed parsed;
    parsed.settings.allocator = default_allocator;
    InjectRaw raw;
    CLI::App app("Faults from outside in runs of each scenario: refused memory, ended address space, signals.",
                 "hakmem-stress inject");
    add_inject_options(app, parsed.settings, raw, scenarios);
    std::string fault;
    try {
        parse_strictly(app, argc - 1, argv + 1);
        fault = settle_injection(parsed.settings, raw, scenarios);
    } catch (const CLI::CallForHelp &) {
        parsed.text = app.help();
        return parsed;
    } catch (const CLI::ParseError &error) {
        fault = error.what();
    }
    parsed.run = fault.empty();
    if (parsed.run) return parsed;
    std::replace(fault.begin(), fault.end(), '\n', ' ');
    parsed.exit_code = 2;
    parsed.text = "hakmem-stress: " + fault + "; see hakmem-stress inject --help\n";
    return parsed;
}

int run_all(const Settings &settings, int out)
{
    if (std::string fault = result_prepare(settings.junit_path); !fault.empty()) {
        write_text(STDERR_FILENO, "hakmem-stress: --junit: " + fault + "\n");
        return 2;
    }
    if (settings.junit_path == "-") out = STDERR_FILENO;
    write_text(out, fmt::format("seed {}\n", settings.seed));
    Totals totals(settings, out);
    const auto of = settings.kind == "calls" ? calls_of : settings.kind == "space" ? space_of : signals_of;
    for (const std::string &scenario : settings.scenarios) {
        totals.begin(scenario);
        of(settings, scenario, totals);
    }
    return totals.finish();
}

}  // namespace stress::inject

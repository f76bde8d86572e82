#include "campaign/command.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "campaign/campaign.h"
#include "campaign/command_words.h"
#include "engine/base/cli_numbers.h"
#include "engine/base/nearest.h"
#include "engine/base/progress.h"
#include "engine/base/shard.h"
#include "engine/subject/subject_load.h"

namespace stress {
namespace {

struct CampaignRaw {
    std::vector<std::string> scenarios, allocators;
    std::string schedule = "os", threads, ops, seconds, seed, timeout, soak, rounds, shard, expect;
    bool speed = false;
    CampaignOptions options;
};

CLI::Validator campaign_seconds()
{
    return CLI::Validator(
        [](std::string &text) {
            double value = 0;
            if (parse_number(text, value) && value > 0 && value <= 1e7) return std::string();
            return "must be a number of seconds above 0, not '" + text + "'";
        },
        "SECONDS");
}

CLI::Validator one_of(std::vector<std::string> names)
{
    return CLI::Validator(
        [names](std::string &text) {
            if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
            std::string choices;
            for (const std::string &name : names) choices += (choices.empty() ? "" : ", ") + name;
            return "must be one of " + choices + ", not '" + text + "'" + nearest_name(text, names);
        },
        "NAME");
}

// FILE is forgotten easily, and --seed is near.
CLI::Validator seeds_file()
{
    return CLI::Validator(
        [](std::string &text) {
            if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return std::string();
            return "must be a FILE, not '" + text + "'; for one seed give --seed " + text;
        },
        "FILE");
}

void add_campaign_options(CLI::App &app, CampaignRaw &raw, const CampaignDefaults &defaults)
{
    app.add_option("--allocator", raw.allocators,
                   "hakmem, validate, system or PATH.so; may be repeated (default: " + defaults.allocator + ")")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_option("--scenario", raw.scenarios, "only this scenario; may be repeated (default: all)")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->check(one_of(defaults.scenarios));
    app.add_option("--schedule", raw.schedule, "os (default), seeded or both")->check(one_of({"os", "seeded", "both"}));
    app.add_option("--threads", raw.threads, "threads of each run")->check(whole_number(1, 1024));
    app.add_option("--ops", raw.ops, "calls after which each run stops")
        ->check(whole_number(1, std::uint64_t{1} << 53));
    app.add_option("--seconds", raw.seconds, "time after which each run stops (seeded runs: only --ops)")
        ->check(campaign_seconds());
    app.add_option("--seed", raw.seed, "of each run; a soak counts up from it (default: a fresh one, printed first)")
        ->check(whole_number(0, UINT64_MAX));
    app.add_flag("--speed", raw.speed,
                 "also run each scenario without checks: throughput in rounds in which the allocators take turns, then "
                 "latency");
    app.add_option("--rounds", raw.rounds, "with --speed: rounds (default 3)")->check(whole_number(1, 1000));
    app.add_option("--timeout", raw.timeout,
                   "end a run that takes longer (default: ten times --seconds and 120, or "
                   "600)")
        ->check(campaign_seconds());
    app.add_option("--report", raw.options.report_directory,
                   "write DIR/index.html and DIR/results/; replaces an older report there");
    app.add_option("--json", raw.options.json_path, "write all results as JSON to FILE, or to stdout for -");
    app.add_option("--junit", raw.options.junit_path, "write the results as JUnit XML to FILE, or to stdout for -");
    app.add_option(
        "--expect", raw.expect,
        "FILE of known failures, which do not fail the campaign: NAME [ALLOCATOR] RULE # REASON; one that no "
        "longer comes does");
    app.add_option(
        "--shard", raw.shard,
        "I/N: only every Nth scenario, from the Ith on, with each of its allocators; with --soak every Nth seed");
    app.add_option("--seeds", raw.options.kept_path,
                   "FILE of seeds that failed: begin with those, and add what fails; it need not be there yet")
        ->check(seeds_file());
    app.add_option("--soak", raw.soak, "repeat all runs for this long: 90s, 30m, 8h, 2d; resumes the soak in --report");
    app.add_flag("--fresh", raw.options.fresh, "with --soak: start over");
    app.add_flag("--list-skips", raw.options.list_skips, "at the end, list the skipped runs with their reasons");
}

void drop_repeats(std::vector<std::string> &names)
{
    std::vector<std::string> once;
    for (const std::string &name : names)
        if (std::find(once.begin(), once.end(), name) == once.end()) once.push_back(name);
    names.swap(once);
}

int refuse_campaign(const std::string &what)
{
    std::string line = "hakmem-stress: " + what;
    std::replace(line.begin(), line.end(), '\n', ' ');
    write_text(STDERR_FILENO, line + "\n");
    return 2;
}

// The time of a soak in seconds; if it is wrong, `fault` says why.
double soak_seconds(const std::string &soak, std::string &fault)
{
    const std::optional<double> seconds = duration_parse(soak);
    if (!seconds.has_value())
        fault = "--soak: must be a time such as 90s, 30m, 8h or 2d, a year at most, not '" + soak + "'";
    return seconds.value_or(0);
}

double timeout_seconds(double seconds)
{
    return seconds > 0 ? seconds * 10 + 120 : 600;
}

// The command line as given, without --fresh: repeating it must not discard a soak.
std::string command_text(int argc, const char *const *argv)
{
    std::vector<std::string> words;
    for (int i = 0; i < argc; ++i)
        if (std::string(argv[i]) != "--fresh") words.emplace_back(argv[i]);
    return words_quoted(words);
}

std::string settle_shard(const CampaignRaw &raw, std::vector<std::string> &scenarios)
{
    if (raw.shard.empty()) return "";
    Shard shard;
    if (std::string fault = shard_parse(raw.shard, shard); !fault.empty()) return fault;
    return shard_keep(shard, "scenarios", scenarios);
}

std::string settle_campaign(CampaignRaw &raw, const CampaignDefaults &defaults)
{
    CampaignOptions &o = raw.options;
    o.scenarios = raw.scenarios.empty() ? defaults.scenarios : raw.scenarios;
    o.allocators = raw.allocators;
    if (o.allocators.empty()) o.allocators = {defaults.allocator};
    drop_repeats(o.scenarios);
    drop_repeats(o.allocators);
    if (raw.soak.empty())
        if (std::string fault = settle_shard(raw, o.scenarios); !fault.empty()) return fault;
    std::vector<std::string> names = defaults.scenarios;
    names.insert(names.end(), defaults.checks.begin(), defaults.checks.end());
    if (std::string fault = o.expected.read(raw.expect, names); !fault.empty()) return "--expect: " + fault;
    if (o.junit_path == "-" && o.json_path == "-") return "--junit: stdout has the JSON already; name a file";
    for (const std::string &name : o.allocators)
        if (std::string fault = subject_fault(name); !fault.empty()) return "--allocator: " + fault;
    if (raw.schedule != "seeded") o.schedules.push_back("os");
    if (raw.schedule != "os") o.schedules.push_back("seeded");
    for (const auto &[name, value] : {std::pair{"--threads", &raw.threads}, std::pair{"--ops", &raw.ops}})
        if (!value->empty()) o.run_words.insert(o.run_words.end(), {name, *value});
    // A seeded run must be repeatable, so it takes no --seconds.
    if (!raw.seconds.empty()) {
        if (raw.schedule == "seeded") return "--seconds: seeded runs are limited by --ops; give that instead";
        o.os_words = {"--seconds", raw.seconds};
    }
    if (std::uint64_t seed; parse_number(raw.seed, seed)) o.seed = seed;
    if (!raw.soak.empty() && !raw.shard.empty()) {
        Shard shard;
        if (std::string fault = shard_parse(raw.shard, shard); !fault.empty()) return fault;
        if (!o.seed.has_value()) return "--shard: a soak takes every Nth seed; give all workers the same --seed, too";
        *o.seed += shard.index - 1;
        o.seed_shard = shard.index - 1;
        o.seed_stride = shard.count;
        o.shard = raw.shard;
    }
    double seconds = 0;
    parse_number(raw.seconds, seconds);
    o.timeout_seconds = timeout_seconds(seconds);
    if (double timeout; parse_number(raw.timeout, timeout)) o.timeout_seconds = timeout;
    if (o.fresh && raw.soak.empty()) return "--fresh: it is for --soak; leave it out";
    if (!raw.rounds.empty() && !raw.speed) return "--rounds: it is for --speed; add that, or leave it out";
    if (raw.speed && !raw.soak.empty()) return "--speed: a soak looks for failures; leave one of the two out";
    std::uint64_t rounds = 3;
    parse_number(raw.rounds, rounds);
    o.loops = defaults.loops;
    o.build_id = defaults.build_id;
    if (raw.speed) o.speed_rounds = static_cast<std::uint32_t>(rounds);
    std::string fault;
    if (!raw.soak.empty()) o.soak_seconds = soak_seconds(raw.soak, fault);
    return fault;
}

}  // namespace

int campaign_all(int argc, const char *const *argv, const CampaignDefaults &defaults)
{
    CampaignRaw raw;
    CLI::App app("Run every scenario on each allocator, each run in its own process, and report the results.",
                 "hakmem-stress all");
    add_campaign_options(app, raw, defaults);
    try {
        parse_strictly(app, argc - 1, argv + 1);
    } catch (const CLI::CallForHelp &) {
        write_text(STDOUT_FILENO, app.help());
        return 0;
    } catch (const CLI::ParseError &error) {
        std::vector<std::string> names;
        for (const CLI::Option *option : app.get_options()) names.push_back(option->get_name());
        return refuse_campaign(error.what() + nearest_option(error.what(), names) + "; see hakmem-stress all --help");
    }
    if (std::string fault = settle_campaign(raw, defaults); !fault.empty())
        return refuse_campaign(fault + "; see hakmem-stress all "
                                       "--help");
    raw.options.program_name = argv[0];
    raw.options.command = command_text(argc, argv);
    return campaign_run(raw.options);
}

std::vector<std::string> campaign_run_words(int argc, const char *const *argv)
{
    const std::vector<std::string> ours{"--soak",   "--report", "--json",      "--junit",
                                        "--expect", "--seed",   "--allocator", "--schedule"};
    std::vector<std::string> words;
    for (int i = 2; i < argc; ++i) {
        const std::string word = argv[i], name = word.substr(0, word.find('='));
        if (word == "--fresh") continue;
        if (std::find(ours.begin(), ours.end(), name) == ours.end()) words.push_back(word);
        else if (name == word) ++i;
    }
    return words;
}

int campaign_soak(int argc, const char *const *argv, const SoakRequest &request)
{
    CampaignOptions o;
    std::string fault;
    o.soak_seconds = soak_seconds(request.soak, fault);
    if (fault.empty()) {
        fault = o.expected.read(request.expect, request.names);
        if (!fault.empty()) fault = "--expect: " + fault;
    }
    if (!fault.empty()) return refuse_campaign(fault + "; see hakmem-stress " + request.scenario + " --help");
    o.scenarios = {request.scenario};
    o.allocators = {request.allocator};
    o.schedules = {request.schedule};
    o.seed = request.seed;
    o.timeout_seconds = timeout_seconds(request.seconds);
    o.fresh = request.fresh;
    o.build_id = request.build_id;
    o.report_directory = request.report_directory;
    o.json_path = request.json_path;
    o.junit_path = request.junit_path;
    o.program_name = argv[0];
    o.command = command_text(argc, argv);
    o.run_words = campaign_run_words(argc, argv);
    return campaign_run(o);
}

}  // namespace stress

#include "campaign/runs_for_test.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "campaign/record.h"
#include "engine/run/scenario.h"

namespace stress {
namespace {

using Json = nlohmann::ordered_json;

Json latency(double median_ns)
{
    const auto times = [median_ns](double factor) { return static_cast<std::uint64_t>(median_ns * factor); };
    return {{"count", 123456}, {"p50", times(1)},   {"p90", times(2.1)},
            {"p99", times(9)}, {"p999", times(70)}, {"max", times(26000)}};
}

Json samples(double live_bytes, double keeps)
{
    Json rows = Json::array();
    for (int i = 0; i < 256; ++i) {
        const double t = i / 255.0, wave = 0.75 + 0.25 * std::sin(t * 25) * std::exp(-t);
        const double live = live_bytes * (1 - std::exp(-t * 9)) * wave;
        rows.push_back({t * 2, static_cast<std::uint64_t>(live),
                        static_cast<std::uint64_t>(3.5e6 + live_bytes * (1 - std::exp(-t * 9)) * keeps), i * 1000});
    }
    return rows;
}

Json run(const std::string &scenario, const std::string &allocator, const std::string &schedule, double rate)
{
    const bool seeded = schedule == "seeded";
    return {{"scenario", scenario},
            {"allocator", allocator},
            {"check", true},
            {"strict", true},
            {"seed", 42},
            {"threads", 4},
            {"threads_started", 120},
            {"ops", static_cast<std::uint64_t>(rate * 2)},
            {"seconds", 2.0},
            {"ops_per_second", rate},
            {"schedule", schedule},
            {"schedule_hash", seeded ? "9f3c2a7be1d40586" : ""},
            {"logical_clock", seeded ? 812345 : 0},
            {"start_rss_bytes", 6000000},
            {"peak_live_bytes", 9000000},
            {"peak_rss_bytes", 15000000},
            {"end_rss_bytes", 12000000},
            {"memory_bound_bytes", 62822220},
            {"vma_count_peak", 43},
            {"latency_ns",
             {{"malloc", latency(seeded ? 210 : 18)}, {"free", latency(seeded ? 160 : 14)}, {"realloc", latency(45)}}},
            {"samples", samples(9e6, allocator == "validate" ? 1.7 : 1.15)},
            {"verdict", "pass"},
            {"failures", Json::array()},
            {"reproduce", "hakmem-stress " + scenario + " --allocator " + allocator + " --seed 42" +
                              (seeded ? " --schedule seeded" : "")}};
}

// A run without checks, in the given round.
Json fast_run(const std::string &scenario, const std::string &allocator, RunMode mode, int round, double rate)
{
    Json one = run(scenario, allocator, "os", rate);
    one["mode"] = mode_name(mode);
    one["check"] = false;
    one["seed"] = 42 + round;
    if (mode != RunMode::Speed) return one;
    one.erase("latency_ns");
    if (scenario == "larson") one["loop"] = "larson";
    if (scenario == "random-mixed") one["loop"] = "mixed-1024";
    return one;
}

void fail(Json &one, const char *rule, const char *detail)
{
    one["verdict"] = "fail";
    one["failures"].push_back({{"rule", rule}, {"detail", detail}});
}

Json check(const std::string &id, const char *status, const char *rule, const char *detail)
{
    return Json{{"id", id}, {"status", status}, {"rule", rule}, {"detail", detail}};
}

// Rules that the broken malloc of the large campaign fails by in every nth scenario.
constexpr std::pair<const char *, std::size_t> kBroken[] = {{"overlap", 1}, {"crash", 5},        {"memory_bound", 2},
                                                            {"content", 6}, {"calloc_zero", 13}, {"progress", 12}};

}  // namespace

MadeUpCampaign made_up_campaign()
{
    MadeUpCampaign made;
    std::vector<Json> runs;
    double rate = 16.4e6;
    for (const char *scenario : {"larson", "random-mixed", "remote-free"})
        for (const char *allocator : {"hakmem", "validate", "/opt/mallocs/libjemalloc.so.2"})
            for (const char *schedule : {"os", "seeded"}) {
                runs.push_back(run(scenario, allocator, schedule, schedule[0] == 'o' ? rate : rate / 13));
                CampaignCell cell;
                cell.scenario = scenario;
                cell.allocator = allocator;
                cell.schedule = schedule;
                made.header.state.cells.push_back(cell);
                rate *= schedule[0] == 'o' ? 1 : 0.86;
            }
    fail(runs[4], "crash",
         "signal SIGSEGV (11); last line of stderr: <script>alert('subject & friends')</script> at 0x7fff0008");
    fail(runs[4], "content",
         "block 0x7f3210004060 of 96 bytes: byte 17 is 0x5a, not 0xc1; seen by thread 2 at its "
         "op 4711");
    fail(runs[9], "memory_bound", "peak RSS 71.2 MiB is above 59.9 MiB");
    runs[11]["verdict"] = "skip";
    runs[11]["skip_reason"] = "this malloc has no <sync> points";
    for (const char *key : {"latency_ns", "samples", "vma_count_peak", "peak_live_bytes"}) runs[16].erase(key);
    rate = 9.1e7;
    for (const char *scenario : {"larson", "random-mixed", "remote-free"})
        for (const char *allocator : {"hakmem", "validate", "/opt/mallocs/libjemalloc.so.2"}) {
            for (int round : {0, 1, 2})
                runs.push_back(fast_run(scenario, allocator, RunMode::Speed, round, rate * (1 + 0.1 * round)));
            runs.push_back(fast_run(scenario, allocator, RunMode::Tails, 0, rate));
            rate *= 0.7;
        }
    for (const Json &one : runs) made.results.push_back(one.dump(1) + "\n");
    made.results[17].resize(300); // half written

    const Json conform = {
        {"allocator", "/opt/mallocs/libjemalloc.so.2"},
        {"checks",
         {check("realloc-null", "fail", "C17 7.22.3.5: realloc(NULL, n) is malloc(n)", "it returned NULL"),
          check("malloc-zero", "pass", "C17 7.22.3", ""),
          check("sdallocx", "skip", "C23 7.24.3.4", "this malloc has no free_sized"),
          check("thread-exit", "fail", "quality: memory of an ended thread serves others", "12 MiB stayed resident"),
          check("trim", "pass", "quality: malloc_trim gives memory back", "")}}};
    made.conform = conform.dump(1);

    ReportHeader &h = made.header;
    h.command = "build/release/hakmem-stress all --schedule both --threads 4 --seed 42 --report 'my <report>'";
    h.options = "larson, random-mixed, remote-free on hakmem, validate, /opt/mallocs/libjemalloc.so.2; schedule os "
                "and seeded";
    h.state.first_seed = 42;
    h.state.started_unix = 1772000000;
    h.state.elapsed_seconds = 38.2;
    h.state.passed = 50;
    h.state.failed = 3;
    h.state.skipped = 1;
    return made;
}

MadeUpCampaign made_up_large_campaign()
{
    MadeUpCampaign made = made_up_campaign();
    SoakState &state = made.header.state;
    state.cells.clear();
    made.results.clear();
    state.passed = state.failed = state.skipped = 0;
    std::size_t place = 0;
    for (const Scenario &scenario : scenarios()) {
        ++place;
        double rate = 9.1e7;
        for (const std::string allocator :
             {"hakmem", "system", "/opt/mallocs/libjemalloc.so.2", "/opt/mallocs/mine.so"}) {
            Json one = run(scenario.name, allocator, "os", 16.4e6);
            for (const auto &[rule, each] : kBroken)
                if (allocator.ends_with("mine.so") && place % each == 0)
                    fail(one, rule, "what was seen, in some words");
            if (allocator.ends_with("jemalloc.so.2") && place % 12 == 0)
                fail(one, "memory_bound", "peak RSS is too high");
            if (allocator.starts_with("/")) one["peak_rss_bytes"] = 90000000;
            CampaignCell cell;
            cell.scenario = scenario.name;
            cell.allocator = allocator;
            cell.schedule = "os";
            state.cells.push_back(cell);
            ++(one["verdict"] == "fail" ? state.failed : state.passed);
            made.results.push_back(one.dump(1) + "\n");
            made.results.push_back(fast_run(scenario.name, allocator, RunMode::Speed, 0, rate).dump(1) + "\n");
            Json tails = fast_run(scenario.name, allocator, RunMode::Tails, 0, rate);
            if (allocator.starts_with("/")) tails["latency_ns"]["malloc"] = latency(40);
            made.results.push_back(tails.dump(1) + "\n");
            state.passed += 2;
            rate *= 0.7;
        }
    }
    Json conform = {{"allocator", "/opt/mallocs/mine.so"}, {"checks", Json::array()}};
    for (int i = 0; i < 7; ++i)
        conform["checks"].push_back(
            check("realloc-of-kind-" + std::to_string(i), "fail", "C23 7.24.3.7: a rule", "no"));
    conform["checks"].push_back(check("after-fork", "fail", "POSIX.1-2024 fork: a rule", "no"));
    conform["checks"].push_back(check("errno-kept", "fail", "POSIX.1-2024 free: a rule", "no"));
    conform["checks"].push_back(check("new-aligned", "fail", "C++20 [basic.align]: a rule", "no"));
    for (int i = 0; i < 6; ++i)
        conform["checks"].push_back(check("memory-goes-back-" + std::to_string(i), "fail", "quality: a rule", "no"));
    conform["checks"].push_back(check("malloc-zero", "pass", "C23 7.24.3", ""));
    made.conform = conform.dump(1);
    return made;
}

}  // namespace stress

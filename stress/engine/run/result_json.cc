#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "engine/run/result.h"

namespace stress {
namespace {

using Json = nlohmann::ordered_json;

Json latency_json(const LatencyFigures &figures)
{
    return {{"count", figures.count}, {"p50", figures.p50},     {"p90", figures.p90}, {"p99", figures.p99},
            {"p999", figures.p999},   {"p9999", figures.p9999}, {"max", figures.max}};
}

LatencyFigures figures_of(const Latency &latency, Latency::Call call)
{
    const double scale = latency_ns_per_tick();
    const auto ns = [scale](std::uint64_t ticks) {
        const std::uint64_t overhead = latency_overhead_ticks();
        return static_cast<std::uint64_t>(static_cast<double>(ticks > overhead ? ticks - overhead : 0) * scale + 0.5);
    };
    return {latency.count(call),
            ns(latency.percentile(call, 0.5)),
            ns(latency.percentile(call, 0.9)),
            ns(latency.percentile(call, 0.99)),
            ns(latency.percentile(call, 0.999)),
            ns(latency.percentile(call, 0.9999)),
            ns(latency.max(call))};
}

}  // namespace

LatencyResult latency_figures(const Latency &latency)
{
    return {figures_of(latency, Latency::Malloc), figures_of(latency, Latency::Free),
            figures_of(latency, Latency::Realloc)};
}

std::string result_json(const Result &result)
{
    Json failures = Json::array(), samples = Json::array(), ops = Json::object(), cases = Json::object();
    for (const CountOf &op : result.op_counts) ops[op.name] = op.count;
    for (const CountOf &rule : result.rule_cases) cases[rule.name] = rule.count;
    for (const FailureText &failure : result.failures)
        failures.push_back({{"rule", failure.rule}, {"detail", failure.detail}});
    for (const TimedSample &sample : result.samples)
        samples.push_back({sample.seconds, sample.live_bytes, sample.rss_bytes, sample.ops});

    Json json = {
        {"scenario", result.scenario},
        {"allocator", result.allocator},
        {"check", result.check},
        {"strict", result.strict},
        {"seed", result.seed},
        {"threads", result.threads},
        {"threads_started", result.threads_started},
        {"schedule", result.seeded ? "seeded" : "os"},
        {"schedule_hash", result.seeded ? fmt::format("{:016x}", result.schedule_hash) : ""},
        {"logical_clock", result.logical_clock},
        {"ops", result.ops},
        {"blocks_allocated", result.blocks_allocated},
        {"bytes_allocated", result.bytes_allocated},
        {"blocks_freed", result.blocks_freed},
        {"op_counts", ops},
        {"rule_cases", cases},
        {"claims", result.claims},
        {"seconds", result.seconds},
        {"ops_per_second", result.ops_per_second()},
        {"start_rss_bytes", result.start_rss_bytes},
        {"peak_live_bytes", result.peak_live_bytes},
        {"peak_rss_bytes", result.peak_rss_bytes},
        {"end_rss_bytes", result.end_rss_bytes},
        {"memory_bound_bytes", result.memory_bound_bytes},
        {"vma_count_peak", result.vma_count_peak},
        {"returned_rss_bytes", result.returned_rss_bytes},
        {"return_seconds", result.return_seconds},
        {"plateau_growth_bytes", result.plateau_growth_bytes},
        {"false_shared_lines",
         result.false_shared_lines.has_value() ? Json(*result.false_shared_lines) : Json(nullptr)},
        {"latency_ns",
         {{"malloc", latency_json(result.latency.malloc)},
          {"free", latency_json(result.latency.free)},
          {"realloc", latency_json(result.latency.realloc)}}},
        {"samples", samples},
        {"verdict", result.passed() ? "pass" : "fail"},
        {"failures", failures},
        {"reproduce", result.reproduce},
    };
#define X(name) json[#name] = result.process.name;
    STRESS_PROCESS_COUNTS(X)
#undef X
    // replace: a path that is not UTF-8 must not lose the whole result.
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stress

#include "campaign/record.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace stress {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kSamplesKept = 1024;
constexpr std::size_t kFailuresKept = 100;

const Json *find(const Json &object, const char *key)
{
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
}

std::string text_of(const Json &object, const char *key, const char *otherwise = "")
{
    const Json *value = find(object, key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : otherwise;
}

std::optional<bool> flag_of(const Json &object, const char *key)
{
    const Json *value = find(object, key);
    if (value == nullptr || !value->is_boolean()) return std::nullopt;
    return value->get<bool>();
}

std::optional<double> real_of(const Json *value)
{
    if (value == nullptr || !value->is_number()) return std::nullopt;
    const double number = value->get<double>();
    if (!std::isfinite(number) || number < 0) return std::nullopt;
    return number;
}

std::optional<std::uint64_t> count_of(const Json *value)
{
    if (value != nullptr && value->is_number_unsigned()) return value->get<std::uint64_t>();
    const std::optional<double> number = real_of(value);
    if (!number.has_value()) return std::nullopt;
    // 2^64 itself does not fit; the conversion is defined for all smaller values.
    return *number < 18446744073709551616.0 ? static_cast<std::uint64_t>(*number) : UINT64_MAX;
}

LatencyRow latency_of(const Json &object, const char *call)
{
    LatencyRow latency;
    const Json *all = find(object, "latency_ns");
    const Json *one = all != nullptr && all->is_object() ? find(*all, call) : nullptr;
    if (one == nullptr || !one->is_object()) return latency;
    latency.count = count_of(find(*one, "count")).value_or(0);
    latency.p50 = count_of(find(*one, "p50")).value_or(0);
    latency.p90 = count_of(find(*one, "p90")).value_or(0);
    latency.p99 = count_of(find(*one, "p99")).value_or(0);
    latency.p999 = count_of(find(*one, "p999")).value_or(0);
    latency.max = count_of(find(*one, "max")).value_or(0);
    return latency;
}

void read_samples(const Json &object, std::vector<RunSample> &samples)
{
    const Json *rows = find(object, "samples");
    if (rows == nullptr || !rows->is_array()) return;
    for (const Json &row : *rows) {
        if (samples.size() == kSamplesKept) return;
        if (!row.is_array() || row.size() < 3) continue;
        const auto seconds = real_of(&row[0]), live = real_of(&row[1]), rss = real_of(&row[2]);
        if (!seconds.has_value() || !live.has_value() || !rss.has_value()) continue;
        if (!samples.empty() && *seconds < samples.back().seconds) continue;
        samples.push_back({*seconds, *live, *rss});
    }
}

void read_failures(const Json &object, const char *key, std::vector<RunFailure> &failures)
{
    const Json *list = find(object, key);
    if (list == nullptr || !list->is_array()) return;
    for (const Json &one : *list) {
        if (failures.size() == kFailuresKept) {
            failures.push_back({"more", std::to_string(list->size() - kFailuresKept) + " more failures in the JSON"});
            return;
        }
        if (one.is_object()) failures.push_back({text_of(one, "rule", "unnamed"), text_of(one, "detail")});
        else failures.push_back({"unnamed", one.dump(-1, ' ', false, Json::error_handler_t::replace)});
    }
}

void read_figures(const Json &json, RunRecord &record)
{
    record.check = flag_of(json, "check");
    record.strict = flag_of(json, "strict");
    record.seed = count_of(find(json, "seed"));
    record.threads = count_of(find(json, "threads"));
    record.threads_started = count_of(find(json, "threads_started"));
    record.ops = count_of(find(json, "ops"));
    record.logical_clock = count_of(find(json, "logical_clock"));
    record.start_rss_bytes = count_of(find(json, "start_rss_bytes"));
    record.peak_live_bytes = count_of(find(json, "peak_live_bytes"));
    record.peak_rss_bytes = count_of(find(json, "peak_rss_bytes"));
    record.end_rss_bytes = count_of(find(json, "end_rss_bytes"));
    record.memory_bound_bytes = count_of(find(json, "memory_bound_bytes"));
    record.vma_count_peak = count_of(find(json, "vma_count_peak"));
    // 0 means not counted, since every process has mappings
    if (record.vma_count_peak == 0u) record.vma_count_peak.reset();
    record.seconds = real_of(find(json, "seconds"));
    record.ops_per_second = real_of(find(json, "ops_per_second"));
    record.wall_seconds = real_of(find(json, "wall_seconds"));
    record.malloc_ns = latency_of(json, "malloc");
    record.free_ns = latency_of(json, "free");
    record.realloc_ns = latency_of(json, "realloc");
    read_samples(json, record.samples);
}

// A run outside a campaign has no mode, but says what it did.
RunMode mode_of(const std::string &name, const RunRecord &record)
{
    for (RunMode mode : {RunMode::Check, RunMode::Speed, RunMode::Tails})
        if (name == mode_name(mode)) return mode;
    if (record.check.value_or(true)) return RunMode::Check;
    return record.malloc_ns.count == 0 ? RunMode::Speed : RunMode::Tails;
}

// Reads everything that does not depend on the verdict, then the verdict: "pass" must be stated, and agree with the
// list of failures.
std::string read_object(const Json &json, RunRecord &record)
{
    record.scenario = text_of(json, "scenario");
    record.allocator = text_of(json, "allocator");
    record.schedule = text_of(json, "schedule", "os");
    record.schedule_hash = text_of(json, "schedule_hash");
    record.reproduce = text_of(json, "reproduce");
    record.loop = text_of(json, "loop");
    record.skip_reason = text_of(json, "skip_reason");
    record.build_id = text_of(json, "build_id");
    record.expected = text_of(json, "expected");
    record.err_end = text_of(json, "stderr");
    read_figures(json, record);
    record.mode = mode_of(text_of(json, "mode"), record);
    record.confirmation = text_of(json, "confirmation");
    read_failures(json, "failures", record.failures);
    read_failures(json, "not_confirmed", record.unconfirmed);
    const std::string verdict = text_of(json, "verdict");
    if (verdict == "skip") record.verdict = RunVerdict::Skip;
    else if (verdict == "pass" && record.failures.empty()) record.verdict = RunVerdict::Pass;
    else if (verdict == "pass") return "verdict pass, but it lists failures";
    else if (verdict != "fail") return "no verdict";
    else if (record.failures.empty()) return "verdict fail without a failure";
    return "";
}

}  // namespace

const char *verdict_name(RunVerdict verdict)
{
    return verdict == RunVerdict::Pass ? "pass" : verdict == RunVerdict::Skip ? "skip" : "fail";
}

const char *mode_name(RunMode mode)
{
    return mode == RunMode::Check ? "check" : mode == RunMode::Speed ? "speed" : "tails";
}

const char *mode_text(RunMode mode)
{
    return mode == RunMode::Check ? "checked" : mode == RunMode::Speed ? "unchecked" : "unchecked, timed";
}

std::string unconfirmed_text(const RunRecord &record)
{
    return record.verdict == RunVerdict::Pass ? record.confirmation : "not confirmed";
}

RunRecord record_read(const std::string &text, std::string *fault)
{
    RunRecord record;
    std::string why;
    const Json json = Json::parse(text, nullptr, false);
    if (text.empty()) why = "empty";
    else if (json.is_discarded()) why = "no complete JSON";
    else if (!json.is_object()) why = "no JSON object";
    else why = read_object(json, record);
    if (!why.empty()) {
        record.verdict = RunVerdict::Fail;
        record.failures.push_back({"error", "the result cannot be used: " + why});
    }
    if (fault != nullptr) *fault = why;
    return record;
}

namespace {

Json failures_json(const std::vector<RunFailure> &failures)
{
    Json list = Json::array();
    for (const RunFailure &failure : failures) list.push_back({{"rule", failure.rule}, {"detail", failure.detail}});
    return list;
}

} // namespace

std::string record_json(const RunRecord &record, const std::string &run_json)
{
    Json json = Json::parse(run_json, nullptr, false);
    if (!json.is_object()) json = Json::object();
    json["scenario"] = record.scenario;
    json["allocator"] = record.allocator;
    json["schedule"] = record.schedule;
    if (!record.build_id.empty()) json["build_id"] = record.build_id;
    json["mode"] = mode_name(record.mode);
    if (record.seed.has_value()) json["seed"] = *record.seed;
    if (record.wall_seconds.has_value()) json["wall_seconds"] = *record.wall_seconds;
    json["verdict"] = verdict_name(record.verdict);
    if (record.verdict == RunVerdict::Skip) json["skip_reason"] = record.skip_reason;
    if (!record.expected.empty()) json["expected"] = record.expected;
    json["failures"] = failures_json(record.failures);
    if (!record.confirmation.empty()) json["confirmation"] = record.confirmation;
    if (!record.unconfirmed.empty()) json["not_confirmed"] = failures_json(record.unconfirmed);
    json["reproduce"] = record.reproduce;
    if (!record.err_end.empty()) json["stderr"] = record.err_end;
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stress

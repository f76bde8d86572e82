// One run, as the campaign and the report know it. It is read from JSON that may come from an older program, be half
// written, or not be JSON at all. If it cannot be read, it becomes a failing record with the reason, never an
// exception.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stress {

enum class RunVerdict { Pass, Fail, Skip };

// Why the campaign made a run. Check: with all checks, for the verdict. Speed: without them, for throughput. Tails:
// without checks, but with some calls timed, for latency.
enum class RunMode { Check, Speed, Tails };

struct RunFailure {
    std::string rule;
    std::string detail;
};

struct LatencyRow {
    std::uint64_t count = 0;  // 0: not measured
    std::uint64_t p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};

struct RunSample {
    double seconds = 0, live_bytes = 0, rss_bytes = 0;
};

// An empty optional means "not measured".
struct RunRecord {
    RunVerdict verdict = RunVerdict::Fail;
    RunMode mode = RunMode::Check;
    std::string scenario, allocator, schedule = "os", schedule_hash, reproduce;
    std::string skip_reason;  // only of RunVerdict::Skip
    std::string loop;         // the row of hakmem-bench whose loop was timed; empty: the scenario ran itself
    std::string file;         // the name under results/
    std::string err_end;      // of a failed run: the end of its stderr
    std::string expected;     // why this failure is known; empty: it is not
    std::string build_id;     // of the library; empty: unknown
    std::string label;        // the allocator in tables and figures; see labels.h
    std::optional<bool> check, strict;
    std::optional<std::uint64_t> seed, threads, threads_started, ops, logical_clock;
    std::optional<std::uint64_t> start_rss_bytes, peak_live_bytes, peak_rss_bytes, end_rss_bytes, memory_bound_bytes,
        vma_count_peak;
    std::optional<double> seconds, ops_per_second;
    std::optional<double> wall_seconds;  // of the child process
    LatencyRow malloc_ns, free_ns, realloc_ns;
    std::vector<RunSample> samples;  // ascending in time, every number finite
    std::vector<RunFailure> failures;
    // Of a run whose failures depend on timing (judge.h).
    std::string confirmation; // "seen in 5 of 5 runs"; empty: nothing depended on timing
    std::vector<RunFailure> unconfirmed; // failures that did not come in each of the runs made
};

const char *verdict_name(RunVerdict verdict);
const char *mode_name(RunMode mode); // "check", "speed", "tails"
const char *mode_text(RunMode mode); // "checked", "unchecked", "unchecked, timed"

// The words before a failure of record.unconfirmed.
std::string unconfirmed_text(const RunRecord &record);

// Reads a run's own result. `fault`, if not null, receives why the text is no result, or nothing.
RunRecord record_read(const std::string &text, std::string *fault = nullptr);

// The object for results/. It contains the run's own object unchanged, if it wrote one, and on top what the campaign
// knows better: which run it was, verdict, failures, the command. Ends with a newline.
std::string record_json(const RunRecord &record, const std::string &run_json);

}  // namespace stress

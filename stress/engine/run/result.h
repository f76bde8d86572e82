// The result of a run, as JSON for programs and as a summary for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/judge/memory.h"
#include "engine/op/latency.h"
#include "engine/op/process_counts.h"

namespace stress {

struct FailureText {
    std::string rule;
    std::string detail;
};

// Name and number: of a kind of op, or of a rule and its cases.
struct CountOf {
    const char *name;
    std::uint64_t count;
};

// Of one kind of call, in nanoseconds.
struct LatencyFigures {
    std::uint64_t count = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0, p9999 = 0, max = 0;
};

struct LatencyResult {
    LatencyFigures malloc, free, realloc;
};

LatencyResult latency_figures(const Latency &latency);

struct Result {
    std::string scenario;
    std::string allocator;
    bool check = true;
    bool strict = false;
    bool seeded = false;
    std::uint64_t schedule_hash = 0;
    std::uint64_t logical_clock = 0;
    std::uint64_t seed = 0;
    std::uint64_t threads = 0;          // at the same time
    std::uint64_t threads_started = 0;  // with all successors
    std::uint64_t ops = 0;              // in the timed part
    std::uint64_t blocks_allocated = 0; // in the whole run, by ops and their sweep
    std::uint64_t bytes_allocated = 0;
    std::uint64_t blocks_freed = 0;
    std::uint64_t refused = 0;          // requests that returned NULL while memory was scarce
    double seconds = 0;                 // of the timed part
    std::uint64_t start_rss_bytes = 0;  // before the first op: the harness, and what the malloc takes to start
    std::uint64_t peak_live_bytes = 0;
    std::uint64_t peak_rss_bytes = 0;
    std::uint64_t end_rss_bytes = 0;
    std::uint64_t memory_bound_bytes = 0;  // 0: not judged
    std::uint64_t vma_count_peak = 0;
    std::uint64_t returned_rss_bytes = 0;  // resident some time after everything was freed
    double return_seconds = 0;             // how long that took; see memory_law.h
    std::uint64_t plateau_growth_bytes = 0;
    std::string not_judged;                // rules on memory that this run could not judge, and why
    // What a checked run did, and how often each rule could have been broken. A rule without a case proves nothing.
    std::vector<CountOf> op_counts, rule_cases;
    std::vector<std::string> claims; // the rules that the scenario is there to test
    ProcessFigures process;
    std::optional<std::uint64_t> false_shared_lines; // none: not counted
    LatencyResult latency;
    std::vector<TimedSample> samples; // of memory, over the run
    std::string remains; // what the process held after each round; empty: one run
    std::string reproduce; // the command that repeats the run
    std::vector<FailureText> failures;

    bool passed() const { return failures.empty(); }
    double ops_per_second() const { return seconds > 0 ? static_cast<double>(ops) / seconds : 0; }
};

// One object, ended by a newline. Every key is always there; verdict is "pass" or "fail".
std::string result_json(const Result &result);

// Lines for people: figures, failures, how to repeat them, and the verdict last.
std::string result_summary(const Result &result);

} // namespace stress

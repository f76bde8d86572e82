// The result of a run, as JSON for programs and as a summary for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stress {

struct FailureText {
    std::string rule;
    std::string detail;
};

struct Result {
    std::string scenario;
    std::string allocator;
    bool check = true;
    std::uint64_t seed = 0;
    std::uint64_t threads = 0;          // at the same time
    std::uint64_t threads_started = 0;  // with all successors
    std::uint64_t ops = 0;              // in the timed part
    double seconds = 0;                 // of the timed part
    std::uint64_t peak_live_bytes = 0;
    std::uint64_t peak_rss_bytes = 0;
    std::uint64_t end_rss_bytes = 0;
    std::uint64_t memory_bound_bytes = 0;  // 0: not judged
    std::string reproduce;                 // the command that repeats the run
    std::vector<FailureText> failures;

    bool passed() const { return failures.empty(); }
    double ops_per_second() const { return seconds > 0 ? static_cast<double>(ops) / seconds : 0; }
};

// One object, ended by a newline. All keys are always there; verdict is "pass" or "fail".
std::string result_json(const Result &result);

// Lines for people: figures, failures and how to repeat them, verdict last.
std::string result_summary(const Result &result);

}  // namespace stress

// hakmem-stress conform: tests what every malloc must do, on the malloc of this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stress::conform {

struct ConformOptions {
    std::string program;            // as it was called, for the commands that repeat a check
    std::string allocator;          // name in the report
    bool list = false;              // print the checks and run none
    std::vector<std::string> only;  // ids; empty: all
    std::string json_path;          // empty: none; "-": stdout, and the text then goes to stderr
    std::string junit_path;         // the same, as JUnit XML
    std::string expect_path;        // of known failures; empty: none
    std::vector<std::string> scenarios;  // which expect_path may name too
    std::string shard;              // I/N; empty: all checks
    double deadline_seconds = 10;   // of one check; see watch_limits
    std::uint64_t memory_cap_bytes = 0;  // of one check and its children; 0: half of what the machine has available
};

// Runs each check in a child and prints a line for each to `out`, then the names of those that failed, and the counts. Returns the exit status: 0 nothing
// failed, 1 a check failed or was stopped at the memory cap, 2 bad input, with one line on stderr.
int conform_main(const ConformOptions &options, int out);

} // namespace stress::conform

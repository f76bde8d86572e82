// The answer of a campaign: each scenario, each allocator beside the others, by throughput, tails and memory.
//
// - Throughput: calls per second of the runs without checks; the median over the rounds. A ratio compares two runs of
//   one round, which follow each other, so a busy machine slows both. Where hakmem-bench has the scenario's loop, that is
//   what ran; elsewhere the suite's own work for each call is in the figure.
// - Tails: times of malloc, or of realloc in a scenario that calls no malloc, in an unchecked run that times one call in
//   64; without one, in the checked run.
// - Memory: the most that was resident in the checked run, where every byte of each block is written, above what the
//   scenario's harness takes. That is the least that any allocator of the campaign had resident before the first op, so
//   what an allocator takes at its start counts as its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "campaign/record.h"

namespace stress {

// One allocator in one scenario. An empty optional: not measured.
struct ComparedRow {
    std::string label;
    std::size_t runs = 0, failed = 0, skipped = 0, known = 0; // of every kind
    std::optional<double> ops_per_second, ratio, ratio_low, ratio_high; // ratios to the baseline
    LatencyRow tail; // in nanoseconds
    std::optional<std::uint64_t> memory_bytes, live_bytes;
};

struct ComparedScenario {
    std::string scenario;
    std::string loop; // the row of hakmem-bench that its throughput is of; empty: the scenario itself
    std::vector<ComparedRow> rows; // one for each allocator, in one order
};

// One allocator over all scenarios.
struct ComparedTotal {
    std::string label;
    std::size_t runs = 0, failed = 0, skipped = 0, known = 0;
    std::size_t scenarios = 0; // that every allocator was measured in, which the figures below are of
    // Geometric means, to the baseline. `ratio`, of throughput: where some scenario measured its own, without the scenarios
    // whose throughput is of a loop. `tail_ratio`: of p99.9.
    std::optional<double> ratio, tail_ratio;
    std::optional<std::uint64_t> memory_bytes; // sum
};

struct Comparison {
    std::string baseline; // label: libc if it was run, else the first allocator
    bool has_speed = false; // some run measured throughput without checks
    bool has_own_speed = false; // some of it by running the scenario itself
    bool tails_unchecked = false;
    std::vector<ComparedScenario> scenarios;
    std::vector<ComparedTotal> totals; // in the order of each scenario's rows
};

// Of the scenarios whose throughput is of a loop of hakmem-bench: their names, or those of the rows, as "a, b and c".
std::string loop_scenarios(const Comparison &comparison);
std::string loop_rows(const Comparison &comparison);

// The runs have labels.
Comparison comparison_of(const std::vector<RunRecord> &runs);

} // namespace stress

// The figures of a report, as SVG. Each is readable at 360 pixels and in black and white. Words beside it say the same,
// and a table on the page below has the same numbers.
#pragma once

#include <string>
#include <vector>

#include "campaign/record.h"

namespace stress {

using Runs = std::vector<const RunRecord *>;

inline constexpr std::size_t kPageColours = 6; // classes c0 and up

// The largest of a run's samples, in bytes.
double memory_high(const RunRecord &run);

// Resident and live bytes over time, with the area between them; empty if the run has no samples. The scale reaches at
// least to `high_bytes`, so that figures to be compared share one.
std::string figure_memory(const std::string &id, const RunRecord &run, double high_bytes);

// p50, p90, p99, p99.9 and the maximum of malloc and free on a logarithmic scale; empty if nothing was measured.
std::string figure_latency(const std::string &id, const Runs &runs);

} // namespace stress

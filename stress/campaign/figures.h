// The figures of a report, as SVG. Each is readable at 360 pixels and in black and white: what is drawn is also said
// in words beside it, and the page has a table of the same figures below.
#pragma once

#include <string>
#include <vector>

#include "campaign/record.h"

namespace stress {

using Runs = std::vector<const RunRecord *>;

// Bars of ops/s, one for each run; a scale for each schedule. `allocators` in the order of their colours.
std::string figure_throughput(const std::string &id, const Runs &runs, const std::vector<std::string> &allocators);

// The highest of a run's samples, in bytes.
double memory_high(const RunRecord &run);

// Resident and live bytes over time, with the area between them; empty when the run has no samples. The scale
// reaches at least to `high_bytes`: figures to be compared share theirs.
std::string figure_memory(const std::string &id, const RunRecord &run, double high_bytes);

// p50, p90, p99, p99.9 and the maximum of malloc and free on a logarithmic scale; empty when nothing was measured.
std::string figure_latency(const std::string &id, const Runs &runs);

}  // namespace stress

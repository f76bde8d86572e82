// Patterns whose calls are counted while the heap grows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bench {

struct GrowthPlan {
    std::string pattern;
    std::uint64_t live = 1000; // what the pattern grows: blocks, threads, MiB of a limit
    std::uint64_t calls = 1000; // patterns that free everything make one call for each block
    std::uint64_t from = 0, to = UINT64_MAX; // the calls that are marked
    std::uint64_t mark = 1; // calls from one mark to the next
};

std::vector<std::string> growth_names();

// The number of calls; nothing if there is no such pattern.
std::optional<std::uint64_t> growth_run(const GrowthPlan &plan);

} // namespace bench

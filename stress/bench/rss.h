// The memory rows of hakmem-bench: how much memory the process keeps at named moments.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

struct RssPlan {
    std::uint64_t mib;      // the live set
    std::uint64_t wait_ms;  // from the last free to the last measurement
    std::uint64_t seed;
};

// Figures in KiB, in the order in which they were taken.
using RssFigures = std::vector<std::pair<const char *, std::uint64_t>>;

struct RssRow {
    const char *name;
    const char *purpose;
    RssFigures (*run)(const RssPlan &plan);  // null: done by the program hakmem-bench-tiny
};

std::span<const RssRow> rss_rows();
const RssRow *rss_row_find(std::string_view name);  // nullptr if there is none

}  // namespace bench

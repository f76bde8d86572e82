// The cells of ci/bench surface: patterns of calls by sizes by numbers of threads. cell.cc decides which of them there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct CellPlan {
    std::string pattern;
    std::size_t size = 64;
    std::uint32_t threads = 1;
    std::uint32_t span_ms = 40; // about what the pairs should take; each thread allocates its live set once in any case
    bool calls = false; // time each call. The other times mean nothing then
};

struct CellFigures {
    std::uint64_t pairs = 0, nulls = 0;
    double seconds = 0; // without pauses
    std::uint64_t worst_malloc_ns = 0, worst_free_ns = 0;
};

// One line for each pattern.
std::string cells_text();

// The cells of the grid, and those of its quick form.
std::vector<CellPlan> cells(bool quick);

// Why there is no such cell; "" if there is.
std::string cell_refusal(const CellPlan &plan);

// Ends the program if malloc returns NULL, except in `limit`.
CellFigures cell_run(const CellPlan &plan);

} // namespace bench

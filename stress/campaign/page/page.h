// The report as one HTML page that needs nothing else: no script, no request, and figures drawn when it is made.
#pragma once

#include <string>
#include <vector>

#include "campaign/page/directed.h"
#include "campaign/page/library.h"
#include "campaign/record.h"
#include "campaign/soak_state.h"

namespace stress {

struct Machine {
    std::string processor, kernel;
    std::uint64_t cores = 0, memory_bytes = 0;
};

struct ReportHeader {
    std::string command;  // repeats the whole campaign
    std::string options;  // describes what was run
    SoakState state;      // counts, seed, time
    double soak_seconds = 0;
    bool complete = true;
    std::uint64_t written_unix = 0;
    Machine machine;
    std::vector<Library> libraries; // of the runs' allocators, as far as they are here
    std::vector<DirectedChecks> directed; // one for each malloc that they ran on
    std::string surface_svg; // the heat map of ci/bench surface; empty: none
};

// `runs` are ordered from the oldest to the newest. The page answers, in this order: does each malloc pass, and what failed
// (verdict, failures, directed checks); where is it slow or large (comparison); what was not judged (skips). Every run comes
// last, folded, with figures of the newest checked run of each scenario, allocator and schedule.
std::string page_html(const ReportHeader &header, std::vector<RunRecord> runs);

} // namespace stress

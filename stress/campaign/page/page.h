// The report as one HTML page that needs nothing else: no script, no request, and figures drawn when it is made.
#pragma once

#include <string>
#include <vector>

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
    std::string surface_svg; // the heat map of ci/bench surface; empty: none
};

// `runs` are ordered from the oldest to the newest. First the comparison, then what failed, then every run, folded.
// Figures there show the newest checked run of each scenario, allocator and schedule.
std::string page_html(const ReportHeader &header, std::vector<RunRecord> runs);

}  // namespace stress

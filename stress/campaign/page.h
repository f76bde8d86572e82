// The report as one HTML page that needs nothing else: no script, no request, figures drawn when it is made.
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
    std::string command;  // does all of it again
    std::string options;  // what was run, in words
    SoakState state;      // counts, seed, time
    double soak_seconds = 0;
    bool complete = true;
    std::uint64_t written_unix = 0;
    Machine machine;
};

// `runs` from the oldest to the newest; figures are drawn for the newest of each scenario, allocator and schedule.
std::string page_html(const ReportHeader &header, const std::vector<RunRecord> &runs);

}  // namespace stress

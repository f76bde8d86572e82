// The state of a campaign: which run is next, the time used up, the counts. A soak keeps it in DIR/soak.json, replaced
// as a whole after each run, so that a kill or a power loss costs at most the run in progress.
//
// The file holds a checksum of its content. A file that is cut short, changed, or made with other options is
// recognised, and never overwritten.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "campaign/record.h"

namespace stress {

// The runs of one scenario on one allocator under one schedule.
struct CampaignCell {
    std::string scenario, allocator, schedule;
    RunMode mode = RunMode::Check;  // a soak makes no others
    std::uint64_t passed = 0, failed = 0, skipped = 0, known = 0;
    std::uint64_t unconfirmed = 0; // with a failure that did not come in each of the runs made (judge.h)
    std::string skip_reason;     // of the newest skip
    double ops_per_second = -1;  // of the newest run; below 0: not measured
    double peak_rss_bytes = -1;
    double seconds = -1;
};

// A run before those of the plan: a seed that failed once.
struct FirstRun {
    std::size_t cell = 0;
    std::uint64_t seed = 0;
};

struct SoakState {
    std::string options;  // everything that decides which runs are made, as text
    std::uint64_t first_seed = 0;
    std::uint64_t next_run = 0;
    std::uint64_t started_unix = 0;
    double elapsed_seconds = 0;
    std::uint64_t passed = 0, failed = 0, skipped = 0;
    std::uint64_t known = 0;  // failures that --expect names; not in `failed`
    std::uint64_t unconfirmed = 0; // see CampaignCell
    std::vector<CampaignCell> cells;
    std::vector<FirstRun> first; // next_run counts these, then the runs of the plan
};

std::string soak_state_text(const SoakState &state);

// Returns why the text is not a state, or nothing.
std::string soak_state_read(const std::string &text, SoakState &state);

}  // namespace stress

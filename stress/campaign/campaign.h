// A campaign: many runs, one after another, each a process of its own; at the end a table, a count and, where asked
// for, a report. A soak is a campaign that starts over with the next seed until its time is used up, and that can be
// interrupted and taken up again at any run.
//
// Run i is plan[i % plan size] with seed first + i / plan size; so the state is a number, and each run can be named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stress {

struct CampaignOptions {
    std::vector<std::string> scenarios, allocators, schedules;  // at least one of each
    std::vector<std::string> run_words;                         // further options of every run, as given
    std::vector<std::string> os_words;                          // and of those under schedule os
    std::optional<std::uint64_t> seed;
    double timeout_seconds = 600;  // of one run
    double soak_seconds = 0;       // 0: every run once
    bool fresh = false;
    bool list_skips = false;
    std::string report_directory;  // empty: none
    std::string json_path;         // empty: none; "-": stdout
    std::string command;           // as the user gave it, without --fresh; it resumes a soak
    std::string program_name;      // for the commands that repeat a run
    // Tests replace these.
    std::string program = "/proc/self/exe";
    double checkpoint_seconds = 3600;
};

// Returns the exit status: 0 all passed, 1 a failure or an interruption, 2 bad input (then with a line on stderr).
int campaign_run(const CampaignOptions &options);

}  // namespace stress

// A campaign: many runs, one after another, each in its own process. At the end it prints a table and a count, and
// writes a report if asked for one. A soak is a campaign that starts over with the next seed until its time is used up.
// It can be interrupted and resumed at any run.
//
// The plan lists the runs of one pass: for each scenario the checked runs, then the unchecked ones (speed_rounds), in
// which allocators take turns. Run i is plan[i % plan size] in pass i / plan size; each pass, and each round within it,
// adds one to the seed. So one number is the state of a campaign, and names a run. A soak has no unchecked runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/expect.h"

namespace stress {

struct CampaignOptions {
    std::vector<std::string> scenarios, allocators, schedules; // at least one of each
    std::vector<std::string> run_words; // further options for every run, as given
    std::vector<std::string> os_words; // further options for runs with schedule os
    std::optional<std::uint64_t> seed;
    // Scenarios for which the command `speed` times a loop that has no work of the suite's own; the rounds of the others run
    // the scenario itself.
    std::vector<std::string> loops;
    std::function<std::string(const std::string &)> build_id; // of an allocator's library; empty: not known
    std::string shard; // of a soak: --shard I/N, which takes every Nth seed; empty: all
    std::uint64_t seed_stride = 1;
    std::uint64_t seed_shard = 0; // which of each seed_stride seeds
    std::string kept_path; // --seeds: seeds that failed, which come first; empty: none
    std::uint32_t speed_rounds = 0; // 0: only checked runs; else this many unchecked rounds too, and a run for latency
    double timeout_seconds = 600; // of one run
    double soak_seconds = 0; // 0: every run once
    bool fresh = false;
    bool list_skips = false;
    std::string report_directory; // empty: none
    std::string json_path; // empty: none; "-": stdout
    std::string junit_path; // empty: none
    Expectations expected; // known failures
    std::string command; // as the user gave it, without --fresh; repeating it resumes a soak
    std::string program_name; // for the commands that repeat a run
    // Tests replace these.
    std::string program = "/proc/self/exe";
    double checkpoint_seconds = 3600;
};

// Returns the exit status: 0 all passed, 1 a failure or an interruption, 2 bad input, 3 results that could not be kept
// (the last two with a line on stderr).
int campaign_run(const CampaignOptions &options);

} // namespace stress

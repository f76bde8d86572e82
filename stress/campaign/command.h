// The commands that make several runs: `hakmem-stress all`, and a scenario with --soak. Only main calls them, before
// any allocator is put under the process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace stress {

struct CampaignDefaults {
    std::vector<std::string> scenarios;  // all there are
    std::vector<std::string> checks;     // of conform, which --expect may name too
    std::string allocator = "hakmem";
    std::function<std::string(const std::string &)> build_id{}; // of an allocator's library
    std::vector<std::string> loops{};    // scenarios whose loop `speed` times; see CampaignOptions
};

// argv[1] is "all". Returns the exit status; prints one line on stderr for bad input.
int campaign_all(int argc, const char *const *argv, const CampaignDefaults &defaults);

// The options of the scenario's own command line that the campaign handles itself.
struct SoakRequest {
    std::string scenario, allocator, schedule = "os";
    std::string soak;              // as given: "8h"
    std::string report_directory;  // empty: refused, since the state has nowhere to go
    std::string json_path;         // not empty: refused
    std::string junit_path, expect; // as those of `all`; empty: none
    std::vector<std::string> names; // that the file of --expect may have: scenarios and checks
    std::optional<std::uint64_t> seed;
    double seconds = 0;  // of one run; 0: limited only by ops
    bool fresh = false;
    std::function<std::string(const std::string &)> build_id{}; // of an allocator's library
};

// The arguments of a scenario's command line that every run of a soak gets too: without the program, the scenario, and
// the options that the campaign sets for each run.
std::vector<std::string> campaign_run_words(int argc, const char *const *argv);

// argv[1] is the scenario. Every run gets all other options as they were given.
int campaign_soak(int argc, const char *const *argv, const SoakRequest &request);

}  // namespace stress

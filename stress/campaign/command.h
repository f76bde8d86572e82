// The commands that run more than one run: `hakmem-stress all`, and a scenario with --soak. Both are used by main
// alone, before any allocator is put under the process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stress {

struct CampaignDefaults {
    std::vector<std::string> scenarios;  // all there are
    std::string allocator = "hakmem";
};

// argv[1] is "all". Returns the exit status; bad input is told in one line on stderr.
int campaign_all(int argc, const char *const *argv, const CampaignDefaults &defaults);

// What the scenario's own command line said, for the parts that the campaign sets itself.
struct SoakRequest {
    std::string scenario, allocator, schedule = "os";
    std::string soak;              // as given: "8h"
    std::string report_directory;  // empty: refused, the state has no place
    std::string json_path;         // not empty: refused
    std::optional<std::uint64_t> seed;
    double seconds = 0;  // of one run; 0: limited by ops alone
    bool fresh = false;
};

// The arguments of a scenario's command line that every run of a soak is given too: without the program, the
// scenario, and what the campaign sets for each run itself.
std::vector<std::string> campaign_run_words(int argc, const char *const *argv);

// argv[1] is the scenario. All other options go to every run as they were given.
int campaign_soak(int argc, const char *const *argv, const SoakRequest &request);

}  // namespace stress

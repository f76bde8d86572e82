// What a run is to do, as values. options_parse.h makes them from a command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/seat/schedule_mark.h"

namespace stress {

enum class Schedule { Os, Seeded };

// A scenario's defaults.
struct ScenarioDefaults {
    std::size_t min_size_bytes = 16, max_size_bytes = 1024;
    std::uint64_t seeded_ops = 20000;  // under the seeded scheduler, where time cannot be a limit
    std::uint64_t working_set = 256;   // slots of each thread
    std::uint32_t repeat = 1;          // of checked runs: Options::repeat if none is asked for
};

class OwnOptions;

// What every run has. The options of one scenario alone are with that scenario: engine/run/own_options.h.
struct Options {
    std::string scenario;
    std::uint32_t threads = 2;  // seats of the run
    double seconds = 0;         // 0: not limited by time
    std::uint64_t ops = 0;      // 0: not limited by ops
    std::optional<std::uint64_t> seed;
    std::string allocator;
    std::string json_path;  // empty: none; "-": stdout
    std::string note; // a line for stderr before the run; empty: none
    std::string report_directory;  // empty: none
    std::string soak;              // empty: one run; otherwise how long to repeat it, such as "8h"
    bool fresh = false;            // ignore what an earlier soak in that directory did
    std::string junit_path, expect;  // of a soak: results as JUnit, the file of known failures; empty: none
    bool check = true;
    bool strict = true;     // default: on for our own libraries, off for others; see options_parse.cc
    Schedule schedule = Schedule::Os;
    std::optional<ScheduleMark> expect_schedule;  // of a seeded run; any other schedule is the failure `diverged`
    std::uint32_t laps = 0;  // 0: one if nothing is checked, otherwise eight
    std::uint32_t repeat = 1; // how often to run in one process; above 1, what each round leaves is judged
    bool latency = true;     // time one call in 61; default: only with checks
    std::uint64_t cancel_ops =
        0; // threads with the smallest stacks are cancelled after about this number of ops; 0: none
    bool touch_pages = false; // unchecked: touch each page of a block, not its first byte alone
    double watchdog_seconds = 60;
    double return_seconds = 3;  // how long memory may take to return to the system once everything is freed
    std::size_t min_size_bytes = 0;
    std::size_t max_size_bytes = 0;

    std::uint64_t working_set = 0;  // slots of each thread
    std::shared_ptr<const OwnOptions> own;  // those that only this scenario has; nullptr: none

    // The ops of each thread; UINT64_MAX: not limited.
    std::uint64_t thread_ops() const { return ops == 0 ? UINT64_MAX : ops / threads; }
};

}  // namespace stress

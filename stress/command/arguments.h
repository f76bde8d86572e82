// The command lines of show, run, record, capture, shrink, compare, speed, conform and report, parsed by CLI11 in one
// place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/options.h"

namespace stress {

struct Arguments {
    std::string file;                     // the file of ops; empty is possible for compare; report: the record
    std::string allocator, allocator_b;   // as given, or the default of this build
    std::string output; // record, show --binary: the file to write; shrink: the directory; empty: the default
    std::string name; // shrink: name of the files to write; empty: the default
    std::string json_path;
    std::string junit_path, expect, shard; // conform
    bool json = false; // show
    bool text = false; // record
    bool list = false; // conform
    bool symbols = true; // report
    std::vector<std::string> only; // conform: ids of checks
    double deadline_seconds = 10; // conform: limit for one check
    std::uint64_t memory_cap_mib = 0; // conform: of one check; 0: half of what the machine has available
    std::optional<bool> strict;
    std::optional<std::uint64_t> seed;
    std::optional<Schedule> schedule;
    std::optional<ScheduleMark> expect_schedule;
    double watchdog_seconds = 60;
    std::uint64_t tries = 1, ops = 20000;
    double seconds = 300;
    std::uint32_t threads = 2; // speed
    std::string scenario = "random-mixed";
    std::string keep; // shrink: what to keep; empty: the failure
    bool check = true; // run: false: as fast as it can
    std::uint64_t records = 0; // capture: the most calls of a process; 0: no limit
    std::vector<std::string> rest; // record: the scenario and its options; capture: the program and its arguments

    bool run = false; // false: print `message` and exit with `exit_code`
    int exit_code = 0;
    std::string message;
};

// argv[1] is the command.
Arguments arguments_parse(int argc, char **argv);

// Prints the message and returns the exit code.
int arguments_refused(const Arguments &arguments);

// Prints one line on stderr and returns 2.
int bad_input(const std::string &what);

} // namespace stress

// The command line, parsed and judged. Whatever is wrong with it ends in one line that says how to mend it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace stress {

enum class RemoteMode { Queue, Ring, OwnerExit, FreeOnly, All };

struct Options {
    std::string scenario;
    std::uint32_t threads = 2;  // seats of the run; producers + consumers for remote-free
    double seconds = 0;         // 0: not limited by time
    std::uint64_t ops = 0;      // 0: not limited by ops
    std::optional<std::uint64_t> seed;
    std::string allocator;
    std::string json_path;  // empty: none; "-": stdout
    bool check = true;
    bool strict = true;     // default: on for our own libraries, off for others; see options.cc
    double watchdog_seconds = 60;
    std::size_t min_size_bytes = 0;
    std::size_t max_size_bytes = 0;

    std::uint64_t chunks = 1000;  // larson: blocks in a thread's window
    std::uint64_t rounds = 10;    // larson: times over the window in the life of a thread

    std::uint64_t iterations = 0;     // random-mixed: of each thread; 0: use ops and seconds
    std::uint64_t working_set = 256;  // random-mixed: slots of each thread

    std::uint32_t producers = 0;
    std::uint32_t consumers = 0;
    RemoteMode mode = RemoteMode::All;
    std::uint64_t queue_slots = 1024;
};

// Either options to run with, or a text to print and the status to exit with.
struct ParseOutcome {
    Options options;
    bool run = false;
    int exit_code = 0;
    std::string text;  // for stdout when exit_code is 0, else one line for stderr
};

ParseOutcome options_parse(int argc, const char *const *argv);

// The command that repeats this run: the arguments as given, with --seed added if it was left out.
std::string options_reproduce(int argc, const char *const *argv, const Options &options, std::uint64_t seed);

}  // namespace stress

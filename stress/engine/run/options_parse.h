// The command line, parsed and checked. Any error in it becomes one line that says how to correct it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/run/options.h"

namespace stress {

// Either options to run with, or a text to print and the exit status.
struct ParseOutcome {
    Options options;
    bool run = false;
    int exit_code = 0;
    std::string text;  // for stdout if exit_code is 0, otherwise one line for stderr
};

ParseOutcome options_parse(int argc, const char *const *argv, const std::vector<std::string> &commands = {});

// The command that repeats this run: the arguments as given, with --seed added if it was left out.
std::string options_reproduce(int argc, const char *const *argv, const Options &options, std::uint64_t seed);

}  // namespace stress

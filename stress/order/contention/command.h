// hakmem-order contention: its options, and what it prints.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "order/malloc/subject.h"

namespace stress::order {

struct ContentionOptions {
    std::string allocator, pattern = "all", json;
    std::vector<unsigned> threads = {2, 8, 64, 256};
    std::uint64_t seed = 42;
    unsigned warm = 3000;
    bool places = false, list = false;
    int status = 0; // of the process, after a run: 1 if a pattern failed
};

// The subcommand, which writes to `options`.
CLI::App *contention_options(CLI::App &app, ContentionOptions &options);
// Empty, or what is wrong with the options. The subject is loaded, except for --list.
std::string contention_run(ContentionOptions &options, const Subject &subject);

} // namespace stress::order

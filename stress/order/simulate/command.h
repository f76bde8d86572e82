// The command hakmem-order simulate.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "order/malloc/subject.h"

namespace stress::order {

struct SimulateOptions {
    std::string allocator;
    std::uint64_t seed = 1, programs = 0, schedules = 24, failures = 10;
    double seconds = 30;
    bool is_random = false, prints = false, ignores_races = false;
};

CLI::App *simulate_options(CLI::App &app, SimulateOptions &options);
// `load`: empty, or what is wrong. Returns the exit status.
int simulate_run(const SimulateOptions &options, const std::function<std::string(Subject &)> &load);

} // namespace stress::order

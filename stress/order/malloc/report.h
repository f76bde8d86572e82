// A failed run as text: what failed, the stacks, and the interleaving.
#pragma once

#include <string>

#include "order/run/machine.h"

namespace stress::order {

// Program counters stay numbers in angle brackets: <0x7f...>.
std::string report_run(const Machine &machine, const Machine::Result &result);

// With their function, file and line instead. Needs the libraries where they were in the run.
std::string report_with_names(const std::string &text);

} // namespace stress::order

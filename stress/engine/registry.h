// The list of scenarios: the only place that names them all.
#pragma once

#include <span>
#include <string>

namespace stress {

class Run;

struct Scenario {
    const char *name;
    const char *purpose;  // one line
    void (*run)(Run &run);
};

std::span<const Scenario> scenarios();

// nullptr when there is none of this name.
const Scenario *scenario_find(const std::string &name);

}  // namespace stress

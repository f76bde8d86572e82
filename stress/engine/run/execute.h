// Runs a plan on the malloc of this process and reports the result. Every command that runs something ends here.
#pragma once

#include <functional>
#include <string>

#include "engine/run/options.h"
#include "engine/run/result.h"
#include "engine/run/run.h"
#include "engine/run/scenario.h"
#include "engine/subject/support.h"

namespace stress {

struct Execution {
    const Options &options;
    std::string name;  // of the scenario or of the file
    Support support;
    std::uint64_t seed;
    std::string reproduce;  // the command that repeats it
    // Optional: called with the run before it starts, and with its result before that is written.
    std::function<void(Run &)> before_run = nullptr;
    std::function<void(Result &)> after_run = nullptr;
    bool takes_schedule = true;  // whether the reproducing command accepts --expect-schedule
    bool stacks = true;          // after a crash or a hang also let gdb print the stack of every thread
    // Draws the plan again, for options.repeat above 1.
    std::function<Plan()> plan_again = nullptr;
};

// Runs, writes what the options ask for, and prints a summary. Returns the exit status: 0 pass, 1 fail, 77 if the plan
// can prove nothing here; it then says why. What could not be written changes verdict_status.
int execute(const Execution &execution, Plan &plan);

}  // namespace stress

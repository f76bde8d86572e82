// A scenario again and again: --soak.
#pragma once

#include "engine/run/options.h"

namespace stress {

// Runs the scenario of this command line over and over, each time in a child. Returns the exit status.
int soak_main(int argc, char **argv, const Options &options);

}  // namespace stress

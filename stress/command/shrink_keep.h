#pragma once

#include "command/arguments.h"
#include "program/program.h"

namespace stress {

// shrink --keep, whose text is sound. Returns the exit status: 0; 1 if the program does not show it; 2 bad input.
int shrink_keeping(Program program, const Arguments &arguments, const char *program_name);

} // namespace stress

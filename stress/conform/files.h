// The files that checks load or start: modules (plugin/*.c) and the program plugin/fresh.c, in conform/ beside the
// program.
#pragma once

#include <string>

#include "conform/check.h"

namespace stress::conform {

std::string file_path(const char *name);

// The first file that is not there; empty when all are.
std::string files_missing();

// The child that runs the check becomes the program plugin/fresh.c in the given mode; its exit status and last line are
// then the verdict. Nothing is allocated on the way. Returns only if the program cannot start.
Verdict in_fresh_program(const char *mode, const Subject &subject);

} // namespace stress::conform

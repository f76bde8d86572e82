// The files that checks load or start: modules (plugin/*.c) and the program plugin/fresh.c, in conform/ beside the
// program.
#pragma once

#include <string>

#include "conform/check.h"

namespace stress::conform {

std::string file_path(const char *name);

// The first file that is missing; empty if none is.
std::string files_missing();

// The next program loads this file after the library and before libc. The program and the library call its functions. Its
// constructors run before the library's, and its destructors after them.
void preload_after(const char *name);

// Replaces the child that runs the check by the program plugin/fresh.c in this mode. The program's exit status and last
// line are then the verdict. Allocates nothing on the way. Returns only if the program cannot start.
Verdict in_fresh_program(const char *mode, const Subject &subject);

// The same for a forked child, whose exit status is no verdict. Returns only if the program cannot start.
void become_fresh_program(const char *mode, const Subject &subject);

} // namespace stress::conform

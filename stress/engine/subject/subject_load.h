// Puts the chosen malloc under the program by running it again with LD_PRELOAD, and proves that it is there.
#pragma once

#include <string>

#include "engine/subject/support.h"

namespace stress {

struct SubjectOutcome {
    bool ok = false;
    Support support;
    std::string error;  // if not ok: one line that says why
};

// `allocator` is system, hakmem, validate (libraries beside this program) or the path of a library. If the program has
// to run again, this does not return. Otherwise it says whether malloc is now the chosen one. With fixed_layout the
// program also runs again without address randomisation, so that addresses, and decisions of a malloc that depend on
// them, are the same in every run. If the system refuses that, a line on stderr says so.
// A library that cannot be tested is refused first, by subject_fault.
SubjectOutcome subject_load(const std::string &allocator, bool fixed_layout, char **argv);

// What is wrong with the allocator, in one line, or nothing: no such file, no library of this machine, cut short, a
// program does not start with it, or gets its malloc elsewhere. Starts a process to find out, and changes nothing here.
// A build with its own malloc judges nothing.
std::string subject_fault(const std::string &allocator);

// The real path of the file of an allocator that is not system, whether or not it is there.
std::string subject_path(const std::string &allocator);

// The library of an allocator that is not system, as LD_PRELOAD can name it; empty if there is none: `fault` then says
// why.
std::string subject_library(const std::string &allocator, std::string &fault);

} // namespace stress

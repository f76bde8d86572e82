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
SubjectOutcome subject_load(const std::string &allocator, bool fixed_layout, char **argv);

}  // namespace stress

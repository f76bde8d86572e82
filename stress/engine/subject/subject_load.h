// Puts the chosen malloc under the program, by running it again with LD_PRELOAD, and proves it there.
#pragma once

#include <string>

#include "engine/subject/support.h"

namespace stress {

struct SubjectOutcome {
    bool ok = false;
    Support support;
    std::string error;  // one line when not ok
};

// `allocator` is system, hakmem, validate (libraries beside this program) or the path of a library.
// Either does not return, because the program runs again; or says whether malloc is now the chosen one.
// With fixed_layout the program also runs again without address randomisation, so that addresses, and what a
// malloc decides by them, are the same in every run; where the system refuses that, a line on stderr says so.
SubjectOutcome subject_load(const std::string &allocator, bool fixed_layout, char **argv);

}  // namespace stress

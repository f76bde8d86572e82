// A run that dies on a signal still says which run it was: one line with the seed, what was recorded so
// far, and the command that repeats it. Then the signal takes its course.
#pragma once

#include <cstdint>
#include <string>

#include "engine/failure.h"

namespace stress {

// Leaves signals alone that somebody handles already (a sanitizer, the subject's own reports).
void crash_line_install(const FailureLog &failures, std::uint64_t seed, const std::string &reproduce);
void crash_line_remove();

}  // namespace stress

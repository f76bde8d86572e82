// The comparison for a terminal.
#pragma once

#include <string>

#include "campaign/compare/comparison.h"

namespace stress {

// A table of the scenarios and one of the totals, with what their columns mean.
std::string comparison_text(const Comparison &comparison);

} // namespace stress

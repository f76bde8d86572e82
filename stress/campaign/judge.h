// Judges a run from outside, by the child's output and by how it ended. Adds the rules crash (a signal), hang (no end
// in time, or the run's own watchdog) and error (bad exit status, no result, no op) to the run's own rules.
#pragma once

#include <string>

#include "campaign/child.h"
#include "campaign/record.h"

namespace stress {

// The exit status of a run that does not apply; its last line on stdout is "skipped: REASON".
inline constexpr int kSkipStatus = 77;

RunRecord judge(const ChildOutcome &outcome, double timeout_seconds);

}  // namespace stress

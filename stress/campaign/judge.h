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

// Whether a second run must see a failure again before it stands. So it is if the system scheduled the threads, the run
// was not strict, and it failed by nothing but rules that compare measurements with a bound: memory_bound, plateau,
// memory_return, mappings; or by proves_nothing, a case that did not come up. How much memory a malloc holds depends on
// how its threads meet, so a busy machine may change these. Every other rule saw a malloc break its contract: once is
// proof.
bool judge_wants_again(const RunRecord &record);

// The verdict on two runs with the same arguments, of which the first wanted the second. A second run that passes makes
// it a pass that keeps the first's failures as unconfirmed. If the second fails too, by whatever rule, both did. If it
// was skipped, the first one's failure stands.
RunRecord judge_both(const RunRecord &first, const RunRecord &second);

} // namespace stress

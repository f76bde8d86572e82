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

// A rule may be broken in one run and kept in the next one with the same arguments, since the system schedules the
// threads and samples of memory are taken by the clock. Verdicts would be chance, so such a run is made again, and what
// all runs broke stands. Strict runs, those of our own libraries, must pass each time.

// How many runs must see a failure that depends on timing: one that comes in half of all runs is seen in all five 1 time
// in 32.
inline constexpr unsigned kConfirmingRuns = 5;

// Whether another run must see the failures of `runs` runs again before they stand: all of them depend on timing.
// memory_bound, plateau, memory_return and mappings compare measurements with a bound. Where the system schedules the
// threads, proves_nothing is a case that did not come up. Every other rule saw a malloc break its contract: once is proof.
bool judge_wants_again(const RunRecord &record, unsigned runs);

// The verdict on `runs` runs with the same arguments: on all but the last, which wanted another, and the last. If the
// last one passes, so do all, and the failures are kept as unconfirmed. If it fails by a rule that the others broke, what
// they do not share is unconfirmed. If it was skipped, the failure stands.
RunRecord judge_again(const RunRecord &before, const RunRecord &again, unsigned runs);

} // namespace stress

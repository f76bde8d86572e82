// Signals that interrupt a seat's thread inside the subject. Under the system's schedule a timer of the thread
// raises them; under the seeded scheduler the thread raises them itself at sync points, so the run repeats.
//
// The handler clobbers errno and restores it, and uses stack and vector registers; it never enters the subject.
// Now and then it signals the process as a whole, which the kernel hands to any thread that does not block the
// signal: seats alone do not, and a thread of the subject's own that gets it has forgotten to block signals.
#pragma once

#include <signal.h>

#include <cstdint>

#include "engine/judge/failure.h"
#include "engine/op/process_counts.h"

namespace stress {

// Blocks the signals in the calling thread and in all that it starts from now on, and installs the handler.
// They interrupt system calls for good where `restart` is false; a bare handler counts and returns.
void signals_begin(FailureLog &failures, bool restart, bool bare);
void signals_end();

// The mask of the calling thread and these signals: for threads that are no seats.
sigset_t signals_blocked_mask();

// Interrupts this thread every period_us until it is stopped, or ends. 0, or an errno value.
int signals_start(ProcessCounts &counts, std::uint64_t period_us);
void signals_stop();

// While no seat has a thread: signals the process, where signals were used at all. Whoever takes it is a stranger.
void signals_probe_strangers();

}  // namespace stress

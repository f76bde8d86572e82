// Signals that interrupt a seat's thread inside the subject. Under the system's schedule a timer of the thread raises
// them; under the seeded scheduler the thread raises them itself at sync points, so the run repeats.
//
// The handler clobbers and restores errno, and uses the stack and vector registers; it never enters the subject.
// Sometimes it signals the whole process; the kernel then picks any thread that does not block the signal. Only seats
// leave it unblocked, so if a thread of the subject's own gets it, the subject has forgotten to block signals.
#pragma once

#include <signal.h>

#include <cstdint>

#include "engine/judge/failure.h"
#include "engine/op/process_counts.h"

namespace stress {

// Blocks the signals in the calling thread and in all threads that it starts from now on, and installs the handler. If
// `restart` is false, interrupted system calls fail with EINTR; a bare handler only counts.
void signals_begin(FailureLog &failures, bool restart, bool bare);
void signals_end();

// The calling thread's mask plus these signals: for threads that are not seats.
sigset_t signals_blocked_mask();

// Interrupts this thread every period_us until it is stopped, or ends. 0, or an errno value.
int signals_start(ProcessCounts &counts, std::uint64_t period_us);
void signals_stop();

// Signals the process while no seat has a thread, if signals were used at all. Any thread that takes the signal is a
// stranger.
void signals_probe_strangers();

}  // namespace stress

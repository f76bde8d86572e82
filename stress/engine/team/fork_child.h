// What the child of a fork does; see fork_op.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/seat/seat.h"

namespace stress {

// The child's progress and findings, in memory that it shares with the parent.
struct ForkReport {
    std::atomic<const char *> phase{"the return from fork"};
    char failure[512];  // rule and detail; empty: none
};

// nullptr if the system has no memory.
ForkReport *fork_report_make();
void fork_report_free(ForkReport *report);

struct ForkTask {
    const Seat &seat;
    InterpShared &run;
    FailureLog &failures;  // the child's copy
    ForkReport &report;
    std::uint64_t ops;
    std::uint64_t salt;  // what the child draws from
    bool grandchild;     // whether it forks again
};

// Judges the seat's blocks, uses the malloc, and ends the process with status 0, or 1 if something was wrong.
[[noreturn]] void fork_child_run(const ForkTask &task);

// How long a child may take: at most 20 s, which 0 also means.
void fork_child_deadline_set(double seconds);

// Waits for a child until the deadline, then kills it. True if it ended with status 0; otherwise `why` says what was
// wrong.
bool fork_child_wait(pid_t child, ForkReport &report, char (&why)[640]);

}  // namespace stress

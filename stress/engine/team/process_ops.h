// Ops that concern the thread or the process, not a block: threads that end, fork, signals, libraries, refused
// memory. Each has a file of its own; here they are told apart, and what they set is taken back.
#pragma once

#include "engine/base/mapped.h"
#include "engine/op/op.h"
#include "engine/op/process_counts.h"
#include "engine/seat/seat.h"

namespace stress {

enum class SeatNext {
    GoOn,
    Renew,   // this thread ends as seat.renew says, and a fresh one goes on
    Failed,  // a failure was recorded
};

inline bool is_process_op(OpKind kind)
{
    return !op_has_slot(kind);
}

// Applies one. Called by the thread that sits on the seat.
SeatNext process_op_apply(const Op &op, Seat &seat, FailureLog &failures, InterpShared &shared);

// What a run will need of the process; see Plan.
struct ProcessNeeds {
    bool directs_forks = false;
    bool traps_os = false;
    double watchdog_seconds = 60;  // 0: none. The child of a fork may take a third of it.
    bool signals_restart = true, signals_bare = false;  // see Injection
};

// Before the first thread of a run, and after the last.
void process_ops_begin(const ProcessNeeds &needs, FailureLog &failures);
void process_ops_end(const Mapped<Seat *> &seats);

// When the thread leaves its seat: no failure is armed, no limit set, no signal comes any more.
void process_ops_leave(Seat &seat, InterpShared &shared);

// Between laps, when no thread is in the subject.
void process_ops_rest(Seat &seat, FailureLog &failures, InterpShared &shared);

// A run of these ops that never met what they are for has proved nothing, and fails by saying so.
void process_ops_judge(const ProcessFigures &figures, const ProcessNeeds &needs, Witness witness, FailureLog &failures);

}  // namespace stress

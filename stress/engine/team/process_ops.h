// Ops that concern the thread or the process, not a block: threads that end, fork, signals, libraries, refused memory.
// Each kind has its own file. This one dispatches them, and undoes what they set.
#pragma once

#include "engine/base/mapped.h"
#include "engine/judge/memory.h"
#include "engine/op/op.h"
#include "engine/op/process_counts.h"
#include "engine/seat/seat.h"

namespace stress {

enum class SeatNext {
    GoOn,
    Renew,   // this thread ends as seat.thread.renew says, and a fresh one continues
    Failed,  // a failure was recorded
};

inline bool is_process_op(OpKind kind)
{
    return !op_has_slot(kind);
}

// Applies one op. Called by the thread on the seat.
SeatNext process_op_apply(const Op &op, Seat &seat, FailureLog &failures, InterpShared &shared);

// What a run needs from the process; see Plan.
struct ProcessNeeds {
    bool directs_forks = false;
    bool traps_os = false;
    double watchdog_seconds = 60;  // 0: none. The child of a fork may take a third of it.
    bool signals_restart = true, signals_bare = false;  // see Injection
    std::size_t seats = 0;
    MemoryMeter *meter = nullptr; // nullptr: Idle does nothing
};

// Called before the first thread of a run starts, and after the last has ended.
void process_ops_begin(const ProcessNeeds &needs, FailureLog &failures);
void process_ops_end(const Mapped<Seat *> &seats);

// Called when the thread leaves its seat. Afterwards no failure is armed, no limit is set, and no signal comes.
void process_ops_leave(Seat &seat, InterpShared &shared);

// Called between laps, when no thread is in the subject.
void process_ops_rest(Seat &seat, FailureLog &failures, InterpShared &shared);

// Fails a run of these ops that never met what they are for, because it has proved nothing.
void process_ops_judge(const ProcessFigures &figures, const ProcessNeeds &needs, Witness witness, FailureLog &failures);

}  // namespace stress

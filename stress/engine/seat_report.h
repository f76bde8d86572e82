// What each thread of a run was doing, for a run that hangs or dies: its last ops, where it stands, its stack.
//
// Everything here is fit for a signal handler. Ops and seats are read while their threads may still move: a
// report that is a line off is better than none.
#pragma once

#include "engine/mapped.h"
#include "engine/safe_text.h"
#include "engine/seat.h"

namespace stress {

// "b5 = malloc(100)" as in a program (program/op_text.h), with the link of an op that waits for others.
void op_line(SafeText &text, const Op &op);

// The last ops of the seat, one a line; the last is the one in progress.
void seat_report_ops(int fd, const Seat &seat);

// Before the run: takes the signal, and loads the unwinder, which allocates when it is first used.
void seat_report_prepare();

// Asks the threads of all seats, one after another, to write their reports; the main thread when no seat has a
// thread. A thread that does not answer within a second is said not to. Called by the monitor's thread.
void seat_report_all(int fd, const Mapped<Seat *> &seats);

}  // namespace stress

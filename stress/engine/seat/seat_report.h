// What each thread of a run was doing, for a run that hangs or dies: its last ops, where it stands, its stack.
//
// Everything here is fit for a signal handler. Ops and seats are read while their threads may still move: a
// report that is a line off is better than none.
#pragma once

#include "engine/base/mapped.h"
#include "engine/base/safe_text.h"
#include "engine/seat/seat.h"

namespace stress {

// "b5 = malloc(100)" as in a program (program/op_text.h), with the link of an op that waits for others.
void op_line(SafeText &text, const Op &op);

// Adds the heading of a seat's last ops; returns the number behind the last one that is to be shown.
std::uint64_t seat_report_heading(SafeText &text, const Seat &seat);

// The last ops of the seat, one a line; the last is the one in progress.
void seat_report_ops(int fd, const Seat &seat);

// The same in parts, a heading and at most `count` lines, each given to `take`.
template <typename Take> void seat_report_lines(const Seat &seat, std::uint64_t count, Take take)
{
    SafeText text;
    const std::uint64_t end = seat_report_heading(text, seat);
    take(text);
    for (std::uint64_t i = end > count ? end - count : 0; i < end; ++i) {
        SafeText line;
        line.add("    ").add_number(i).add(": ");
        op_line(line, seat.ring[i % Seat::kRingOps]);
        line.add(i == seat.next ? "  <- next or in progress\n" : "\n");
        take(line);
    }
}

// Before the run: takes the signal, and loads the unwinder, which allocates when it is first used.
void seat_report_prepare();

// Asks the threads of all seats, one after another, to write their reports; the main thread when no seat has a
// thread. A thread that does not answer within a second is said not to. Called by the monitor's thread.
void seat_report_all(int fd, const Mapped<Seat *> &seats);

}  // namespace stress

// Reports what each thread was doing when a run hangs or dies: its last ops, its position, its stack.
//
// Everything here may run in a signal handler. Ops and seats are read while their threads may still run: a report that
// is a line off is better than none.
#pragma once

#include "engine/base/mapped.h"
#include "engine/base/safe_text.h"
#include "engine/seat/seat.h"

namespace stress {

// "b5 = malloc(100)" as in a program (program/op_text.h), with its link if the op waits for others.
void op_line(SafeText &text, const Op &op);

// Adds the heading for a seat's last ops; returns the number after the last op to show.
std::uint64_t seat_report_heading(SafeText &text, const Seat &seat);

// Writes the last ops of the seat, one per line; the last one is in progress.
void seat_report_ops(int fd, const Seat &seat);

// The same in parts: passes a heading and at most `count` lines to `take`.
template <typename Take> void seat_report_lines(const Seat &seat, std::uint64_t count, Take take)
{
    SafeText text;
    const std::uint64_t end = seat_report_heading(text, seat);
    take(text);
    for (std::uint64_t i = end > count ? end - count : 0; i < end; ++i) {
        SafeText line;
        line.add("    ").add_number(i).add(": ");
        op_line(line, seat.ops.op(i));
        line.add(i == seat.ops.consumed() ? "  <- next or in progress\n" : "\n");
        take(line);
    }
}

// Call before the run: installs the signal handler, and loads the unwinder, which allocates at its first use.
void seat_report_prepare();

// Asks the threads of all seats, one after another, to write their reports; or the main thread if no seat has a thread.
// If a thread does not answer within answer_ms_max milliseconds, the report says so. Called by the monitor's thread.
// `stacks`: also the stack, as the thread itself sees it.
void seat_report_all(int fd, const Mapped<Seat *> &seats, bool stacks, int answer_ms_max = 5000);

} // namespace stress

// How the threads of a seat end, and on which stack their successors run.
//
// Law: a seat's thread ends only where thread_end() says. If it is unwound from inside the subject, the subject
// contains a cancellation point, which malloc must not be: rule `cancellation`.
#pragma once

#include <cstddef>

#include "engine/seat/seat.h"

namespace stress {

// Marks the thread's end as intended and ends the thread as asked. Returns for Return, SmallStack and Destructors.
void thread_end(RenewHow how);
// Whether this thread has called thread_end.
bool thread_end_is_meant();

// Makes a cancellation pending on this thread; it takes effect after `ops` more ops.
void thread_cancel_after(Seat &seat, std::uint64_t ops);

// Draws when the thread that begins on the seat is cancelled: after about `ops` ops. thread_cancel_at_random does it then, and
// the cancellation is pending for a few ops more.
void thread_cancel_draw(Seat &seat, std::uint64_t ops, std::uint64_t seed);
void thread_cancel_at_random(Seat &seat);

// Called before each op. True if a pending cancellation is due, so that the seat must get a successor.
bool thread_cancel_is_due(Seat &seat);

// While it lives, cancellation points do not act on a pending cancellation.
struct CancelOff {
    CancelOff();
    ~CancelOff();
    CancelOff(const CancelOff &) = delete;
    CancelOff &operator=(const CancelOff &) = delete;

  private:
    int before_;
};

// The smallest stack that leaves the subject the PTHREAD_STACK_MIN bytes that POSIX promises to a thread: those bytes,
// plus the thread-local storage that libc puts there, plus our own frames around a call, as measured.
std::size_t small_stack_bytes();

// For a thread on a small stack: lets an overflow be reported from another stack, until small_stack_leave.
void small_stack_enter();
void small_stack_leave();

// At the first pthread_exit libc loads its unwinder, with locks held and memory from the subject. This makes it happen
// before the seeded scheduler watches.
void thread_life_warm_up();

} // namespace stress

// How the threads of a seat end, and on which stack their successors run.
//
// Law: a thread of a seat ends where thread_end() says, and nowhere else. One that is unwound from inside the
// subject shows that the subject has a cancellation point, which malloc must not be: rule `cancellation`.
#pragma once

#include <cstddef>

#include "engine/seat/seat.h"

namespace stress {

// Marks the thread's end as meant and then ends it as asked: returns for Return, SmallStack and Destructors.
void thread_end(RenewHow how);
// Whether thread_end was called by this thread.
bool thread_end_is_meant();

// Makes a cancellation pending on this thread, to be acted on after `ops` more ops.
void thread_cancel_after(Seat &seat, std::uint64_t ops);

// Called before each op: true when a pending cancellation is due, and the seat is to get a successor.
bool thread_cancel_is_due(Seat &seat);

// While it lives, calls that are cancellation points do not act on a pending cancellation.
struct CancelOff {
    CancelOff();
    ~CancelOff();
    CancelOff(const CancelOff &) = delete;
    CancelOff &operator=(const CancelOff &) = delete;

  private:
    int before_;
};

// The smallest stack that leaves the subject the PTHREAD_STACK_MIN bytes that POSIX promises to a thread: that,
// the thread-local storage that libc lays into it, and the frames of ours around a call, measured.
std::size_t small_stack_bytes();

// For a thread on such a stack: an overflow is then reported from another one. Until small_stack_leave.
void small_stack_enter();
void small_stack_leave();

// libc loads what it unwinds with at the first pthread_exit, with locks held and from the subject's memory; it
// is to happen before the seeded scheduler watches.
void thread_life_warm_up();

}  // namespace stress

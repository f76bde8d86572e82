// Threads of a run. Seats are started by the main thread; a thread may ask for a successor and end, and
// the main thread joins whoever has ended. Plain pthread_create: std::thread would allocate from the
// subject.
#pragma once

#include <cstdint>

#include "engine/mapped.h"
#include "engine/seat.h"

namespace stress {

std::uint64_t clock_ns();

// 0 or an errno value. The stack is small so that many threads may wait to be joined.
int thread_create(pthread_t &thread, void *(*entry)(void *), void *argument);

// Starts a thread on the seat; records a failure when the system has no thread to give.
void team_start(Seat &seat, Seat::Body body, void *argument, FailureLog &failures);

// Joins all threads of the seats until each seat is finished. At deadline_ns (of clock_ns) it sets stop.
void team_wait(Mapped<Seat *> &seats, std::uint64_t deadline_ns, std::atomic<bool> &stop);

}  // namespace stress

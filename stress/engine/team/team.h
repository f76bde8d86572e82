// Threads of a run. The main thread starts seats; a thread may ask for a successor and end, and the main thread joins
// the threads that have ended. Plain pthread_create, because std::thread would allocate from the subject.
#pragma once

#include <cstdint>

#include "engine/base/mapped.h"
#include "engine/seat/seat.h"

namespace stress {

// 0 or an errno value; see thread_start.cc. The stack is small, so that many threads may wait to be joined; stack_bytes
// 0: the usual size.
int thread_create(pthread_t &thread, void *(*entry)(void *), void *argument, std::size_t stack_bytes = 0);
void thread_join(pthread_t thread);

// Starts a thread on the seat, which applies the seat's ops. Records a failure if the system has no thread.
void team_start(Seat &seat, FailureLog &failures);

// Runs the threads of the seats to their end and joins them. Sets stop at deadline_ns (of clock_ns), and when every
// seat waits for another.
void team_wait(Mapped<Seat *> &seats, const Slots &slots, std::uint64_t deadline_ns, std::atomic<bool> &stop);

} // namespace stress

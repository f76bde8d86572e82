// What a thread does in its destructors: C++ thread_local objects and pthread keys that allocate and free, in all
// PTHREAD_DESTRUCTOR_ITERATIONS rounds, before, between and after the subject's own destructor of the thread.
//
// A dying thread can no longer use its seat, which its successor has taken over. So its last work uses an
// interpreter of its own, with a few slots, judged by the same oracle. Blocks come from three places: the thread's life, the
// destructors themselves, and other dying threads, which leave blocks in cells.
//
// Law: the last work frees what it allocates. Such a Renew makes 1 + keys x rounds calls, and the last one frees what
// is left.
#pragma once

#include <cstdint>

#include "engine/base/mapped.h"
#include "engine/judge/failure.h"
#include "engine/seat/seat.h"

namespace stress {

// Arms this thread: its destructors will allocate and free when it ends, with sizes drawn from `salt`; 0: only
// destructors of C++ objects do. False if there is no memory for it.
bool destructors_arm(Seat &seat, InterpShared &run, const FailureLog &failures, std::uint64_t salt);

// Judges and frees the blocks that dead threads left in the cells. No thread is in the subject.
void destructors_sweep(Seat &seat, InterpShared &run, const FailureLog &failures);

// Rounds of destructors since the process began.
std::uint64_t destructors_rounds();

} // namespace stress

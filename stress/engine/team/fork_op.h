// Fork: the child of a threaded program, in which only the forking thread exists, must find a malloc that works.
// It checks and frees its seat's blocks, allocates, reallocates, starts a thread that does so too, now and then
// forks itself, and exits; the parent waits, with a deadline.
//
// A fork at a random moment finds the other threads outside the allocator nearly always, and tests nothing. So on
// a subject with sync points the fork is directed: under the system's schedule a helper thread is sent to a given
// step of the allocator and stopped there while the fork happens (fork_park.h); under the seeded scheduler the
// forking thread gives way until another thread stands inside.
#pragma once

#include "engine/seat/seat.h"

namespace stress {

// False: a failure was recorded, rule `fork`.
bool fork_apply(const Op &op, Seat &seat, FailureLog &failures, InterpShared &shared);

}  // namespace stress

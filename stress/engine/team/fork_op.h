// Fork: the child of a threaded program, in which only the forking thread exists, must find a malloc that works. The
// child checks and frees its seat's blocks, allocates, reallocates, starts a thread that does the same, sometimes forks
// again, and exits. The parent waits, with a deadline.
//
// A fork at a random moment nearly always finds the other threads outside the allocator, and tests nothing. So on a
// subject with sync points the fork is directed. Under the system's schedule, a helper thread is stopped at a given
// step of the allocator while the fork happens (fork_park.h). Under the seeded scheduler, the forking thread gives way
// until another thread is inside.
#pragma once

#include "engine/seat/seat.h"

namespace stress {

// False: a failure was recorded, rule `fork`.
bool fork_apply(const Op &op, Seat &seat, FailureLog &failures, InterpShared &shared);

} // namespace stress

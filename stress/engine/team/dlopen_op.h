// Libraries that come and go while threads allocate. Dlopen loads one, lets blocks cross its border both ways, and
// unloads it. libc's loader allocates from the subject while it holds its lock.
#pragma once

#include <cstddef>

#include "engine/seat/seat.h"

namespace stress {

// Why the libraries cannot be used here; nullptr if they can.
const char *dlopen_refusal();

// Loads library number `which` modulo their count, uses it and unloads it. False: a failure was recorded.
bool dlopen_apply(std::size_t which, Seat &seat, FailureLog &failures, InterpShared &shared);

}  // namespace stress

// Streams of libc that allocate from the subject with their locks held: getline, whose buffer is realloced while the
// stream is locked, and fflush(NULL), which walks the list of all streams. Together with fork they deadlock if a malloc
// takes its locks in an atfork handler before libc takes the locks of the streams.
//
// In a sanitizer build the streams allocate from the sanitizer's malloc, and AddressSanitizer's deadlocks in this way
// (clang 19). There these ops do nothing, and the result says so.
#pragma once

#include <cstddef>

#include "engine/seat/seat.h"

namespace stress {

// Reads a line of `bytes` bytes from the seat's stream, which stays open, and checks the line.
bool getline_apply(std::size_t bytes, Seat &seat, FailureLog &failures, InterpShared &shared);
void flush_all_apply();

// Closes the stream of a seat.
void stream_close(Seat &seat);

} // namespace stress

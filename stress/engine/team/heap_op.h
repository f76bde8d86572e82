// Heaps of the program's own that all threads share. Heap visits one of a few: it allocates there, or checks, frees or
// reallocates a block that any thread has allocated there; or, when no other thread is in, it checks all of the heap's
// blocks and gives them back at once.
//
// Each record of a block is claimed before it is used. That, and the count of visitors when a heap is given back, is all
// the order that it puts between threads.
#pragma once

#include <cstddef>

#include "engine/seat/seat.h"

namespace stress {

// Before the first thread starts, and after the last has ended.
void heap_op_begin(std::size_t seat_count);
void heap_op_end();

// One visit; draws decides what it does. False: a failure was recorded.
bool heap_apply(std::uint64_t draws, Seat &seat, FailureLog &failures, InterpShared &shared);

// Between laps: gives back all heaps.
void heap_op_rest(Seat &seat, FailureLog &failures, InterpShared &shared);

} // namespace stress

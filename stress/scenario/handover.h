// What the modes of remote-free share: blocks on the way between threads, and the proof that each arrives
// exactly once.
//
// The record of a block travels with it, so the receiver can judge it. Besides, the sender numbers its
// blocks on each edge: a lost, repeated or reordered record is seen at once, and a lost tail at the end.
#pragma once

#include <cstdint>

#include "engine/mix.h"
#include "engine/queue.h"
#include "engine/run.h"

namespace stress {

struct Parcel {
    Block block;
    std::uint64_t number;  // on this edge, from 0
};

// One sender to one receiver.
struct Edge {
    SpscQueue<Parcel> queue;
    alignas(128) std::uint64_t sent = 0;      // the sender's
    alignas(128) std::uint64_t received = 0;  // the receiver's
};

// Each moves one block; false when the queue is full, or empty. `block` is empty after it was sent.
bool edge_send(Edge &edge, Block &block);
bool edge_receive(Edge &edge, Block &block, Seat &seat, FailureLog &failures);

// After all threads have ended: everything sent was received. Not asked of a run that failed.
void edge_judge(const Edge &edge, Seat &seat, FailureLog &failures);

// A fresh block for a neighbour: mostly malloc in checked runs, malloc alone in unchecked ones.
bool handover_allocate(Seat &seat, const Options &options, Block &block);

// Gives the core away: with more threads than cores, spinning on a queue keeps its other end off the core.
void handover_wait();

}  // namespace stress

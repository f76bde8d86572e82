// The log of a seat, in memory that may be shared with another process: what the seat did is known there even
// when this process crashes or hangs.
//
// Entry i is op i of the seat's stream. Entries below `done` are applied; the one at `done`, where `begun` is
// above it, was begun and not finished: it crashed, hangs, or waits for an op that did not come.
// Written by the thread that sits on the seat, without any order between seats; read when the process is gone.
#pragma once

#include <cstdint>

#include "engine/op/op.h"
#include "engine/seat/trace.h"

namespace stress {

struct SeatLog {
    struct Entry {
        Op op;
        std::uint64_t stamp;  // logical clock when the op was done, in seeded runs: their order is exact
    };

    std::uint64_t room;   // ops beyond it are counted and dropped
    std::uint64_t begun, done;
    Entry *entries;       // as mapped in the process that writes
    OpOutcome *outcomes;  // of the memory ops, in their order
};

}  // namespace stress

// The log of a seat, in memory that may be shared with another process. That process can read what the seat did even if
// this one crashes or hangs.
//
// Entry i is op i of the seat's stream. Entries below `done` are applied. If `begun` is above `done`, the entry at
// `done` was begun and not finished: it crashed, hangs, or waits for an op that did not come. The thread on the seat
// writes, without any order between seats; readers wait until the process is gone.
#pragma once

#include <cstdint>

#include "engine/op/op.h"
#include "engine/seat/trace.h"

namespace stress {

struct SeatLog {
    struct Entry {
        Op op;
        std::uint64_t stamp; // logical clock when the op was done; in seeded runs it gives their exact order
    };

    std::uint64_t room; // further ops are counted and dropped
    std::uint64_t begun, done;
    Entry *entries; // address in the process that writes
    OpOutcome *outcomes; // of the memory ops, in order
};

} // namespace stress

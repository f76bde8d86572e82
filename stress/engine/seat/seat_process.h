// What the process ops of a seat did, and what they hold between two ops. engine/team/process_ops.h undoes it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/op/process_counts.h"

namespace stress {

struct SeatProcess {
    ProcessCounts counts;
    // Whether this seat made memory scarce, by calls that fail or by a limit: counted in InterpShared::scarce.
    bool holds_failure = false, holds_limit = false, holds_own_limit = false, own_limit_is_tight = false;
    std::uint64_t heap_blocks = 0; // that the Heap op has allocated
    void *stream = nullptr;      // FILE of the GetLine op
    std::size_t stream_left = 0; // bytes that it will still deliver
};

} // namespace stress

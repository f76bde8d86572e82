// Counters of one seat. Only the thread on the seat writes them; any thread may read them, relaxed.
//
// A counter shared by threads would order them and hide the subject's races, so there is none. Law at the end of a
// clean run: the sums over all seats of allocated and freed are equal, in blocks and in bytes.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/op/op.h"

namespace stress {

struct Counters {
    std::atomic<std::uint64_t> ops{0};
    std::atomic<std::uint64_t> blocks_allocated{0};
    std::atomic<std::uint64_t> blocks_freed{0};
    std::atomic<std::uint64_t> bytes_allocated{0};
    std::atomic<std::uint64_t> bytes_freed{0};
    std::atomic<std::uint64_t> threads_started{0};
    std::atomic<std::uint64_t> refused{0};  // requests that returned NULL, rightly
    std::atomic<std::uint64_t> handed_over{0}; // checked runs: blocks that another seat judged than had allocated them
    // Checked runs: ops of each kind that had something to do and were judged. realloc of an empty slot is a malloc.
    std::atomic<std::uint64_t> judged[kOpKindCount] = {};
};

// relaxed load and store, not fetch_add: there is one writer.
inline void bump(std::atomic<std::uint64_t> &counter, std::uint64_t by)
{
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

inline std::uint64_t read(const std::atomic<std::uint64_t> &counter)
{
    return counter.load(std::memory_order_relaxed);
}

} // namespace stress

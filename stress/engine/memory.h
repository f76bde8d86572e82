// How much memory the subject uses, and how much it may.
//
// Resident bytes are those of the process (/proc/self/statm) less the harness's own arrays and the
// resident part of the claim map. What stays in is the program and its libraries, about 6 MiB, the same
// for every subject.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/claim_map.h"
#include "engine/mapped.h"
#include "engine/seat.h"

namespace stress {

// Resident bytes of this process, everything included. 0 when /proc cannot be read.
std::size_t process_resident_bytes();

struct MemorySample {
    std::uint64_t rss_bytes;   // of the subject, as above
    std::uint64_t live_bytes;  // asked for and not yet freed, summed over seats
};

// Samples are taken by the monitor every few milliseconds and by the main thread between phases. The
// counters are read while threads work, so live_bytes is off by what is in flight.
class MemoryMeter {
public:
    MemoryMeter(const ClaimMap &claims, const Mapped<Seat *> &seats) : claims_(claims), seats_(seats) {}

    MemorySample sample();

    std::uint64_t peak_rss_bytes() const { return peak_rss_bytes_.load(std::memory_order_relaxed); }
    std::uint64_t peak_live_bytes() const { return peak_live_bytes_.load(std::memory_order_relaxed); }

private:
    const ClaimMap &claims_;
    const Mapped<Seat *> &seats_;
    std::atomic<std::uint64_t> peak_rss_bytes_{0};
    std::atomic<std::uint64_t> peak_live_bytes_{0};
};

// The most that a sound malloc may keep resident for this peak of live bytes. See memory.cc.
std::uint64_t memory_bound_bytes(std::uint64_t peak_live_bytes, std::uint64_t seat_count);

}  // namespace stress

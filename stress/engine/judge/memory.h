// Measures how much memory the subject uses. memory_law.h says how much it may use.
//
// Resident bytes are those of the process (/proc/self/statm) less the harness's own arrays and the resident part of the
// claim map. The program and its libraries stay included: about 6 MiB, the same for every subject. Nothing here
// allocates.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/base/mapped.h"
#include "engine/judge/claim_map.h"
#include "engine/op/counters.h"

namespace stress {

// Resident bytes of this process, including the harness. 0 if /proc cannot be read.
std::size_t process_resident_bytes();

// How many mappings this process has (lines of /proc/self/maps). 0 when /proc cannot be read.
std::size_t process_mapping_count();

// Begins to measure the peak of the resident bytes, and the peak since then; 0 if the system does not tell.
void process_peak_begin();
std::size_t process_peak_resident_bytes();

// Threads of this process that the system has not ended. 0 when /proc cannot be read.
std::size_t process_thread_count();

struct MemorySample {
    std::uint64_t rss_bytes; // of the subject, as defined above
    std::uint64_t live_bytes; // asked for and not yet freed, summed over seats
};

// A sample and when it was taken, in seconds since the run began.
struct TimedSample {
    double seconds;
    std::uint64_t live_bytes, rss_bytes, ops;
};

// Samples are taken by the monitor every few milliseconds and by the main thread between phases. The counters are read
// while threads work, so live_bytes misses what is in flight.
class MemoryMeter {
  public:
    // `counters` are those of all seats.
    MemoryMeter(const ClaimMap &claims, const Mapped<const Counters *> &counters) : claims_(claims), counters_(counters)
    {}

    MemorySample sample();
    // Mappings without those of threads' stacks.
    std::size_t sample_mappings();

    std::uint64_t peak_rss_bytes() const { return peak_rss_bytes_.load(std::memory_order_relaxed); }
    std::uint64_t peak_live_bytes() const { return peak_live_bytes_.load(std::memory_order_relaxed); }
    std::uint64_t peak_mapping_count() const { return peak_mapping_count_.load(std::memory_order_relaxed); }

  private:
    const ClaimMap &claims_;
    const Mapped<const Counters *> &counters_;
    std::atomic<std::uint64_t> peak_rss_bytes_{0};
    std::atomic<std::uint64_t> peak_live_bytes_{0};
    std::atomic<std::uint64_t> peak_mapping_count_{0};
};

} // namespace stress

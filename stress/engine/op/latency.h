// Latency histograms of one seat, one for each kind of call. Only the seat's thread writes.
//
// Log-linear buckets, as in HdrHistogram: 16 for each power of two, so a value is off by at most 6%. One call in
// `kPeriod` is timed, with the processor's counter, read without a fence.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/build.h"

namespace stress {

inline std::uint64_t latency_ticks()
{
    return static_cast<std::uint64_t>(STRESS_CYCLE_COUNT());
}

class Latency {
  public:
    enum Call { Malloc, Free, Realloc };
    static constexpr std::size_t kCalls = 3;
    static constexpr std::size_t kBuckets = 16 * 48;
    // A prime: where calls take turns (malloc, free, malloc, ...) a power of two would time one kind of them alone.
    static constexpr std::uint32_t kPeriod = 61;

    // Whether the next call is to be timed.
    bool due()
    {
        if (--left_ != 0) return false;
        left_ = kPeriod;
        return true;
    }

    void add(Call call, std::uint64_t ticks)
    {
        ++counts_[call][bucket_of(ticks)];
        if (ticks > max_[call]) max_[call] = ticks;
    }

    void merge(const Latency &other);

    std::uint64_t count(Call call) const;
    std::uint64_t max(Call call) const { return max_[call]; }
    // The value in ticks that `share` (0 to 1) of the calls stay below.
    std::uint64_t percentile(Call call, double share) const;

    static std::size_t bucket_of(std::uint64_t ticks);
    static std::uint64_t bucket_limit(std::size_t bucket);

  private:
    std::uint32_t left_ = kPeriod;
    std::uint64_t counts_[kCalls][kBuckets] = {};
    std::uint64_t max_[kCalls] = {};
};

// Nanoseconds in a tick, measured once against CLOCK_MONOTONIC over a millisecond.
double latency_ns_per_tick();

// Ticks that the timing itself takes. Every value includes them.
std::uint64_t latency_overhead_ticks();

} // namespace stress

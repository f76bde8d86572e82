#include "engine/op/latency.h"

#include <time.h>

#include <algorithm>
#include <bit>

namespace stress {
namespace {

constexpr int kSubBits = 4;

std::uint64_t now_ns()
{
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

// A bucket is the number's first bits, one and kSubBits more, and how far they are shifted. Below 32 nothing is shifted.
std::size_t Latency::bucket_of(std::uint64_t ticks)
{
    const int shift = std::max(static_cast<int>(std::bit_width(ticks)), kSubBits + 1) - (kSubBits + 1);
    const std::size_t bucket = (static_cast<std::size_t>(shift) << kSubBits) + static_cast<std::size_t>(ticks >> shift);
    return std::min(bucket, kBuckets - 1);
}

std::uint64_t Latency::bucket_limit(std::size_t bucket)
{
    const std::size_t shift = std::max<std::size_t>(bucket >> kSubBits, 1) - 1;
    return ((bucket - (shift << kSubBits) + 1) << shift) - 1;
}

void Latency::merge(const Latency &other)
{
    for (std::size_t call = 0; call < kCalls; ++call) {
        for (std::size_t i = 0; i < kBuckets; ++i) counts_[call][i] += other.counts_[call][i];
        if (other.max_[call] > max_[call]) max_[call] = other.max_[call];
    }
}

std::uint64_t Latency::count(Call call) const
{
    std::uint64_t sum = 0;
    for (std::uint64_t count : counts_[call]) sum += count;
    return sum;
}

std::uint64_t Latency::percentile(Call call, double share) const
{
    const std::uint64_t all = count(call);
    const auto wanted = static_cast<std::uint64_t>(static_cast<double>(all) * share);
    std::size_t bucket = 0;
    std::uint64_t seen = counts_[call][0];
    while (seen <= wanted && seen != all) seen += counts_[call][++bucket];
    return std::min(bucket_limit(bucket), max_[call]);
}

double latency_ns_per_tick()
{
    static const double value = [] {
        const std::uint64_t start_ns = now_ns(), start = latency_ticks();
        std::uint64_t end_ns = start_ns;
        while (end_ns - start_ns < 1'000'000) end_ns = now_ns();
        const std::uint64_t ticks = latency_ticks() - start;
        return ticks == 0 ? 1.0 : static_cast<double>(end_ns - start_ns) / static_cast<double>(ticks);
    }();
    return value;
}

std::uint64_t latency_overhead_ticks()
{
    static const std::uint64_t value = [] {
        std::uint64_t least = UINT64_MAX;
        for (int i = 0; i < 1000; ++i) {
            const std::uint64_t start = latency_ticks(), ticks = latency_ticks() - start;
            if (ticks < least) least = ticks;
        }
        return least;
    }();
    return value;
}

} // namespace stress

#include "engine/op/latency.h"

#include <time.h>

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

std::size_t Latency::bucket_of(std::uint64_t ticks)
{
    constexpr std::uint64_t linear = 1U << kSubBits;
    if (ticks < linear) return static_cast<std::size_t>(ticks);
    const int log2 = static_cast<int>(std::bit_width(ticks)) - 1;
    const auto sub = static_cast<std::size_t>((ticks >> (log2 - kSubBits)) & (linear - 1));
    const std::size_t bucket = (static_cast<std::size_t>(log2 - kSubBits + 1) << kSubBits) + sub;
    return bucket < kBuckets ? bucket : kBuckets - 1;
}

std::uint64_t Latency::bucket_limit(std::size_t bucket)
{
    constexpr std::size_t linear = 1U << kSubBits;
    if (bucket < linear) return bucket;
    const std::size_t shift = (bucket >> kSubBits) - 1, sub = bucket & (linear - 1);
    return ((linear + sub + 1) << shift) - 1;
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
    if (all == 0) return 0;
    const auto wanted = static_cast<std::uint64_t>(static_cast<double>(all) * share);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
        seen += counts_[call][i];
        if (seen > wanted || seen == all) return bucket_limit(i) < max_[call] ? bucket_limit(i) : max_[call];
    }
    return max_[call];
}

double latency_ns_per_tick()
{
    static const double value = [] {
        const std::uint64_t start_ns = now_ns(), start = latency_ticks();
        std::uint64_t end_ns = start_ns;
        while (end_ns - start_ns < 3'000'000) end_ns = now_ns();
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

}  // namespace stress

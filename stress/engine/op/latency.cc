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

namespace {

struct Moment {
    std::uint64_t ns = 0, ticks = 0;
};

// Both clocks at one time: of several readings the one between whose two of CLOCK_MONOTONIC the least time passed, since
// the thread may lose its processor in between.
Moment moment()
{
    Moment best;
    std::uint64_t least = UINT64_MAX;
    for (int i = 0; i < 16; ++i) {
        const std::uint64_t before = now_ns(), ticks = latency_ticks(), took = now_ns() - before;
        if (took >= least) continue;
        least = took;
        best = {before, ticks};
    }
    return best;
}

} // namespace

double latency_ns_per_tick()
{
    static const double value = [] {
        const Moment start = moment();
        while (now_ns() - start.ns < 1'000'000) {}
        const Moment end = moment();
        if (end.ticks == start.ticks) return 1.0;
        return static_cast<double>(end.ns - start.ns) / static_cast<double>(end.ticks - start.ticks);
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

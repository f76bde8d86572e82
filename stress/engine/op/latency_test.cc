#include "engine/op/latency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace stress {
namespace {

// Every value lies in its bucket, and no bucket is wider than a sixteenth of its values.
TEST(Latency, BucketsAreNarrowAndInOrder)
{
    std::size_t before = 0;
    for (std::uint64_t ticks = 0; ticks < 1'000'000; ticks += ticks / 97 + 1) {
        const std::size_t bucket = Latency::bucket_of(ticks);
        ASSERT_GE(bucket, before);
        before = bucket;
        ASSERT_GE(Latency::bucket_limit(bucket), ticks);
        if (bucket > 0) {
            ASSERT_LT(Latency::bucket_limit(bucket - 1), ticks);
        }
        ASSERT_LE(Latency::bucket_limit(bucket) - ticks, ticks / 16);
    }
    EXPECT_EQ(Latency::bucket_of(UINT64_MAX), Latency::kBuckets - 1);
}

TEST(Latency, PercentilesOfAKnownSet)
{
    const auto latency = std::make_unique<Latency>();
    EXPECT_EQ(latency->percentile(Latency::Malloc, 0.5), 0u);
    for (std::uint64_t ticks = 1; ticks <= 1000; ++ticks) latency->add(Latency::Malloc, ticks);
    EXPECT_EQ(latency->count(Latency::Malloc), 1000u);
    EXPECT_EQ(latency->count(Latency::Free), 0u);
    EXPECT_EQ(latency->max(Latency::Malloc), 1000u);
    EXPECT_NEAR(static_cast<double>(latency->percentile(Latency::Malloc, 0.5)), 500, 32);
    EXPECT_NEAR(static_cast<double>(latency->percentile(Latency::Malloc, 0.99)), 990, 62);
    EXPECT_EQ(latency->percentile(Latency::Malloc, 1.0), 1000u);
}

// Below 16 ticks each number has a bucket.
TEST(Latency, APercentileIsTheFirstWithMoreThanItsShareBelow)
{
    const auto latency = std::make_unique<Latency>();
    for (std::uint64_t ticks = 1; ticks <= 10; ++ticks) latency->add(Latency::Malloc, ticks);
    EXPECT_EQ(latency->percentile(Latency::Malloc, 0), 1u);
    EXPECT_EQ(latency->percentile(Latency::Malloc, 0.1), 2u);
    EXPECT_EQ(latency->percentile(Latency::Malloc, 0.5), 6u);
    EXPECT_EQ(latency->percentile(Latency::Malloc, 0.9), 10u);
    EXPECT_EQ(latency->percentile(Latency::Malloc, 1), 10u);
}

TEST(Latency, MergeAddsCountsAndKeepsTheMaximum)
{
    const auto a = std::make_unique<Latency>(), b = std::make_unique<Latency>();
    constexpr Latency::Call calls[Latency::kCalls] = {Latency::Malloc, Latency::Free, Latency::Realloc};
    for (const Latency::Call call : calls) {
        for (const std::uint64_t ticks : {0u, 10u, 5000u}) b->add(call, ticks);
        b->add(call, UINT64_MAX - call); // the last bucket
        a->add(call, 0);
    }
    a->merge(*b);
    for (const Latency::Call call : calls) {
        EXPECT_EQ(a->count(call), 5u);
        EXPECT_EQ(a->max(call), UINT64_MAX - call);
        EXPECT_EQ(a->percentile(call, 0), 0u);
        EXPECT_EQ(a->percentile(call, 0.99), Latency::bucket_limit(Latency::kBuckets - 1));
    }
}

TEST(Latency, OneCallInAPeriodIsDue)
{
    const auto latency = std::make_unique<Latency>();
    std::uint32_t due = 0;
    for (std::uint32_t i = 0; i < 10 * Latency::kPeriod; ++i) due += latency->due();
    EXPECT_EQ(due, 10u);
}

TEST(Latency, CallsThatTakeTurnsAreAllTimed)
{
    for (std::uint32_t turn = 2; turn <= 8; ++turn) {
        const auto latency = std::make_unique<Latency>();
        std::vector<bool> timed(turn);
        for (std::uint32_t i = 0; i < 10 * turn * Latency::kPeriod; ++i)
            if (latency->due()) timed[i % turn] = true;
        EXPECT_EQ(std::count(timed.begin(), timed.end(), true), turn);
    }
}

TEST(Latency, TicksAreCalibrated)
{
    EXPECT_GT(latency_ns_per_tick(), 0.01);
    EXPECT_LT(latency_ns_per_tick(), 1000);
}

}  // namespace
}  // namespace stress

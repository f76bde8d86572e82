#include "engine/judge/memory_law.h"

#include <gtest/gtest.h>

#include <vector>

namespace stress {
namespace {

constexpr std::uint64_t kMib = 1 << 20;

std::vector<RestSample> rests(const std::vector<std::uint64_t> &rss_mib, std::uint64_t live_mib = 1)
{
    std::vector<RestSample> samples;
    for (std::uint64_t mib : rss_mib) samples.push_back({mib * kMib, live_mib * kMib, live_mib * kMib, 200 * kMib});
    return samples;
}

bool plateau_holds(const std::vector<RestSample> &samples, std::uint64_t seats = 2)
{
    const PlateauGrowth growth = plateau_growth(samples.data(), samples.size(), seats);
    EXPECT_TRUE(growth.judged);
    return growth.holds();
}

TEST(MemoryLaw, TheBoundGrowsWithLiveBytesAndThreads)
{
    EXPECT_GT(memory_bound_bytes(1 << 30, 1), std::uint64_t{4} << 30);
    EXPECT_GT(memory_bound_bytes(0, 8), memory_bound_bytes(0, 1));
}

// Each term of each bound.
TEST(MemoryLaw, TheBoundsAreThese)
{
    EXPECT_EQ(memory_bound_bytes(0, 0), 48 * kMib);
    EXPECT_EQ(memory_bound_bytes(3 * kMib, 2), (12 + 8 + 48) * kMib);
    EXPECT_EQ(idle_bound_bytes(0, 0), 14 * kMib);
    EXPECT_EQ(idle_bound_bytes(3 * kMib, 2), (14 + 4 + 12) * kMib);
    EXPECT_EQ(mapping_bound_count(0, (64 << 10) - 1, 0, 65530), 256u);
    EXPECT_EQ(mapping_bound_count(0, 64 << 10, 0, 65530), 258u);
    EXPECT_EQ(mapping_bound_count(1, 0, 3, 65530), 1u + 3 * 128 + 256);
    EXPECT_EQ(mapping_bound_count(9, 0, 0, 353), 264u);
}

// Of nine rests the first three and the last three decide: the most that is in excess of the first, the least of the last.
TEST(MemoryLaw, ThirdsAreCompared)
{
    const auto growth = [](std::vector<std::uint64_t> mib) {
        const std::vector<RestSample> samples = rests(mib, 2);
        return plateau_growth(samples.data(), samples.size(), 1).grown_bytes / kMib;
    };
    EXPECT_EQ(growth({10, 10, 10, 50, 50, 50, 90, 90, 90}), 80u);
    EXPECT_EQ(growth({20, 10, 10, 50, 50, 50, 90, 90, 90}), 70u);
    EXPECT_EQ(growth({10, 10, 20, 50, 50, 50, 90, 90, 90}), 70u);
    EXPECT_EQ(growth({10, 10, 10, 99, 50, 50, 90, 90, 90}), 80u);
    EXPECT_EQ(growth({10, 10, 10, 50, 50, 1, 90, 90, 90}), 80u);
    EXPECT_EQ(growth({10, 10, 10, 50, 50, 50, 80, 90, 90}), 70u);
    EXPECT_EQ(growth({10, 10, 10, 50, 50, 50, 90, 90, 80}), 70u);
    EXPECT_EQ(growth({10, 10, 10, 50, 50, 50, 90, 9, 90}), 0u);
    EXPECT_EQ(growth({1, 1, 1, 1, 1, 1, 2, 2, 2}), 0u) << "less than is live is no excess";
    EXPECT_EQ(growth({10, 90, 10, 50, 50, 50, 90, 99, 90}), 0u);
    EXPECT_EQ(growth({10, 10, 90, 50, 50, 90, 90, 90}), 0u) << "a third of eight is three";
    EXPECT_EQ(growth({10, 90, 10, 50, 50, 90}), 0u) << "a third of six is two";
    EXPECT_EQ(growth({10, 10, 90, 10, 90, 90}), 80u);
    std::vector<RestSample> samples = rests({10, 10, 10, 10, 10, 10, 10, 10, 10});
    const auto slack = [&samples] { return plateau_growth(samples.data(), samples.size(), 3).slack_bytes / kMib; };
    EXPECT_EQ(slack(), 6u + 3 + 1);
    samples[8].peak_live_bytes = 5 * kMib;
    EXPECT_EQ(slack(), 6u + 3 + 5 + 2 * 4);
    samples[2].peak_live_bytes = 2 * kMib;
    EXPECT_EQ(slack(), 6u + 3 + 5 + 2 * 3);
}

TEST(MemoryLaw, ASteadyLeakIsNoPlateau)
{
    EXPECT_FALSE(plateau_holds(rests({10, 14, 18, 22, 26, 30, 34, 38})));
}

// The slack for two threads is 8 MiB plus the live MiB. Tests both sides of it.
TEST(MemoryLaw, TheSlackIsExact)
{
    EXPECT_TRUE(plateau_holds(rests({10, 10, 10, 12, 14, 19, 19, 19})));
    EXPECT_FALSE(plateau_holds(rests({10, 10, 10, 12, 14, 20, 20, 20})));
    EXPECT_TRUE(plateau_holds(rests({10, 10, 10, 12, 14, 27, 27, 27}), 10)) << "a thread may keep a MiB";
    EXPECT_TRUE(plateau_holds(rests({110, 110, 110, 112, 114, 218, 218, 218}, 100))) << "and as much as is live";
}

TEST(MemoryLaw, CachesThatFillOnceAndPeaksThatPassAreAPlateau)
{
    EXPECT_TRUE(plateau_holds(rests({10, 60, 90, 95, 96, 96, 97, 97})));
    EXPECT_TRUE(plateau_holds(rests({10, 12, 11, 80, 90, 80, 85, 12}))) << "it came back";
}

// The most of the first third was 11 MiB beyond the live one, and the slack is 9.
TEST(MemoryLaw, WhatComesBackAtTheEndWasACache)
{
    const std::vector<RestSample> samples = rests({10, 12, 11, 20, 26, 30, 34, 38});
    const PlateauGrowth growth = plateau_growth(samples.data(), samples.size(), 2);
    EXPECT_FALSE(growth.holds());
    EXPECT_FALSE(growth.came_back(37 * kMib));
    EXPECT_FALSE(growth.came_back(20 * kMib + 1));
    EXPECT_TRUE(growth.came_back(20 * kMib));
}

TEST(MemoryLaw, WhatTheLivePeakHasGrownIsAllowed)
{
    std::vector<RestSample> samples = rests({10, 10, 10, 90, 90, 90, 90, 90});
    EXPECT_FALSE(plateau_holds(samples));
    for (std::size_t i = 3; i < samples.size(); ++i) samples[i].peak_live_bytes = 60 * kMib;
    EXPECT_TRUE(plateau_holds(samples)) << "kept from a larger live set";
}

TEST(MemoryLaw, AFewRestsAreNotJudged)
{
    const std::vector<RestSample> samples = rests({10, 50, 90, 130, 170});
    EXPECT_FALSE(plateau_growth(samples.data(), samples.size(), 1).judged);
    EXPECT_TRUE(plateau_growth(rests({1, 2, 3, 4, 5, 6}).data(), kPlateauRestsMin, 1).judged);
}

TEST(MemoryLaw, ReturnAllowsAShareOfThePeak)
{
    EXPECT_EQ(memory_return_bound_bytes(0, 0), 16 * kMib);
    EXPECT_EQ(memory_return_bound_bytes(800 * kMib, 4), 120 * kMib);
}

TEST(MemoryLaw, MappingsFollowLargeBlocksAndThreadsUpToThreeQuartersOfTheLimit)
{
    EXPECT_EQ(mapping_bound_count(50, 0, 0, 65530), 306u);
    EXPECT_EQ(mapping_bound_count(50, 64 * kMib, 2, 65530), 306u + 2048 + 256);
    EXPECT_EQ(mapping_bound_count(50, 64 * 1024 * kMib, 2, 65530), 65530u / 4 * 3);
    EXPECT_GT(mapping_limit_count(), 1000u);
}

} // namespace
} // namespace stress

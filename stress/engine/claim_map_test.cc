#include "engine/claim_map.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace stress {
namespace {

// The map never follows the addresses, so any number will do.
void *at(std::uintptr_t address) { return reinterpret_cast<void *>(address); }

constexpr std::uintptr_t kBase = 0x7f0000000000;

TEST(ClaimMap, ABlockCanBeClaimedAgainOnlyAfterRelease)
{
    ClaimMap map;
    EXPECT_EQ(map.claim(at(kBase), 100), 0u);
    EXPECT_EQ(map.claim(at(kBase), 100), kBase);
    EXPECT_EQ(map.release(at(kBase), 100), 0u);
    EXPECT_EQ(map.claim(at(kBase), 100), 0u);
}

// Two blocks of up to 24 granules at every distance: the answer must be that of plain intervals.
TEST(ClaimMap, OverlapIsExactForEverySmallPair)
{
    ClaimMap map;
    for (std::uintptr_t shift : {0u, 400u}) {
        const std::uintptr_t base = kBase + shift;
        for (std::size_t size_a = 8; size_a <= 192; size_a += 8)
            for (std::size_t offset = 0; offset <= 200; offset += 8) {
                ASSERT_EQ(map.claim(at(base), size_a), 0u);
                const bool overlaps = offset < size_a;
                const std::uintptr_t answer = map.claim(at(base + offset), 16);
                ASSERT_EQ(answer, overlaps ? base + offset : 0u) << size_a << " " << offset;
                if (!overlaps) {
                    ASSERT_EQ(map.release(at(base + offset), 16), 0u);
                }
                ASSERT_EQ(map.release(at(base), size_a), 0u);
            }
    }
}

TEST(ClaimMap, ARefusedClaimLeavesTheMapAsItWas)
{
    ClaimMap map;
    ASSERT_EQ(map.claim(at(kBase + 4096), 8), 0u);
    EXPECT_EQ(map.claim(at(kBase), 8192), kBase + 4096);
    EXPECT_EQ(map.claim(at(kBase), 4096), 0u) << "the part before the conflict is free";
    EXPECT_EQ(map.claim(at(kBase + 4104), 4088), 0u) << "and the part behind it";
    EXPECT_EQ(map.release(at(kBase + 4096), 8), 0u) << "and the first claim still stands";
}

TEST(ClaimMap, ReleaseOfWhatWasNotClaimedIsNamed)
{
    ClaimMap map;
    EXPECT_EQ(map.release(at(kBase), 64), kBase);
    ASSERT_EQ(map.claim(at(kBase), 32), 0u);
    EXPECT_EQ(map.release(at(kBase), 64), kBase + 32);
}

TEST(ClaimMap, SizeZeroCountsAsOne)
{
    ClaimMap map;
    EXPECT_EQ(map.claim(at(kBase), 0), 0u);
    EXPECT_EQ(map.claim(at(kBase), 1), kBase);
}

TEST(ClaimMap, NeighboursOfEightBytesDoNotOverlap)
{
    ClaimMap map;
    EXPECT_EQ(map.claim(at(kBase), 8), 0u);
    EXPECT_EQ(map.claim(at(kBase + 8), 8), 0u);
}

TEST(ClaimMap, ABlockMayCrossLeaves)
{
    ClaimMap map;
    const std::uintptr_t edge = kBase + (std::uintptr_t{1} << 30);
    EXPECT_EQ(map.claim(at(edge - 4096), 8192), 0u);
    EXPECT_EQ(map.claim(at(edge), 8), edge);
    EXPECT_EQ(map.claim(at(edge - 8), 8), edge - 8);
    EXPECT_EQ(map.release(at(edge - 4096), 8192), 0u);
    EXPECT_EQ(map.claim(at(edge), 8), 0u);
}

TEST(ClaimMap, CoversTheUserHalfOnly)
{
    constexpr std::uintptr_t limit = std::uintptr_t{1} << 47;
    EXPECT_TRUE(ClaimMap::covers(at(limit - 16), 16));
    EXPECT_FALSE(ClaimMap::covers(at(limit - 16), 17));
    EXPECT_FALSE(ClaimMap::covers(at(limit), 1));
    EXPECT_FALSE(ClaimMap::covers(at(16), ~std::size_t{0}));
}

TEST(ClaimMap, ResidentBytesGrowWithTouchedPages)
{
    ClaimMap map;
    EXPECT_EQ(map.resident_bytes(), 0u);
    map.claim(at(kBase), 8);
    EXPECT_EQ(map.resident_bytes(), 2 * 4096u);
    map.claim(at(kBase + (1 << 18)), 8);
    EXPECT_EQ(map.resident_bytes(), 3 * 4096u);
}

// Threads claim the same granules at once: each granule must have exactly one winner.
TEST(ClaimMap, ExactlyOneThreadWinsEachGranule)
{
    ClaimMap map;
    constexpr std::size_t granules = 20000;
    std::vector<std::size_t> wins(4, 0);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < wins.size(); ++t)
        threads.emplace_back([&map, &wins, t] {
            std::size_t mine = 0;
            for (std::size_t i = 0; i < granules; ++i) mine += map.claim(at(kBase + i * 8), 8) == 0;
            wins[t] = mine;
        });
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(wins[0] + wins[1] + wins[2] + wins[3], granules);
}

}  // namespace
}  // namespace stress

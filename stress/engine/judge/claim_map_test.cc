#include "engine/judge/claim_map.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "engine/base/build.h"
#include "engine/judge/line_map.h"
#include "engine/judge/side_by_side_for_test.h"

namespace stress {
namespace {

// The map never dereferences addresses, so any number will do.
void *at(std::uintptr_t address)
{
    return reinterpret_cast<void *>(address);
}

constexpr std::uintptr_t kBase = 0x7f0000000000;

struct EachClaimMap : testing::TestWithParam<ClaimMap::Callers> {
    ClaimMap map{GetParam()};
};

TEST_P(EachClaimMap, ABlockCanBeClaimedAgainOnlyAfterRelease)
{
    EXPECT_EQ(map.claim(at(kBase), 100), 0u);
    EXPECT_EQ(map.claim(at(kBase), 100), kBase);
    EXPECT_EQ(map.release(at(kBase), 100), 0u);
    EXPECT_EQ(map.claim(at(kBase), 100), 0u);
}

// Two blocks of up to 24 granules at every distance: the map must answer exactly as plain intervals do.
TEST_P(EachClaimMap, OverlapIsExactForEverySmallPair)
{
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

TEST_P(EachClaimMap, ARefusedClaimLeavesTheMapAsItWas)
{
    ASSERT_EQ(map.claim(at(kBase + 4096), 8), 0u);
    EXPECT_EQ(map.claim(at(kBase), 8192), kBase + 4096);
    EXPECT_EQ(map.claim(at(kBase), 4096), 0u) << "the part before the conflict is free";
    EXPECT_EQ(map.claim(at(kBase + 4104), 4088), 0u) << "and the part behind it";
    EXPECT_EQ(map.release(at(kBase + 4096), 8), 0u) << "and the first claim still stands";
}

TEST_P(EachClaimMap, ReleaseOfWhatWasNotClaimedIsNamed)
{
    EXPECT_EQ(map.release(at(kBase), 64), kBase);
    ASSERT_EQ(map.claim(at(kBase), 32), 0u);
    EXPECT_EQ(map.release(at(kBase), 64), kBase + 32);
    EXPECT_EQ(map.claim(at(kBase), 64), 0u);
    EXPECT_EQ(map.release(at(kBase), 2048), kBase + 64) << "the first that is missing, of several words";
}

TEST_P(EachClaimMap, SizeZeroCountsAsOne)
{
    EXPECT_EQ(map.claim(at(kBase), 0), 0u);
    EXPECT_EQ(map.claim(at(kBase), 1), kBase);
}

TEST_P(EachClaimMap, NeighboursOfEightBytesDoNotOverlap)
{
    EXPECT_EQ(map.claim(at(kBase), 8), 0u);
    EXPECT_EQ(map.claim(at(kBase + 8), 8), 0u);
}

TEST_P(EachClaimMap, ABlockMayCrossLeaves)
{
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

TEST_P(EachClaimMap, ResidentBytesGrowWithTouchedPages)
{
    EXPECT_EQ(map.resident_bytes(), 0u);
    map.claim(at(kBase), 8);
    EXPECT_EQ(map.resident_bytes(), 2 * 4096u);
    map.claim(at(kBase + (1 << 18)), 8);
    EXPECT_EQ(map.resident_bytes(), 3 * 4096u);
    map.claim(at((std::uintptr_t{1} << 47) - 8), 8);
    EXPECT_EQ(map.resident_bytes(), 5 * 4096u) << "the last leaf";
}

constexpr std::uintptr_t kStretch = 256 << 10, kMib = 1 << 20;

// A block of 5 MiB with unaligned ends, and a small one at each interesting place. Like the test of small pairs, in
// both orders.
TEST_P(EachClaimMap, ALargeBlockOverlapsASmallOneAnywhere)
{
    const std::uintptr_t large = kBase + 4096 + 24, large_bytes = 5 * kMib + 40, end = large + large_bytes;
    std::vector<std::uintptr_t> places = {large - 64, large - 8, large, large + 8, end - 8, end & ~7ull, end + 8};
    for (std::uintptr_t stretch = kBase; stretch < end + kStretch; stretch += kStretch)
        for (std::uintptr_t around : {stretch - 8, stretch, stretch + 8}) places.push_back(around);
    for (std::uintptr_t place : places) {
        const bool overlaps = place + 8 > large && place < end;
        ASSERT_EQ(map.claim(at(large), large_bytes), 0u);
        const std::uintptr_t answer = map.claim(at(place), 8);
        ASSERT_EQ(answer != 0, overlaps) << std::hex << place;
        if (answer == 0) {
            ASSERT_EQ(map.release(at(place), 8), 0u);
        }
        ASSERT_EQ(map.release(at(large), large_bytes), 0u);

        ASSERT_EQ(map.claim(at(place), 8), 0u);
        ASSERT_EQ(map.claim(at(large), large_bytes), overlaps ? place : 0u) << std::hex << place;
        ASSERT_EQ(map.release(at(place), 8), 0u) << "the refused claim left it alone";
        if (!overlaps) {
            ASSERT_EQ(map.release(at(large), large_bytes), 0u);
        }
    }
}

// From a MiB on a block has flags. One that begins where a stretch does has no part before it to give back.
TEST_P(EachClaimMap, ALargeBlockBeginsWithAStretch)
{
    for (const std::uintptr_t bytes : {kMib - 8, kMib, kMib + 8}) {
        ASSERT_EQ(map.claim(at(kBase), 8), 0u);
        EXPECT_EQ(map.claim(at(kBase), bytes), kBase);
        EXPECT_EQ(map.release(at(kBase), 8), 0u) << "the refused claim left it alone";
        EXPECT_EQ(map.claim(at(kBase), bytes), 0u);
        EXPECT_EQ(map.release(at(kBase), bytes), 0u) << bytes;
    }
}

TEST_P(EachClaimMap, TwoLargeBlocksOverlapAtEveryDistance)
{
    const std::uintptr_t bytes = 2 * kMib;
    for (std::uintptr_t step = 0; step <= 3 * kMib; step += kStretch / 2) {
        ASSERT_EQ(map.claim(at(kBase), bytes), 0u);
        const bool overlaps = step < bytes;
        ASSERT_EQ(map.claim(at(kBase + step), bytes) != 0, overlaps) << step;
        if (!overlaps) {
            ASSERT_EQ(map.release(at(kBase + step), bytes), 0u);
        }
        ASSERT_EQ(map.release(at(kBase), bytes), 0u) << step;
        ASSERT_EQ(map.release(at(kBase), bytes), kBase) << "it is not live any more";
    }
}

TEST_P(EachClaimMap, ALargeBlockCostsNoPagesOfBits)
{
    ASSERT_EQ(map.claim(at(kBase), std::uintptr_t{3} << 30), 0u);
    EXPECT_LE(map.resident_bytes(), 3 * 4096u);
    EXPECT_EQ(map.claim(at(kBase + (std::uintptr_t{2} << 30) + 16), 16) != 0, true);
    EXPECT_EQ(map.resident_bytes(), 4 * 4096u) << "the page of the claim that was refused";
    EXPECT_EQ(map.release(at(kBase), std::uintptr_t{3} << 30), 0u);
    EXPECT_EQ(map.resident_bytes(), 4 * 4096u) << "it stays when the block goes";
}

INSTANTIATE_TEST_SUITE_P(, EachClaimMap, testing::Values(ClaimMap::Callers::kAnyThread, ClaimMap::Callers::kOneThread),
                         [](const auto &info) { return info.index == 0 ? "any_thread" : "one_thread"; });

// A small block and a large one claim the same place at once. At least one of them must see the other, or both would
// live.
TEST(ClaimMap, ALargeAndASmallBlockCannotBothWin)
{
    ClaimMap map;
    std::atomic<int> turn{0};
    bool small_won[2000], large_won[2000];
    const auto await = [&turn](int value) {
        while (turn.load() < value) std::this_thread::yield();
    };
    std::thread small([&] {
        for (int i = 0; i < 2000; ++i) {
            turn.fetch_add(1);
            await(4 * i + 2);
            small_won[i] = map.claim(at(kBase + kStretch), 64) == 0;
            turn.fetch_add(1);
            await(4 * i + 4);
            if (small_won[i]) map.release(at(kBase + kStretch), 64);
        }
    });
    for (int i = 0; i < 2000; ++i) {
        turn.fetch_add(1);
        await(4 * i + 2);
        large_won[i] = map.claim(at(kBase), 2 * kMib) == 0;
        turn.fetch_add(1);
        await(4 * i + 4);
        if (large_won[i]) map.release(at(kBase), 2 * kMib);
    }
    small.join();
    for (int i = 0; i < 2000; ++i) ASSERT_FALSE(small_won[i] && large_won[i]) << i;
}

// A block that slips in while a large one is given back is seen by its bits. The intruder is refused by the large one's
// flag, but until then its bits are set, and 256 KiB of them take long enough to meet.
TEST(ClaimMap, TheEndOfALargeBlockSeesAnIntruder)
{
    ClaimMap map;
    std::atomic<bool> stop{false};
    std::thread small([&] {
        while (!stop.load())
            if (map.claim(at(kBase + kStretch), kStretch) == 0) map.release(at(kBase + kStretch), kStretch);
    });
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    std::uintptr_t seen = 0;
    while (seen == 0 && std::chrono::steady_clock::now() < end) {
        if (map.claim(at(kBase), 2 * kMib) != 0) continue;
        std::this_thread::yield();
        seen = map.release(at(kBase), 2 * kMib);
    }
    stop.store(true);
    small.join();
    EXPECT_GE(seen, kBase + kStretch);
    EXPECT_LT(seen, kBase + 2 * kStretch);
}

// Two threads claim and give back granules of one word, and then a large block, which one of them at most may have.
TEST(ClaimMap, ThreadsInOneWordLoseNothing)
{
    ClaimMap map;
    std::atomic<std::uint64_t> wrong{0};
    int meetings = side_by_side([&](int me) {
        void *start = at(kBase + static_cast<std::uintptr_t>(me) * 8);
        if (map.claim(start, 8) != 0 || map.release(start, 8) != 0) wrong.fetch_add(1);
    });
    EXPECT_EQ(wrong.load(), 0u);
    std::atomic<int> owners{0};
    meetings = std::min(meetings, side_by_side([&](int) {
                            if (map.claim(at(kBase), kMib) != 0) return;
                            if (owners.fetch_add(1) != 0) wrong.fetch_add(1);
                            owners.fetch_sub(1);
                            map.release(at(kBase), kMib);
                        }));
    EXPECT_EQ(wrong.load(), 0u);
    if (meetings < kMeetingsLeast) GTEST_SKIP() << "the threads met " << meetings << " times only";
}

TEST(ClaimMap, WithoutAddressSpaceTheProgramEndsWithALine)
{
    if (kSanitized) GTEST_SKIP() << "a sanitizer takes the address space";
    const auto starve = [] {
        const rlimit little{std::size_t{1} << 20, std::size_t{1} << 20};
        setrlimit(RLIMIT_AS, &little);
    };
    EXPECT_EXIT((starve(), ClaimMap(), _exit(0)), testing::ExitedWithCode(2), "no address space for the claim map");
    EXPECT_EXIT((starve(), LineMap(), _exit(0)), testing::ExitedWithCode(2), "no address space for the line map");
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

} // namespace
} // namespace stress

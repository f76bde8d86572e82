#include "engine/judge/line_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "engine/judge/claim_map.h"
#include "engine/judge/failure.h"
#include "engine/judge/oracle.h"
#include "engine/judge/side_by_side_for_test.h"

namespace stress {
namespace {

// Addresses are only numbers to the map.
void *at(std::uintptr_t address)
{
    return reinterpret_cast<void *>(address);
}

constexpr std::uintptr_t kLine = std::uintptr_t{7} << 30;

TEST(LineMap, TwoSeatsInALineAreFoundOnce)
{
    LineMap lines;
    EXPECT_EQ(lines.claim(at(kLine), 16, 1).line, 0u);
    EXPECT_EQ(lines.claim(at(kLine + 16), 16, 1).line, 0u);
    const LineMap::Shared shared = lines.claim(at(kLine + 32), 16, 2);
    EXPECT_EQ(shared.line, kLine);
    EXPECT_EQ(shared.seat, 1u);
    EXPECT_EQ(lines.claim(at(kLine + 48), 16, 3).line, 0u);
    EXPECT_EQ(lines.shared_count(), 1u);
}

// No malloc puts more blocks into a line: none gives out less than 8 bytes.
TEST(LineMap, ALineFullOfTheSmallestBlocksKeepsItsSeat)
{
    for (std::uint32_t seat : {0u, 1u, 2u, 3u}) {
        LineMap lines;
        for (std::uintptr_t offset = 0; offset < LineMap::kLineBytes; offset += 8)
            EXPECT_EQ(lines.claim(at(kLine + offset), 8, seat).line, 0u);
        lines.release(at(kLine + 16), 8);
        const LineMap::Shared shared = lines.claim(at(kLine + 16), 8, 9);
        EXPECT_EQ(shared.line, kLine);
        EXPECT_EQ(shared.seat, seat);
    }
}

std::size_t address_space_pages()
{
    std::size_t pages = 0;
    std::FILE *file = std::fopen("/proc/self/statm", "r");
    EXPECT_EQ(std::fscanf(file, "%zu", &pages), 1);
    std::fclose(file);
    return pages;
}

// Each round makes maps with the first leaf, the last, and one between.
TEST(LineMap, AMapThatEndsGivesAllItsMemoryBack)
{
    constexpr std::uintptr_t kLast = (std::uintptr_t{1} << 47) - 64;
    std::size_t before = 0;
    for (int round = 0; round < 20; ++round) {
        {
            LineMap lines;
            ClaimMap claims;
            for (const std::uintptr_t address : {std::uintptr_t{64}, kLine, kLast}) {
                lines.claim(at(address), 16, 1);
                EXPECT_EQ(claims.claim(at(address), 16), 0u);
            }
        }
        if (round == 1) before = address_space_pages();
    }
    EXPECT_LT(address_space_pages(), before + 8);
}

// Two threads come to a part of the address space where neither has been: one makes its leaf, the other takes that. In every
// other round each makes a leaf of its own.
TEST(LineMap, ALeafThatTwoThreadsMakeIsOne)
{
    LineMap().claim(at(kLine), 8, 1);
    at_once(1, 1, [](int, int) {}); // libc keeps the stack
    const std::size_t before = address_space_pages();
    AtOnce once;
    {
        LineMap lines;
        std::atomic<int> shared{0};
        once = at_once(3000, 6000, [&](int me, int round) {
            const auto mine = static_cast<std::uintptr_t>(me), leaf = 2 * static_cast<std::uintptr_t>(round);
            void *start = at(kLine + (round % 2 == 0 ? (leaf << 22) + mine * 8 : (leaf + mine) << 22));
            if (lines.claim(start, 8, static_cast<std::uint32_t>(1 + me)).line != 0) shared.fetch_add(1);
        });
        EXPECT_EQ(shared.load(), (once.rounds + 1) / 2) << "the second of each two sees the first";
    }
    EXPECT_LT(address_space_pages(), before + 8);
    int met = once.met;

    ClaimMap claims;
    const std::size_t empty = address_space_pages();
    EXPECT_EQ(claims.claim(at(kLine), 8), 0u);
    const std::size_t leaf = address_space_pages() - empty;
    std::atomic<int> refused{0};
    once = at_once(kMeetingsLeast, 400, [&](int, int round) {
        if (claims.claim(at(kLine + (static_cast<std::uintptr_t>(1 + round) << 30)), 8) != 0) refused.fetch_add(1);
    });
    EXPECT_EQ(refused.load(), once.rounds) << "one of each two is";
    EXPECT_LT(address_space_pages(), empty + static_cast<std::size_t>(1 + once.rounds) * leaf + leaf / 2);
    met = std::min(met, once.met);
    if (met < kMeetingsLeast) GTEST_SKIP() << "the threads met " << met << " times only";
}

// Two threads claim and give back blocks in one line; the count of live blocks in it stays right.
TEST(LineMap, ThreadsInOneLineLoseNothing)
{
    LineMap lines;
    const int meetings = side_by_side([&](int me) {
        void *start = at(kLine + static_cast<std::uintptr_t>(me) * 8);
        lines.claim(start, 8, static_cast<std::uint32_t>(1 + me));
        lines.release(start, 8);
    });
    lines.disown();
    EXPECT_EQ(lines.claim(at(kLine), 8, 1).line, 0u) << "nobody's";
    lines.release(at(kLine), 8);
    const std::uint64_t shared = lines.shared_count();
    EXPECT_EQ(lines.claim(at(kLine), 8, 1).line, 0u);
    lines.release(at(kLine), 8);
    EXPECT_EQ(lines.claim(at(kLine), 8, 2).line, 0u) << "no block is left";
    EXPECT_EQ(lines.shared_count(), shared);
    if (meetings < kMeetingsLeast) GTEST_SKIP() << "the threads met " << meetings << " times only";
}

TEST(LineMap, ALineWithoutLiveBlocksIsAnybodys)
{
    LineMap lines;
    lines.claim(at(kLine), 16, 1);
    lines.claim(at(kLine + 16), 16, 1);
    lines.release(at(kLine), 16);
    EXPECT_EQ(lines.claim(at(kLine), 16, 2).seat, 1u);
    for (const std::uintptr_t offset : {std::uintptr_t{0}, std::uintptr_t{16}}) lines.release(at(kLine + offset), 16);
    EXPECT_EQ(lines.claim(at(kLine), 16, 3).line, 0u);
    EXPECT_EQ(lines.shared_count(), 1u);
}

TEST(LineMap, TheLinesOfASeatThatHasLeftAreAnybodysUntilTheNextLap)
{
    LineMap lines;
    lines.claim(at(kLine), 16, 1);
    lines.leave(1);
    EXPECT_EQ(lines.claim(at(kLine + 16), 16, 2).line, 0u);
    EXPECT_EQ(lines.claim(at(kLine + 32), 16, 3).seat, 2u) << "the line is the second seat's now";
    lines.disown();
    lines.claim(at(kLine + 64), 16, 1);
    EXPECT_EQ(lines.claim(at(kLine + 80), 16, 2).seat, 1u) << "it is back";
}

TEST(LineMap, FirstAndLastLineCountAndThoseBetweenAreOneBlocksAlone)
{
    LineMap lines;
    lines.claim(at(kLine - 8), 8, 1);
    lines.claim(at(kLine + 160), 8, 1);
    EXPECT_EQ(lines.claim(at(kLine), 160, 2).line, kLine + 128);
    EXPECT_EQ(lines.shared_count(), 1u);
    EXPECT_EQ(lines.claim(at(kLine - 48), 16, 2).line, kLine - 64);
    lines.release(at(kLine), 160);
    lines.release(at(kLine + 160), 8);
    for (const std::uintptr_t line : {kLine, kLine + 128})
        EXPECT_EQ(lines.claim(at(line), 8, 3).line, 0u) << "both are free again";
}

TEST(LineMap, BlocksOfALapBeforeBelongToNobody)
{
    LineMap lines;
    lines.claim(at(kLine), 16, 1);
    lines.disown();
    EXPECT_EQ(lines.claim(at(kLine + 16), 16, 2).line, 0u);
    EXPECT_EQ(lines.claim(at(kLine + 32), 16, 1).line, kLine);
}

// The rule itself, with blocks of the test's own.
TEST(LineMap, TheOracleJudgesInStrictRunsAndCountsInOthers)
{
    alignas(64) static unsigned char memory[64];
    for (const bool strict : {true, false}) {
        std::atomic<bool> stop{false};
        FailureLog failures(stop);
        ClaimMap claims;
        LineMap lines;
        Oracle oracle(claims, failures);
        oracle.watch_lines(&lines, strict);
        const Block first{memory, 16, generation_make(0, 1), 0}, second{memory + 16, 16, generation_make(1, 1), 0};
        EXPECT_TRUE(oracle.allocated(first, 16, false, {0, 1}));
        EXPECT_EQ(oracle.allocated(second, 16, false, {1, 1}), !strict);
        EXPECT_EQ(lines.shared_count(), 1u);
        ASSERT_EQ(failures.size(), strict ? 1u : 0u);
        if (strict) EXPECT_STREQ(failures[0].rule, rule::kFalseSharing);
    }
}

} // namespace
} // namespace stress

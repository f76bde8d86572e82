#include "engine/judge/line_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "engine/base/rng.h"
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

// What the map should know of a line.
struct LineSaid {
    unsigned live = 0;
    bool shared = false;
    std::uint32_t seat = kNobodySaid; // whose the live blocks are, or those of the last who came
    static constexpr std::uint32_t kNobodySaid = UINT32_MAX;
};

// The law of line_map.h in a random history of four lines: blocks that begin and end in any of them, seats that leave, laps.
TEST(LineMap, EachLineKnowsWhoseItsLiveBlocksAre)
{
    constexpr std::size_t lines_count = 4;
    LineMap lines;
    LineSaid said[lines_count];
    std::set<std::uint32_t> gone;
    struct Live {
        std::uintptr_t start;
        std::size_t bytes;
    };
    std::vector<Live> live;
    Rng random(1, 0);
    std::uint64_t shared_count = 0;
    const auto claimed = [&](std::size_t line, std::uint32_t seat) -> LineMap::Shared {
        LineSaid &known = said[line];
        const bool others = known.seat != LineSaid::kNobodySaid && known.seat != seat && !gone.contains(known.seat);
        const bool meets = known.live > 0 && (known.shared || others), is_first = meets && !known.shared;
        const LineMap::Shared result = is_first ? LineMap::Shared{kLine + line * 64, known.seat} : LineMap::Shared{};
        shared_count += is_first;
        known = {known.live + 1, meets, seat};
        return result;
    };
    for (int step = 0; step < 200000; ++step) {
        SCOPED_TRACE(step);
        const std::uint64_t what = random.below(100);
        if (what < 2) {
            lines.disown();
            gone.clear();
            for (LineSaid &known : said) known = {known.live, false, LineSaid::kNobodySaid};
        } else if (what < 4) {
            const std::uint32_t seat = static_cast<std::uint32_t>(random.below(5));
            lines.leave(seat);
            gone.insert(seat);
        } else if (what < 52 && live.size() < 20) {
            const std::uintptr_t start = random.below(lines_count * 64);
            const std::size_t bytes = random.below(lines_count * 64 - start + 1);
            const std::size_t first = start / 64, last = (start + (bytes == 0 ? 0 : bytes - 1)) / 64;
            const std::uint32_t seat = static_cast<std::uint32_t>(random.below(5));
            if (gone.contains(seat)) continue; // its thread has ended
            const LineMap::Shared at_first = claimed(first, seat);
            const LineMap::Shared at_last = last != first ? claimed(last, seat) : LineMap::Shared{};
            const LineMap::Shared expected = at_first.line != 0 ? at_first : at_last;
            const LineMap::Shared found = lines.claim(at(kLine + start), bytes, seat);
            ASSERT_EQ(found.line, expected.line);
            ASSERT_EQ(found.seat, expected.seat);
            live.push_back({start, bytes});
        } else if (!live.empty()) {
            std::swap(live[random.below(live.size())], live.back());
            const Live one = live.back();
            live.pop_back();
            lines.release(at(kLine + one.start), one.bytes);
            const std::size_t first = one.start / 64, last = (one.start + (one.bytes == 0 ? 0 : one.bytes - 1)) / 64;
            --said[first].live;
            if (last != first) --said[last].live;
        }
        ASSERT_EQ(lines.shared_count(), shared_count);
    }
    EXPECT_GT(shared_count, 1000u);
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

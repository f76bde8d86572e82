// More than 400 lines: one fixture tests every rule of the oracle, each from both sides.
// Tests each rule from both sides: what it must accept, and the planted fault that it must name. The blocks are plain
// arrays; nothing calls the subject.
#include "engine/judge/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "engine/op/content.h"

namespace stress {
namespace {

constexpr Witness kWitness = {2, 77};

class OracleTest : public testing::Test {
  protected:
    // The rule of the only failure, or "" when there is none.
    std::string only_rule() const
    {
        if (failures.size() == 0) return "";
        return failures.size() == 1 ? failures[0].rule : "more than one";
    }
    std::string detail() const { return failures[0].detail; }

    Block block(std::size_t offset, std::size_t size, std::size_t align = 0)
    {
        return {memory + offset, size, generation_make(1, 5), align};
    }
    bool accept(const Block &fresh) { return oracle.allocated(fresh, fresh.size_bytes, false, kWitness); }

    // Resizes a block in its place, and loses the last of the bytes that stay.
    void expect_last_byte_judged(std::size_t old_bytes, std::size_t bytes)
    {
        const Block old = block(0, old_bytes), fresh = block(0, bytes);
        ASSERT_TRUE(accept(old));
        ASSERT_TRUE(oracle.before_realloc(old, kWitness));
        memory[std::min(old_bytes, bytes) - 1] ^= 1;
        EXPECT_FALSE(oracle.after_realloc(old, fresh, bytes, kWitness));
        EXPECT_EQ(only_rule(), rule::kReallocContent);
    }

    alignas(4096) unsigned char memory[8192] = {};
    std::atomic<bool> stop{false};
    FailureLog failures{stop};
    ClaimMap claims;
    Oracle oracle{claims, failures};
};

// The usable bytes end at the neighbour; one more granule is in it.
TEST_F(OracleTest, UsableBytesReachIntoNoLiveBlock)
{
    ASSERT_TRUE(accept(block(48, 16)) && accept(block(96, 16)));
    EXPECT_TRUE(oracle.allocated(block(0, 20), 48, false, kWitness));
    EXPECT_FALSE(oracle.allocated(block(64, 20), 40, false, kWitness));
    EXPECT_EQ(only_rule(), rule::kUsableSize);
}

TEST_F(OracleTest, UsableBytesOfABlockOfNoBytesAreItsOwn)
{
    ASSERT_TRUE(accept(block(32, 16)));
    EXPECT_TRUE(oracle.allocated(block(0, 0), 24, false, kWitness));
    EXPECT_TRUE(oracle.after_realloc(block(64, 0), block(64, 0), 8, kWitness));
    EXPECT_FALSE(oracle.allocated(block(16, 0), 24, false, kWitness));
    EXPECT_EQ(only_rule(), rule::kUsableSize);
}

TEST_F(OracleTest, UsableBytesEndInTheAddressSpace)
{
    EXPECT_FALSE(oracle.allocated(block(0, 20), std::size_t{0} - 8, false, kWitness));
    EXPECT_EQ(only_rule(), rule::kUsableSize);
    EXPECT_NE(detail().find("beyond the address space"), std::string::npos);
}

// What the malloc keeps in them is damaged.
TEST_F(OracleTest, UsableBytesAreWrittenNowAndThen)
{
    for (std::uint64_t op = 0; op < 512; ++op) {
        memory[47] = memory[48] = 0;
        ASSERT_TRUE(oracle.allocated(block(0, 20), 48, false, {0, op}));
        EXPECT_TRUE(memory[48] == 0 && (memory[47] != 0) == (op % 256 == 255)) << op;
        ASSERT_TRUE(oracle.before_free(block(0, 20), kWitness));
    }
}

TEST_F(OracleTest, ASoundLifePasses)
{
    const Block one = block(0, 100), two = block(112, 100);
    EXPECT_TRUE(accept(one));
    EXPECT_TRUE(accept(two));
    EXPECT_TRUE(oracle.before_free(one, kWitness));
    EXPECT_TRUE(oracle.errno_kept({}, 7, 7, kWitness));
    EXPECT_TRUE(accept(one)) << "the place may be used again";
    EXPECT_EQ(only_rule(), "");
    EXPECT_FALSE(stop);
}

TEST_F(OracleTest, Overlap)
{
    EXPECT_TRUE(accept(block(0, 100)));
    EXPECT_FALSE(accept(block(96, 100)));
    EXPECT_EQ(only_rule(), rule::kOverlap);
    EXPECT_TRUE(stop);
}

TEST_F(OracleTest, AlignmentOfPlainBlocksFollowsTheSize)
{
    EXPECT_TRUE(accept(block(8, 8)));
    EXPECT_TRUE(accept(block(24, 15)));
    EXPECT_TRUE(accept(block(41, 7)));
    EXPECT_FALSE(accept(block(56, 16)));
    EXPECT_EQ(only_rule(), rule::kAlignment);
}

TEST_F(OracleTest, AskedAlignment)
{
    EXPECT_TRUE(accept(block(4096, 100, 4096)));
    EXPECT_FALSE(accept(block(64, 100, 128)));
    EXPECT_EQ(only_rule(), rule::kAlignment);
}

TEST_F(OracleTest, Address)
{
    EXPECT_FALSE(accept({reinterpret_cast<void *>(~std::uintptr_t{0xffff}), 64, 1, 0}));
    EXPECT_EQ(only_rule(), rule::kAddress);
}

TEST_F(OracleTest, ContentIsJudgedWholeAndNamed)
{
    const Block one = block(0, 101);
    ASSERT_TRUE(accept(one));
    memory[100] ^= 1;
    EXPECT_FALSE(oracle.before_free(one, kWitness));
    EXPECT_EQ(only_rule(), rule::kContent);
    EXPECT_NE(detail().find("offset 100"), std::string::npos) << detail();
    EXPECT_NE(detail().find("allocated by thread 1 at its op 5"), std::string::npos) << detail();
    EXPECT_NE(detail().find("seen by thread 2 at its op 77"), std::string::npos) << detail();
}

TEST_F(OracleTest, StaleContentOfAnotherGeneration)
{
    Block one = block(0, 64);
    ASSERT_TRUE(accept(one));
    one.generation += 1;
    EXPECT_FALSE(oracle.before_free(one, kWitness));
    EXPECT_EQ(only_rule(), rule::kContent);
}

TEST_F(OracleTest, CallocZero)
{
    const Block one = block(0, 64);
    EXPECT_TRUE(oracle.allocated(one, 64, true, kWitness));
    memory[128 + 63] = 1;
    EXPECT_FALSE(oracle.allocated(block(128, 64), 64, true, kWitness));
    EXPECT_EQ(only_rule(), rule::kCallocZero);
}

TEST_F(OracleTest, UsableSize)
{
    EXPECT_TRUE(oracle.allocated(block(0, 64), 64, false, kWitness));
    EXPECT_TRUE(oracle.allocated(block(64, 64), Oracle::kUsableUnknown, false, kWitness));
    EXPECT_FALSE(oracle.allocated(block(128, 64), 63, false, kWitness));
    EXPECT_EQ(only_rule(), rule::kUsableSize);
}

TEST_F(OracleTest, ErrnoKept)
{
    EXPECT_FALSE(oracle.errno_kept({}, 7, 8, kWitness));
    EXPECT_EQ(only_rule(), rule::kErrnoKept);
}

TEST_F(OracleTest, AnErrnoOfAWaitIsNotedOnceAndTheRunGoesOn)
{
    oracle.note_waits();
    for (int error : {EAGAIN, EINTR}) EXPECT_TRUE(oracle.errno_kept({}, 7, error, kWitness));
    EXPECT_EQ(only_rule(), "");
    EXPECT_FALSE(failures.any());
    EXPECT_FALSE(stop);
    ASSERT_NE(failures.noted(), nullptr);
    EXPECT_STREQ(failures.noted()->rule, rule::kErrnoWait);
    EXPECT_NE(std::string(failures.noted()->detail).find("errno from 7 to EAGAIN; seen by thread 2 at its op 77"),
              std::string::npos);
    EXPECT_FALSE(oracle.errno_kept({}, 7, ENOMEM, kWitness));
    EXPECT_EQ(only_rule(), rule::kErrnoKept);
    EXPECT_TRUE(stop);
}

TEST_F(OracleTest, AnErrnoOfAWaitFailsWhereItIsNotNoted)
{
    EXPECT_FALSE(oracle.errno_kept({}, 7, EAGAIN, kWitness));
    EXPECT_EQ(only_rule(), rule::kErrnoKept);
    EXPECT_EQ(failures.noted(), nullptr);
}

TEST_F(OracleTest, ABlockArrivesOnce)
{
    const Block one = block(0, 64);
    ASSERT_TRUE(accept(one));
    EXPECT_TRUE(oracle.before_free(one, kWitness));
    EXPECT_FALSE(oracle.before_free(one, kWitness));
    EXPECT_EQ(only_rule(), rule::kHandover);
}

TEST_F(OracleTest, ReallocThatGrowsAndMoves)
{
    const Block old = block(0, 64);
    Block fresh = block(1024, 200);
    fresh.generation += 1;
    ASSERT_TRUE(accept(old));
    ASSERT_TRUE(oracle.before_realloc(old, kWitness));
    std::memcpy(fresh.start, old.start, 64);
    EXPECT_TRUE(oracle.after_realloc(old, fresh, 200, kWitness));
    EXPECT_TRUE(oracle.before_free(fresh, kWitness));
    EXPECT_TRUE(accept(old)) << "the old place is free";
}

TEST_F(OracleTest, ReallocThatLosesAByte)
{
    expect_last_byte_judged(64, 32);
}

TEST_F(OracleTest, ReallocThatLosesAByteOfItsLastWord)
{
    expect_last_byte_judged(29, 64);
}

TEST_F(OracleTest, ReallocMayLoseWhatItDrops)
{
    const Block old = block(0, 64), fresh = block(0, 32);
    ASSERT_TRUE(accept(old));
    ASSERT_TRUE(oracle.before_realloc(old, kWitness));
    memory[32] ^= 1;
    EXPECT_TRUE(oracle.after_realloc(old, fresh, 32, kWitness));
}

TEST_F(OracleTest, ReallocJudgesTheContentBefore)
{
    const Block old = block(0, 64);
    ASSERT_TRUE(accept(old));
    memory[40] ^= 1;
    EXPECT_FALSE(oracle.before_realloc(old, kWitness));
    EXPECT_EQ(only_rule(), rule::kContent);
}

TEST_F(OracleTest, ImpossibleSizes)
{
    EXPECT_TRUE(oracle.impossible_refused("malloc", SIZE_MAX, nullptr, ENOMEM, kWitness));
    EXPECT_EQ(only_rule(), "");
    EXPECT_FALSE(oracle.impossible_refused("malloc", SIZE_MAX, nullptr, 0, kWitness));
    EXPECT_EQ(only_rule(), rule::kEnomem);
}

TEST_F(OracleTest, ImpossibleSizeThatComesBack)
{
    EXPECT_FALSE(oracle.impossible_refused("malloc", SIZE_MAX, this, ENOMEM, kWitness));
    EXPECT_EQ(only_rule(), rule::kEnomem);
}

TEST_F(OracleTest, Exhausted)
{
    oracle.exhausted("aligned_alloc", 3145728, 1048576, ENOMEM, kWitness);
    EXPECT_EQ(only_rule(), rule::kExhausted);
}

TEST_F(OracleTest, OnlyTheFirstFewFailuresAreKept)
{
    EXPECT_FALSE(failures.any());
    for (std::size_t i = 0; i < 2 * FailureLog::kKept; ++i) {
        oracle.errno_kept({}, 0, static_cast<int>(1000 + i), kWitness);
        EXPECT_EQ(failures.size(), std::min(i + 1, FailureLog::kKept));
        EXPECT_TRUE(failures.any());
    }
    EXPECT_NE(std::string(failures[FailureLog::kKept - 1].detail).find(" to 1007; "), std::string::npos);
}

TEST_F(OracleTest, ALongDetailIsCut)
{
    const std::string wide(500, 'w');
    for (const std::size_t length : {1u, 380u, 398u, 399u, 400u, 500u}) {
        FailureLog log(stop);
        log.add(rule::kLaw, kWitness, "%s", wide.substr(0, length).c_str());
        const std::string whole = wide.substr(0, length) + "; seen by thread 2 at its op 77";
        EXPECT_EQ(std::string(log[0].detail), whole.substr(0, sizeof log[0].detail - 1)) << length;
    }
}

// What each rule says, since a reader has nothing else.
TEST_F(OracleTest, EachRuleNamesBlockAndCause)
{
    LineMap lines;
    oracle.watch_lines(&lines, true);
    char address[32];
    const auto at = [&address](const void *place) {
        std::snprintf(address, sizeof address, "%p", place);
        return std::string(address);
    };
    const auto expect_said = [this](const char *rule_name, const std::string &text) {
        EXPECT_EQ(failures[failures.size() - 1].rule, std::string(rule_name));
        EXPECT_EQ(std::string(failures[failures.size() - 1].detail), text + "; seen by thread 2 at its op 77");
    };
    const Block one = block(64, 100);
    ASSERT_TRUE(accept(one));
    const Block outside{reinterpret_cast<void *>(std::uintptr_t{1} << 47), 8, 1, 0};
    EXPECT_FALSE(accept(outside));
    expect_said(rule::kAddress, "block 0x800000000000 of 8 bytes lies outside the user address space");
    EXPECT_FALSE(accept(block(72, 16)));
    expect_said(rule::kAlignment, "block " + at(memory + 72) + " of 16 bytes is not aligned to 16");
    EXPECT_FALSE(accept(block(48, 100)));
    expect_said(rule::kOverlap,
                "new block " + at(memory + 48) + " of 100 bytes overlaps a live block at " + at(memory + 64));
    EXPECT_FALSE(oracle.allocated(block(256, 20), 19, false, kWitness));
    expect_said(rule::kUsableSize, "malloc_usable_size(" + at(memory + 256) + ") is 19 for a block of 20 bytes");
    memory[512 + 3] = 0xab;
    EXPECT_FALSE(oracle.allocated(block(512, 20), 20, true, kWitness));
    expect_said(rule::kCallocZero, "calloc block " + at(memory + 512) + " of 20 bytes has 0xab at offset 3");
    EXPECT_FALSE(oracle.errno_kept(one, 7, ENOMEM, kWitness));
    expect_said(rule::kErrnoKept, "free of " + at(memory + 64) + " of 100 bytes changed errno from 7 to ENOMEM");
    EXPECT_FALSE(oracle.impossible_refused("malloc", 0xff00, memory, 0, kWitness));
    expect_said(rule::kEnomem,
                "malloc returned a block, " + at(memory) + ", for 0xff00 bytes, a size that cannot exist");
    EXPECT_FALSE(oracle.impossible_refused("malloc", 0xff00, nullptr, 0, kWitness));
    expect_said(rule::kEnomem, "malloc of 0xff00 bytes failed with errno 0 instead of ENOMEM");
}

// A block that ends leaves its cache lines, and its bytes, to the next.
TEST_F(OracleTest, WhatABlockLeavesIsAnybodys)
{
    LineMap lines;
    oracle.watch_lines(&lines, true);
    const Block one = block(64, 32);
    ASSERT_TRUE(oracle.allocated(one, 32, false, {1, 5}));
    EXPECT_TRUE(oracle.before_free(one, {1, 6}));
    EXPECT_TRUE(oracle.allocated(one, 32, false, {2, 7}));
    EXPECT_EQ(lines.shared_count(), 0u);
}

TEST_F(OracleTest, EachRuleNamesBlockAndCauseOfMore)
{
    LineMap lines;
    oracle.watch_lines(&lines, true);
    const auto expect_said = [this](const char *rule_name, const std::string &text) {
        EXPECT_EQ(failures[failures.size() - 1].rule, std::string(rule_name));
        EXPECT_EQ(std::string(failures[failures.size() - 1].detail), text);
    };
    char text[400];
    const Block one = block(64, 32);
    ASSERT_TRUE(oracle.allocated(one, 32, false, {1, 5}));
    EXPECT_FALSE(accept(block(96, 32)));
    std::snprintf(
        text, sizeof text,
        "new block %p of 32 bytes shares the cache line at %p with a live block of thread 1; seen by thread 2 at "
        "its op 77",
        static_cast<void *>(memory + 96), static_cast<void *>(memory + 64));
    expect_said(rule::kFalseSharing, text);
    const unsigned wanted = memory[64 + 9];
    memory[64 + 9] ^= 0x10;
    std::snprintf(
        text, sizeof text,
        "block %p of 32 bytes: at offset 9 expected 0x%02x, found 0x%02x; generation 0x%llx, allocated by thread "
        "1 at its op 5; seen by thread 2 at its op 77",
        static_cast<void *>(memory + 64), wanted, wanted ^ 0x10, static_cast<unsigned long long>(one.generation));
    EXPECT_FALSE(oracle.still_holds(one, kWitness));
    expect_said(rule::kContent, text);
    EXPECT_FALSE(oracle.before_realloc(one, kWitness));
    expect_said(rule::kContent, text);
    memory[64 + 9] ^= 0x10;
    EXPECT_TRUE(oracle.before_realloc(one, kWitness));
    EXPECT_FALSE(oracle.before_realloc(one, kWitness));
    std::snprintf(text, sizeof text,
                  "block %p of 32 bytes arrived here but is not live at %p; allocated by thread 1 at its op 5; seen by "
                  "thread 2 at its op 77",
                  static_cast<void *>(memory + 64), static_cast<void *>(memory + 64));
    expect_said(rule::kHandover, text);
    oracle.exhausted("malloc", 5, 0, ENOMEM, kWitness);
    expect_said(rule::kExhausted, "malloc of 5 bytes returned NULL with errno ENOMEM; seen by thread 2 at its op 77");
    oracle.exhausted("memalign", 5, 64, 4711, kWitness);
    expect_said(rule::kEnomem,
                "memalign of 5 bytes aligned to 64 returned NULL with errno 4711; seen by thread 2 at its op 77");
}

// A block whose realloc was refused is live as before, and must be whole.
TEST_F(OracleTest, ARefusedRealloc)
{
    const Block one = block(0, 40);
    ASSERT_TRUE(accept(one));
    ASSERT_TRUE(oracle.before_realloc(one, kWitness));
    EXPECT_TRUE(oracle.realloc_refused(one, kWitness));
    EXPECT_FALSE(accept(block(32, 8)));
    EXPECT_EQ(only_rule(), rule::kOverlap);
    ASSERT_TRUE(oracle.before_realloc(one, kWitness));
    memory[39] ^= 1;
    EXPECT_FALSE(oracle.realloc_refused(one, kWitness));
    EXPECT_STREQ(failures[1].rule, rule::kReallocContent);
    EXPECT_FALSE(oracle.realloc_refused(one, kWitness)) << "it is live";
    EXPECT_STREQ(failures[2].rule, rule::kOverlap);
    EXPECT_TRUE(oracle.usable_is_enough(one, 40, kWitness));
    EXPECT_FALSE(oracle.usable_is_enough(one, 39, kWitness));
}

TEST_F(OracleTest, ReallocJudgesItsNewPlace)
{
    const Block old = block(0, 64);
    ASSERT_TRUE(accept(old));
    ASSERT_TRUE(oracle.before_realloc(old, kWitness));
    std::memcpy(memory + 1024, memory, 64);
    EXPECT_FALSE(oracle.after_realloc(old, block(1024, 64), 63, kWitness));
    EXPECT_STREQ(failures[0].rule, rule::kUsableSize);
    EXPECT_FALSE(oracle.after_realloc(old, block(1032, 64), 64, kWitness));
    EXPECT_STREQ(failures[1].rule, rule::kAlignment);
    EXPECT_FALSE(oracle.after_realloc(old, block(1024, 64), 64, kWitness));
    EXPECT_STREQ(failures[2].rule, rule::kOverlap) << "the refused one keeps its claim";
}

TEST(Oracle, TheAlignmentOfASize)
{
    const std::size_t wanted[] = {1, 1, 1, 1, 1, 1, 1, 1, 8, 8, 8, 8, 8, 8, 8, 8, 16, 16};
    for (std::size_t size_bytes = 0; size_bytes < std::size(wanted); ++size_bytes)
        EXPECT_EQ(required_align_bytes(size_bytes, 0), wanted[size_bytes]);
    EXPECT_EQ(required_align_bytes(1, 4096), 4096u);
}

}  // namespace
}  // namespace stress

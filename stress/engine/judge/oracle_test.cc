// Tests each rule from both sides: what it must accept, and the planted fault that it must name. The blocks are plain
// arrays; nothing calls the subject.
#include "engine/judge/oracle.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

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

    alignas(4096) unsigned char memory[8192] = {};
    std::atomic<bool> stop{false};
    FailureLog failures{stop};
    ClaimMap claims;
    Oracle oracle{claims, failures};
};

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
    const Block old = block(0, 64), fresh = block(0, 32);
    ASSERT_TRUE(accept(old));
    ASSERT_TRUE(oracle.before_realloc(old, kWitness));
    memory[31] ^= 1;
    EXPECT_FALSE(oracle.after_realloc(old, fresh, 32, kWitness));
    EXPECT_EQ(only_rule(), rule::kReallocContent);
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
    for (std::size_t i = 0; i < 2 * FailureLog::kKept; ++i) oracle.errno_kept({}, 0, 1, kWitness);
    EXPECT_EQ(failures.size(), FailureLog::kKept);
}

}  // namespace
}  // namespace stress

#include "engine/op/op.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/base/rng.h"

namespace stress {
namespace {

TEST(Op, SizesAreFortyEightBitsWithASign)
{
    for (std::size_t size_bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 32, (std::size_t{1} << 47) - 1,
                                   SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX - ((std::size_t{1} << 47) - 1)})
        EXPECT_EQ(op_size(op_make(OpKind::Malloc, 0, size_bytes)), size_bytes) << size_bytes;
}

TEST(Op, LinksCountFromOneAndSkipZero)
{
    EXPECT_EQ(link_next(0), 1u);
    EXPECT_EQ(link_next(1), 2u);
    EXPECT_EQ(link_next(65534), 65535u);
    EXPECT_EQ(link_next(65535), 1u);
}

// Any bytes become an op whose fields are in range; normalising it again changes nothing.
TEST(Op, AnyBytesBecomeAnOp)
{
    Rng rng(3, 0);
    bool seen[kOpKindCount] = {};
    for (int i = 0; i < 200000; ++i) {
        std::uint64_t words[2] = {rng.next(), rng.next()};
        Op raw;
        std::memcpy(static_cast<void *>(&raw), words, sizeof raw);
        const Op op = op_normalise(raw);
        ASSERT_LT(static_cast<std::size_t>(op.kind), kOpKindCount);
        seen[static_cast<std::size_t>(op.kind)] = true;
        ASSERT_LT(op.slot, kOpSlotsMax);
        ASSERT_LT(op.thread, kOpThreadsMax);
        ASSERT_EQ(op.link, 0u);
        if (op.kind == OpKind::AlignedAlloc || op.kind == OpKind::Memalign) {
            ASSERT_LE(op.arg, kOpAlignLog2Max);
        }
        if (op.kind == OpKind::Renew) {
            ASSERT_LT(op.arg, kRenewHowCount);
        }
        if (op.kind == OpKind::Sleep) {
            ASSERT_LE(op_size(op), 1000u);
        }
        const Op again = op_normalise(op);
        ASSERT_EQ(std::memcmp(&again, &op, sizeof op), 0);
    }
    for (bool kind_seen : seen) EXPECT_TRUE(kind_seen);
}

// Bytes written when there were fewer kinds keep their meaning.
TEST(Op, OldBytesKeepTheirKind)
{
    Op op = op_make(OpKind::Malloc, 1, 100);
    op.kind = static_cast<OpKind>(17);
    EXPECT_EQ(op_normalise(op, 12).kind, static_cast<OpKind>(5));
    EXPECT_EQ(op_normalise(op_make(OpKind::Free, 1), 12).kind, OpKind::Free);
}

TEST(Op, KindsKnowWhatTheyDo)
{
    EXPECT_TRUE(op_has_slot(OpKind::Malloc) && op_allocates(OpKind::Malloc) && !op_frees(OpKind::Malloc));
    EXPECT_TRUE(op_has_slot(OpKind::Realloc) && op_allocates(OpKind::Realloc));
    EXPECT_TRUE(op_has_slot(OpKind::FreeSized) && op_frees(OpKind::FreeSized) && !op_allocates(OpKind::FreeSized));
    for (OpKind kind : {OpKind::Purge, OpKind::Renew, OpKind::Fork, OpKind::Signals, OpKind::FailOs, OpKind::Repeat})
        EXPECT_FALSE(op_has_slot(kind) || op_allocates(kind) || op_frees(kind));
}

}  // namespace
}  // namespace stress

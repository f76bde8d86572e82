// More ops than the ring holds, streams that end anywhere in a batch, and logs that are full.
#include "engine/seat/op_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace stress {
namespace {

// The op with number i has size i + 1.
struct Count {
    std::uint64_t at, end;
    bool next(Op &op)
    {
        if (at == end) return false;
        op = op_make(OpKind::Malloc, static_cast<std::uint32_t>(at % 1000), at + 1);
        ++at;
        return true;
    }
};

TEST(OpStream, EveryOpIsTheSeatsInEachLapOfTheRing)
{
    constexpr std::uint64_t kKept = OpStream::kRingOps - OpStream::kBatchOps;
    for (const std::uint64_t count : {0u, 1u, 255u, 256u, 257u, 1023u, 1024u, 1025u, 5000u}) {
        const auto generator = generator_of(Count{0, count});
        OpStream stream(7);
        stream.generator = generator.get();
        for (std::uint64_t i = 0; i < count; ++i) {
            const Op *op = stream.next_op();
            ASSERT_NE(op, nullptr);
            ASSERT_EQ(stream.next_op(), op) << "not consumed yet";
            ASSERT_TRUE(stream.has_next());
            ASSERT_EQ(op->thread, 7u);
            for (std::uint64_t back = 0; back <= std::min(i, kKept); back += 96)
                ASSERT_EQ(op_size(stream.op(i - back)), i - back + 1);
            stream.consume();
            ASSERT_EQ(stream.consumed(), i + 1);
        }
        EXPECT_EQ(stream.next_op(), nullptr) << count;
        EXPECT_FALSE(stream.has_next()) << count;
    }
}

TEST(OpStream, AFullLogKeepsItsFirstOpsAndCountsAll)
{
    constexpr std::uint64_t kCount = 1500;
    for (const std::uint64_t room : {std::uint64_t{0}, std::uint64_t{1}, kCount - 1, kCount, kCount + 1}) {
        std::vector<SeatLog::Entry> entries(room + 1);
        entries[room].stamp = 99;
        SeatLog log{room, 0, 0, entries.data(), nullptr};
        const auto generator = generator_of(Count{0, kCount});
        OpStream stream(3);
        stream.generator = generator.get();
        stream.log = &log;
        while (stream.next_op() != nullptr) {
            ASSERT_EQ(log.begun, stream.consumed() + 1) << "before it is tried";
            ASSERT_EQ(log.done, stream.consumed());
            stream.consume();
        }
        EXPECT_EQ(log.done, kCount) << room;
        for (std::uint64_t i = 0; i < std::min(room, kCount); ++i) {
            ASSERT_EQ(op_size(entries[i].op), i + 1);
            ASSERT_EQ(entries[i].op.thread, 3u);
        }
        EXPECT_EQ(entries[room].stamp, 99u) << "behind the log";
    }
}

}  // namespace
}  // namespace stress

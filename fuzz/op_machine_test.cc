// Tests the machine and what it is built on: coroutines (explore/fibers/fiber.h), restored state (explore/fibers/image.h), the arena.
#include "fuzz/op_machine.h"

#include <gtest/gtest.h>
#include <hakmem/hakmem.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "engine/base/rng.h"

namespace fuzz {
namespace {

OpMachine &machine()
{
    static OpMachine made;
    return made;
}

Op op(OpKind kind, std::uint32_t slot, std::size_t size = 0, std::uint16_t thread = 0, OpStop stop = {})
{
    Op made = stress::op_make(kind, slot, size, kind == OpKind::Calloc ? 1 : 0);
    made.thread = thread;
    op_set_stop(made, stop);
    return made;
}

std::vector<Op> random_ops(std::uint64_t seed, std::size_t count, std::uint64_t threads)
{
    static constexpr OpKind kinds[] = {OpKind::Malloc,       OpKind::Malloc, OpKind::Malloc,    OpKind::Free,
                                       OpKind::Free,         OpKind::Free,   OpKind::Realloc,   OpKind::Calloc,
                                       OpKind::Check,        OpKind::Renew,  OpKind::Purge,     OpKind::FailOs,
                                       OpKind::AlignedAlloc, OpKind::Sleep,  OpKind::UsableSize};
    stress::Rng rng(seed, 0);
    std::vector<Op> ops;
    for (std::size_t i = 0; i < count; ++i) {
        const OpKind kind = kinds[rng.below(std::size(kinds))];
        std::size_t size = rng.below(rng.one_in(8) ? 300000 : 2000);
        if (kind == OpKind::FailOs) size = rng.below(4);
        Op made =
            op(kind, static_cast<std::uint32_t>(rng.below(12)), size, static_cast<std::uint16_t>(rng.below(threads)));
        if (kind == OpKind::AlignedAlloc) made.arg = static_cast<std::uint8_t>(rng.below(14));
        if (threads > 1 && rng.one_in(3))
            op_set_stop(made,
                        {static_cast<std::uint8_t>(1 + rng.below(30)), static_cast<std::uint8_t>(1 + rng.below(6))});
        ops.push_back(made);
    }
    return ops;
}

TEST(OpMachine, ARunIsTheSameWhateverRanBeforeIt)
{
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        const std::vector<Op> ops = random_ops(seed, 48, 3);
        const MachineResult first = machine().run(ops, 3);
        ASSERT_EQ(first.rule, nullptr) << "seed " << seed << ": " << first.rule << ": " << first.detail;
        machine().run(random_ops(seed + 1000, 64, 2), 2);
        const MachineResult again = machine().run(ops, 3);
        ASSERT_EQ(first.points, again.points) << "seed " << seed;
        ASSERT_EQ(first.hash, again.hash) << "seed " << seed;
        ASSERT_EQ(first.stops, again.stops) << "seed " << seed;
    }
}

TEST(OpMachine, StopsAreMadeAndChangeTheOrder)
{
    std::vector<Op> ops;
    for (std::uint32_t i = 0; i < 8; ++i) ops.push_back(op(OpKind::Malloc, i, 4096));
    for (std::uint16_t thread = 1; thread < 3; ++thread) ops.push_back(op(OpKind::Malloc, 8 + thread, 64, thread));
    for (std::uint32_t i = 0; i < 8; ++i) ops.push_back(op(OpKind::Free, i, 0, static_cast<std::uint16_t>(1 + i % 2)));
    for (std::uint16_t thread = 1; thread < 3; ++thread) ops.push_back(op(OpKind::Renew, 0, 0, thread));
    const MachineResult plain = machine().run(ops, 3);
    ASSERT_EQ(plain.rule, nullptr);
    EXPECT_EQ(plain.stops, 0u);
    EXPECT_GT(plain.points, 16u);
    // Both threads have a heap, so they stage frees. The first thread, which posts when it ends, stops at each point of
    // its end in turn; the other thread's end goes past.
    unsigned stops = 0, other_orders = 0;
    for (std::uint8_t point = 1; point < 40; ++point) {
        op_set_stop(ops[18], {point, 1});
        const MachineResult stopped = machine().run(ops, 3);
        ASSERT_EQ(stopped.rule, nullptr) << stopped.detail;
        EXPECT_LE(stopped.stops, 1u);
        stops += static_cast<unsigned>(stopped.stops);
        other_orders += stopped.hash != plain.hash;
    }
    EXPECT_GT(stops, 2u);
    EXPECT_LT(stops, 39u);
    EXPECT_GT(other_orders, 1u);
    EXPECT_LE(other_orders, stops);
}

TEST(OpMachine, AnOpOnTheSameSlotWaitsForTheOneThatStopped)
{
    // Stops the malloc at every possible point; another thread's free of its slot comes next.
    for (std::uint8_t point = 1; point < 120; ++point) {
        const Op ops[] = {op(OpKind::Malloc, 0, 100, 0, {point, 5}), op(OpKind::Free, 0, 0, 1),
                          op(OpKind::Malloc, 0, 100, 1)};
        const MachineResult result = machine().run(ops, 2);
        ASSERT_EQ(result.rule, nullptr) << int{point} << ": " << result.detail;
    }
}

TEST(OpMachine, MemoryThatTheSystemRefusesIsNoFailure)
{
    std::size_t refused = 0;
    for (std::size_t nth = 1; nth < 16; ++nth)
        for (const bool for_ever : {false, true}) {
            Op fail = op(OpKind::FailOs, 0, nth);
            fail.arg = for_ever ? 1 : 0;
            const Op ops[] = {fail,
                              op(OpKind::Malloc, 0, 3 << 20),
                              op(OpKind::Malloc, 1, 100),
                              op(OpKind::Purge, 0),
                              op(OpKind::FailOs, 0, 0),
                              op(OpKind::Malloc, 2, 100)};
            const MachineResult result = machine().run(ops, 1);
            ASSERT_EQ(result.rule, nullptr) << "call " << nth << ": " << result.detail;
            refused += result.refused;
        }
    EXPECT_GT(refused, 4u);
}

TEST(OpMachine, TheSystemRefusesUntilItIsToldNotTo)
{
    Op fail = op(OpKind::FailOs, 0, 1);
    fail.arg = 1;
    const Op end = op(OpKind::FailOs, 0, 0), malloc = op(OpKind::Malloc, 0, 3 << 20);
    EXPECT_GT(machine().run(std::vector<Op>{fail, malloc}, 1).refused, 0u);
    EXPECT_EQ(machine().run(std::vector<Op>{fail, end, malloc}, 1).refused, 0u);
}

// Runs that fill much memory, and sometimes little: whatever a run leaves behind, calloc in the next one must return
// zeros.
TEST(OpMachine, NothingIsLeftOfTheRunBefore)
{
    for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
        stress::Rng rng(seed, 1);
        std::vector<Op> ops;
        for (std::uint64_t i = 0, count = 1 + rng.below(rng.one_in(2) ? 60 : 6); i < count; ++i) {
            const OpKind kind = rng.one_in(2) ? OpKind::Malloc : OpKind::Calloc;
            ops.push_back(
                op(kind, static_cast<std::uint32_t>(rng.below(60)), rng.below(rng.one_in(8) ? 2000000 : 140000)));
        }
        const MachineResult result = machine().run(ops, 1);
        ASSERT_EQ(result.rule, nullptr) << "seed " << seed << ": " << result.rule << ": " << result.detail;
    }
}

TEST(OpMachine, EverySlotHasRoomWhateverTheAlignment)
{
    for (std::uint8_t align_log2 = 0; align_log2 <= stress::kOpAlignLog2Max; ++align_log2) {
        std::vector<Op> ops;
        for (std::uint32_t slot = 0; slot < kMachineSlots; ++slot) {
            ops.push_back(op(OpKind::Memalign, slot, 721 + slot % 2 * 5000000));
            ops.back().arg = align_log2;
        }
        const MachineResult result = machine().run(ops, 1);
        ASSERT_EQ(result.rule, nullptr) << int{align_log2} << ": " << result.rule << ": " << result.detail;
    }
}

TEST(OpMachine, ErrnoIsEachThreadsOwn)
{
    // A free that stops must leave errno unchanged, whatever others do meanwhile; the oracle checks it.
    for (std::uint8_t point = 1; point < 60; ++point) {
        const Op ops[] = {op(OpKind::Malloc, 0, 40000, 0), op(OpKind::Free, 0, 0, 1, {point, 2}),
                          op(OpKind::Malloc, 1, SIZE_MAX, 0), op(OpKind::Malloc, 2, 100, 0)};
        const MachineResult result = machine().run(ops, 2);
        ASSERT_EQ(result.rule, nullptr) << int{point} << ": " << result.detail;
    }
}

} // namespace
} // namespace fuzz

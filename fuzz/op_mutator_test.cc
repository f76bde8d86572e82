// Tests the changes: each is reached, keeps an input valid, and is the same for the same seed.
#include "fuzz/op_mutator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "fuzz/boundary_sizes.h"
#include "fuzz/op_input_text.h"

namespace fuzz {
namespace {

using stress::op_size;

const char *const kNames[] = {
#define X(name) #name,
    FUZZ_MUTATIONS(X)
#undef X
};

OpInput sample(const OpShape &shape, std::uint64_t seed)
{
    Rng rng(seed, 99);
    std::vector<std::uint8_t> bytes(shape.bytes_max() / 3);
    for (std::uint8_t &byte : bytes) byte = static_cast<std::uint8_t>(rng.below(256));
    bytes[1] = shape.threads_max;
    return op_input_decode(bytes, shape);
}

void expect_normal(const OpInput &input, const OpShape &shape, const std::string &what)
{
    ASSERT_EQ(op_input_decode(op_input_encode(input), shape), input) << what;
    OpInput again;
    ASSERT_EQ(op_input_parse(op_input_print(input), shape, again), "") << what;
}

bool needs_threads(std::size_t mutation)
{
    return static_cast<Mutation>(mutation) >= Mutation::Thread;
}

class EachMutation : public testing::TestWithParam<std::size_t> {};

TEST_P(EachMutation, IsReachedKeepsTheInputNormalAndIsDeterministic)
{
    for (const OpShape *shape : {&kShapeOps, &kShapeOpsMt}) {
        int applied = 0, changed = 0;
        for (std::uint64_t seed = 0; seed < 200; ++seed) {
            const OpInput before = sample(*shape, seed);
            OpInput one = before, other = before;
            Rng rng(seed, 0), same(seed, 0);
            const bool done = mutate_as(static_cast<Mutation>(GetParam()), one, *shape, rng);
            ASSERT_EQ(mutate_as(static_cast<Mutation>(GetParam()), other, *shape, same), done);
            ASSERT_EQ(one, other) << "seed " << seed;
            expect_normal(one, *shape, kNames[GetParam()]);
            applied += done ? 1 : 0;
            changed += one == before ? 0 : 1;
            ASSERT_TRUE(done || one == before);
        }
        const bool possible = shape == &kShapeOpsMt || !needs_threads(GetParam());
        EXPECT_EQ(applied > 150, possible);
        EXPECT_EQ(changed > 60, possible);
    }
}

TEST_P(EachMutation, NoOpsAndNoRoomAreNoTrouble)
{
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        Rng rng(seed, 0);
        OpInput empty;
        mutate_as(static_cast<Mutation>(GetParam()), empty, kShapeOpsMt, rng);
        expect_normal(empty, kShapeOpsMt, "from nothing");
        OpInput full = sample(kShapeOpsMt, seed);
        full.threads = 4;
        full.ops.resize(kOpInputOpsMax);
        op_input_normalise(full, kShapeOpsMt);
        mutate_as(static_cast<Mutation>(GetParam()), full, kShapeOpsMt, rng);
        mutate_as(static_cast<Mutation>(GetParam()), full, kShapeOpsMt, rng);
        ASSERT_LE(full.ops.size(), kOpInputOpsMax);
        expect_normal(full, kShapeOpsMt, "when full");
    }
}

INSTANTIATE_TEST_SUITE_P(OpMutator, EachMutation, testing::Range<std::size_t>(0, kMutationCount),
                         [](const auto &of) { return std::string(kNames[of.param]); });

TEST(OpMutator, IsTheSameForTheSameSeedAndAnotherForAnother)
{
    int same = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        OpInput one = sample(kShapeOpsMt, 1), other = one, third = one;
        Rng rng(seed, 0), again(seed, 0), next(seed + 1, 0);
        mutate(one, kShapeOpsMt, kOpInputOpsMax, rng);
        mutate(other, kShapeOpsMt, kOpInputOpsMax, again);
        mutate(third, kShapeOpsMt, kOpInputOpsMax, next);
        ASSERT_EQ(one, other);
        same += one == third ? 1 : 0;
    }
    EXPECT_LT(same, 30);
}

TEST(OpMutator, FromNothingEveryKindAndSlotAndManySizesAppear)
{
    std::map<OpKind, int> kinds;
    std::map<std::uint32_t, int> slots;
    std::size_t at_edges = 0, sizes = 0;
    const std::vector<std::size_t> &edges = boundary_sizes();
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        OpInput input;
        Rng rng(seed, 0);
        for (int i = 0; i < 300; ++i) {
            mutate(input, kShapeOps, 64, rng);
            ASSERT_FALSE(input.ops.empty());
            ASSERT_LE(input.ops.size(), 64U);
        }
        for (const Op &op : input.ops) {
            ++kinds[op.kind];
            ++slots[op.slot];
            if (!stress::op_allocates(op.kind)) continue;
            ++sizes;
            at_edges += std::binary_search(edges.begin(), edges.end(), op_size(op)) ? 1 : 0;
        }
    }
    EXPECT_EQ(kinds.size(), op_input_kinds().size());
    EXPECT_EQ(slots.size(), kOpInputSlots);
    EXPECT_GT(at_edges, sizes / 3);
    EXPECT_LT(at_edges, sizes);
}

// Changes that do not set, clear or move stops must leave each op its stop. Here all ops that can stop have the same
// one.
TEST(OpMutator, OtherChangesKeepTheStopsOfTheOps)
{
    const OpStop stop{9, 4};
    for (std::size_t mutation = 0; mutation < static_cast<std::size_t>(Mutation::StopSet); ++mutation) {
        std::size_t kept = 0, all = 0;
        for (std::uint64_t seed = 0; seed < 100; ++seed) {
            OpInput input = sample(kShapeOpsMt, seed);
            for (Op &op : input.ops) op_set_stop(op, stop);
            op_input_normalise(input, kShapeOpsMt);
            const auto count = [&] {
                return static_cast<std::size_t>(std::count_if(input.ops.begin(), input.ops.end(),
                                                              [&](const Op &op) { return op_stop(op) == stop; }));
            };
            Rng rng(seed, 0);
            const std::size_t before = count();
            mutate_as(static_cast<Mutation>(mutation), input, kShapeOpsMt, rng);
            for (const Op &op : input.ops) ASSERT_TRUE(op.link == 0 || op_stop(op) == stop) << kNames[mutation];
            all += before;
            kept += std::min(count(), before);
        }
        const bool removes = static_cast<Mutation>(mutation) == Mutation::Remove;
        EXPECT_GT(kept, removes ? all / 2 : all - 50) << kNames[mutation];
    }
}

TEST(OpMutator, StopsAreEarlyAndShortMostlyAndMovedALittle)
{
    std::size_t early = 0, set = 0, one_thread = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        OpInput input = sample(kShapeOpsMt, seed);
        for (Op &op : input.ops) op_set_stop(op, {});
        Rng rng(seed, 0);
        ASSERT_FALSE(mutate_as(Mutation::StopMove, input, kShapeOpsMt, rng));
        ASSERT_FALSE(mutate_as(Mutation::StopClear, input, kShapeOpsMt, rng));
        OpInput all = input;
        ASSERT_TRUE(mutate_as(Mutation::StopSet, input, kShapeOpsMt, rng));
        const auto stops = [](const Op &op) { return op_stop(op).point != 0; };
        ASSERT_EQ(std::count_if(input.ops.begin(), input.ops.end(), stops), 1);
        Op &op = *std::find_if(input.ops.begin(), input.ops.end(), stops);
        const OpStop stop = op_stop(op);
        ASSERT_TRUE(stop.point >= 1 && stop.point <= 40 && stop.ops >= 1 && stop.ops <= 6);
        early += stop.point <= 12 && stop.ops <= 2 ? 1 : 0;
        ++set;
        ASSERT_TRUE(mutate_as(Mutation::StopMove, input, kShapeOpsMt, rng));
        ASSERT_TRUE(stops(op));
        ASSERT_LE(std::abs(op_stop(op).point - stop.point) + std::abs(op_stop(op).ops - stop.ops), 3);
        ASSERT_TRUE(mutate_as(Mutation::StopClear, input, kShapeOpsMt, rng));
        ASSERT_EQ(op.link, 0U);
        ASSERT_TRUE(mutate_as(Mutation::StopsAll, all, kShapeOpsMt, rng));
        std::map<std::uint16_t, int> threads;
        for (const Op &one : all.ops) threads[one.thread] += stops(one) ? 1 : 0;
        one_thread += std::count_if(threads.begin(), threads.end(), [](auto of) { return of.second > 0; }) == 1 ? 1 : 0;
    }
    EXPECT_GT(early, set / 2);
    EXPECT_LT(early, set);
    EXPECT_EQ(one_thread, set);
}

TEST(OpMutator, CrossOverHasOpsOfBoth)
{
    OpInput a, b;
    a.threads = 2;
    b.threads = 3;
    a.ops.assign(30, stress::op_make(OpKind::Malloc, 1, 11));
    b.ops.assign(30, stress::op_make(OpKind::Malloc, 2, 22));
    for (Op &op : a.ops) op_set_stop(op, {1, 2});
    int both = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        Rng rng(seed, 0), again(seed, 0);
        const OpInput child = cross_over(a, b, kShapeOpsMt, kOpInputOpsMax, rng);
        ASSERT_EQ(child, cross_over(a, b, kShapeOpsMt, kOpInputOpsMax, again));
        expect_normal(child, kShapeOpsMt, "a child");
        EXPECT_EQ(child.threads, 3);
        const auto of = [&child](std::uint32_t slot) {
            return std::count_if(child.ops.begin(), child.ops.end(), [slot](const Op &op) { return op.slot == slot; });
        };
        EXPECT_EQ(of(1) + of(2), static_cast<std::ptrdiff_t>(child.ops.size()));
        both += of(1) > 0 && of(2) > 0 ? 1 : 0;
        for (const Op &op : child.ops) EXPECT_EQ(op_stop(op), (op.slot == 1 ? OpStop{1, 2} : OpStop{}));
        ASSERT_LE(cross_over(a, b, kShapeOpsMt, 5, rng).ops.size(), 5U);
    }
    EXPECT_GT(both, 120);
    Rng rng(1, 0);
    expect_normal(cross_over(OpInput(), OpInput(), kShapeOps, kOpInputOpsMax, rng), kShapeOps, "of nothing");
}

TEST(BoundarySizes, EdgesWithTheirNeighbours)
{
    const std::vector<std::size_t> &sizes = boundary_sizes();
    ASSERT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
    for (const std::size_t edge : {16UL, 512UL, 1024UL, 1152UL, 32768UL, 65536UL, 2UL << 20, 4UL << 20})
        for (const std::size_t size : {edge - 1, edge, edge + 1})
            EXPECT_TRUE(std::binary_search(sizes.begin(), sizes.end(), size)) << size;
    EXPECT_EQ(sizes.front(), 0U);
    EXPECT_EQ(sizes.back(), SIZE_MAX);
}

// libFuzzer's dictionary has each boundary size, as an op stores it: 6 bytes.
TEST(BoundarySizes, AreTheDictionary)
{
    std::ifstream file(FUZZ_DICTIONARY);
    ASSERT_TRUE(file.good()) << FUZZ_DICTIONARY;
    std::vector<std::size_t> found;
    for (std::string line; std::getline(file, line);) {
        ASSERT_GE(line.size(), 2U);
        ASSERT_TRUE(line.front() == '"' && line.back() == '"') << line;
        std::vector<unsigned> bytes;
        for (std::size_t i = 1; i + 1 < line.size(); ++i) {
            if (line.compare(i, 2, "\\x") == 0) {
                bytes.push_back(static_cast<unsigned>(std::stoul(line.substr(i + 2, 2), nullptr, 16)));
                i += 3;
            } else {
                bytes.push_back(static_cast<unsigned char>(line[i]));
            }
        }
        ASSERT_EQ(bytes.size(), 6U) << line;
        std::size_t size = bytes[5] >= 0x80 ? SIZE_MAX << 48 : 0;
        for (std::size_t i = 0; i < 6; ++i) size |= std::size_t{bytes[i]} << 8 * i;
        found.push_back(size);
    }
    EXPECT_EQ(found, boundary_sizes());
}

// A thread stops for as long as another one needs to free everything that it made before.
TEST(OpMutator, MeetStopsAThreadWhileAnotherFreesItsBlocks)
{
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        OpInput input{2, {}};
        Rng rng(seed, 0);
        ASSERT_TRUE(mutate_as(Mutation::Meet, input, kShapeOpsMt, rng));
        const std::size_t count = input.ops.size() / 2;
        ASSERT_EQ(input.ops.size(), 2 * count + 1);
        const Op &middle = input.ops[count];
        if (middle.kind == OpKind::Renew) {
            EXPECT_EQ(op_stop(middle).ops, count);
        }
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(input.ops[i].thread, middle.thread);
            EXPECT_NE(input.ops[count + 1 + i].thread, middle.thread);
            EXPECT_EQ(input.ops[count + 1 + i].kind, OpKind::Free);
            EXPECT_EQ(input.ops[count + 1 + i].slot, input.ops[i].slot);
        }
    }
}

}  // namespace
}  // namespace fuzz

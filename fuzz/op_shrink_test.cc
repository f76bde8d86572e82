// Tests shrinking: to the smallest failing input, in which each part counts; each step alone; and giving up.
#include "fuzz/op_shrink.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fuzz/op_input_text.h"
#include "fuzz/op_mutator.h"

namespace fuzz {
namespace {

using stress::op_size;

OpInput random_input(std::uint64_t seed)
{
    Rng rng(seed, 0);
    std::vector<std::uint8_t> bytes(kOpInputHeadBytes + 100 * sizeof(Op));
    for (std::uint8_t &byte : bytes) byte = static_cast<std::uint8_t>(rng.below(256));
    bytes[1] = 4;
    return op_input_decode(bytes, kShapeOpsMt);
}

OpInput parsed(const std::string &text)
{
    OpInput input;
    EXPECT_EQ(op_input_parse(text, kShapeOpsMt, input), "") << text;
    return input;
}

std::string shrunk(const OpInput &input, const std::function<bool(const OpInput &)> &fails)
{
    EXPECT_TRUE(fails(input));
    std::string text = op_input_print(op_shrink(input, kShapeOpsMt, {fails, [] { return false; }}));
    return text.substr(text.find("schedule seeded\n") + 16);
}

// Fails if a free stops at 7 or later and, meanwhile, another thread calls malloc.
bool stop_matters(const OpInput &input)
{
    for (std::size_t i = 0; i + 1 < input.ops.size(); ++i) {
        const Op &op = input.ops[i];
        if (op.kind != OpKind::Free || op_stop(op).point < 7) continue;
        const std::size_t end = std::min(input.ops.size(), i + 1 + op_stop(op).ops);
        for (std::size_t j = i + 1; j < end; ++j)
            if (input.ops[j].kind == OpKind::Malloc && input.ops[j].thread != op.thread && op_size(input.ops[j]) >= 512)
                return true;
    }
    return false;
}

TEST(OpShrink, WhatMattersOfAStopIsKeptAndNothingElse)
{
    int failed = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const OpInput input = random_input(seed);
        if (!stop_matters(input)) continue;
        ++failed;
        const std::string text = shrunk(input, stop_matters);
        EXPECT_TRUE(text == "T1: free(b0);  # stops at 7 for 1 ops\nb1 = malloc(512);\n" ||
                    text == "free(b0);  # stops at 7 for 1 ops\nT1: b1 = malloc(512);\n" ||
                    text == "T1: free(b0);  # stops at 7 for 1 ops\nb0 = malloc(512);\n" ||
                    text == "free(b0);  # stops at 7 for 1 ops\nT1: b0 = malloc(512);\n")
            << "seed " << seed << "\n"
            << text;
    }
    EXPECT_GT(failed, 20);
}

TEST(OpShrink, StopsThatDoNotMatterGo)
{
    const auto has_check = [](const OpInput &input) {
        return std::any_of(input.ops.begin(), input.ops.end(), [](const Op &op) { return op.kind == OpKind::Check; });
    };
    EXPECT_EQ(shrunk(random_input(1), has_check), "check(b0);\n");
}

TEST(OpShrink, AStopTravelsWithItsOp)
{
    const OpInput input = parsed("threads 3\nT1: b9 = malloc(7);\npurge();\nT2: free(b9);  # stops at 40 for 9 ops\n"
                                 "T1: purge();\nfree(b8);  # stops at 5 for 2 ops\n");
    const auto fails = [](const OpInput &trial) {
        return std::any_of(trial.ops.begin(), trial.ops.end(), [](const Op &op) {
            return op.kind == OpKind::Free && op_stop(op).ops > 4 && op_stop(op).point % 2 == 0;
        });
    };
    EXPECT_EQ(shrunk(input, fails), "free(b0);  # stops at 10 for 5 ops\n");
}

TEST(OpShrink, ThreadsArgumentsAndSmallSizes)
{
    const OpInput input = parsed("threads 4\nT3: b7 = calloc(200, 61);\nT2: b6 = memalign(64, 0);\n"
                                 "T1: renew(cancel, 50);\n");
    const auto fails = [](const OpInput &trial) {
        return trial.threads >= 3 && trial.ops.size() == 3 && trial.ops[0].kind == OpKind::Calloc &&
               trial.ops[0].arg >= 33 && op_size(trial.ops[0]) >= 59;
    };
    EXPECT_EQ(shrunk(input, fails), "b0 = calloc(33, 59);\nb1 = malloc(1);\nrenew(return, 1);\n");
}

TEST(OpShrink, ItIsOverWhenItIsLate)
{
    int runs = 0;
    const auto fails = [&runs](const OpInput &) { return ++runs > 0; };
    const OpInput input = random_input(2);
    EXPECT_EQ(op_shrink(input, kShapeOpsMt, {fails, [] { return true; }}), input);
    EXPECT_EQ(runs, 0);
    const OpInput some = op_shrink(input, kShapeOpsMt, {fails, [&runs] { return runs >= 2; }});
    EXPECT_EQ(runs, 2);
    EXPECT_LT(some.ops.size(), input.ops.size());
    EXPECT_FALSE(some.ops.empty());
}

}  // namespace
}  // namespace fuzz

// Tests the minimiser with failures that are computed, not run.
#include "program/minimise.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/base/rng.h"
#include "program/op_text.h"

namespace stress {
namespace {

Program random_program(std::size_t count, std::uint32_t threads)
{
    Program program;
    program.threads = threads;
    Rng rng(42, 0);
    for (std::size_t i = 0; i < count; ++i) {
        constexpr OpKind kinds[] = {OpKind::Malloc,       OpKind::Free, OpKind::Calloc,
                                    OpKind::AlignedAlloc, OpKind::Free, OpKind::Realloc};
        const OpKind kind = kinds[rng.below(6)];
        const auto arg = static_cast<std::uint8_t>(kind == OpKind::AlignedAlloc ? 6 : kind == OpKind::Calloc ? 3 : 0);
        Op op =
            op_make(kind, static_cast<std::uint32_t>(rng.below(256)), op_frees(kind) ? 0 : 1 + rng.below(1000), arg);
        op.thread = static_cast<std::uint16_t>(rng.below(threads));
        program.ops.push_back(op);
    }
    return program;
}

struct Minimised {
    Program program;
    std::uint64_t tries = 0, unclamped = 0; // those of which a repeat is longer than what follows it
};

Minimised minimised(Program program, const std::function<bool(const OpList &)> &fails_when)
{
    Minimised result;
    const auto fails = [&](const Program &trial) {
        ++result.tries;
        OpList clamped = trial.ops;
        repeats_clamp(clamped);
        for (std::size_t i = 0; i < clamped.size(); ++i) result.unclamped += clamped[i].slot != trial.ops[i].slot;
        std::string note;
        return fails_when(repeats_expand(trial.ops, note));
    };
    EXPECT_TRUE(fails(program));
    result.program = minimise(std::move(program), {fails, [](const Program &) {}, [] { return false; }});
    EXPECT_TRUE(fails(result.program));
    return result;
}

std::string text_of(const Program &program)
{
    std::string text;
    for (const Op &op : program.ops) text += op_print(op);
    return text;
}

TEST(Minimise, OneOpThatFails)
{
    const Minimised m = minimised(random_program(4096, 4), [](const OpList &ops) {
        for (const Op &op : ops)
            if (op.kind == OpKind::AlignedAlloc && op_size(op) > 500) return true;
        return false;
    });
    EXPECT_EQ(text_of(m.program), "b0 = aligned_alloc(1, 512);");
    EXPECT_EQ(m.program.threads, 1u);
    EXPECT_LT(m.tries, 400u);
}

TEST(Minimise, CountsBecomeARepeat)
{
    const Minimised m = minimised(random_program(8000, 4), [](const OpList &ops) {
        std::size_t count = 0;
        for (const Op &op : ops) count += op.kind == OpKind::Malloc || op.kind == OpKind::Calloc;
        return count >= 997;
    });
    EXPECT_EQ(m.program.ops.size(), 2u) << text_of(m.program);
    EXPECT_EQ(op_size(m.program.ops[0]), 997u);
    EXPECT_LT(m.tries, 400u);
}

// A file whose repeat is longer than what follows it cannot be read, so none is tried.
TEST(Minimise, RepeatsEndWithinTheOps)
{
    Program program;
    ASSERT_EQ(
        program_parse("repeat 40 step 1 { b0 = malloc(1); free(b0); purge(); b1 = calloc(2, 3); free(b1); }", program),
        "");
    const Minimised m = minimised(std::move(program), [](const OpList &ops) { return ops.size() >= 60; });
    EXPECT_EQ(m.unclamped, 0u);
    EXPECT_LE(m.program.ops.size(), 3u) << text_of(m.program);
}

// One thread allocates the block and another frees it, a hundred times.
TEST(Minimise, KeepsTheThreadsThatItNeeds)
{
    Program program = random_program(4000, 4);
    const Minimised m = minimised(std::move(program), [](const OpList &ops) {
        std::map<std::uint32_t, int> owner;
        int remote = 0;
        for (const Op &op : ops) {
            if (op_allocates(op.kind) && owner.count(op.slot) == 0) owner[op.slot] = op.thread;
            if (!op_frees(op.kind) || owner.count(op.slot) == 0) continue;
            remote += owner[op.slot] != op.thread;
            owner.erase(op.slot);
        }
        return remote >= 100;
    });
    EXPECT_EQ(m.program.threads, 2u);
    EXPECT_LE(m.program.ops.size(), 6u) << text_of(m.program);
}

// The failure needs three different ops in this order, at any place, so there is nothing to fold.
TEST(Minimise, DropsWhatDoesNotMatter)
{
    const Minimised m = minimised(random_program(3000, 2), [](const OpList &ops) {
        int state = 0;
        for (const Op &op : ops) {
            if (state == 0 && op.kind == OpKind::Calloc && op_size(op) > 900) state = 1;
            if (state == 1 && op.kind == OpKind::Realloc && op.thread == 0) state = 2;
            if (state == 2 && op.kind == OpKind::Free && op.slot == 7) state = 3;
        }
        return state == 3;
    });
    EXPECT_EQ(m.program.ops.size(), 3u) << text_of(m.program);
}

TEST(Minimise, GivesUpWithSomethingThatFails)
{
    Program program = random_program(1000, 2);
    int left = 20;
    const auto fails = [&](const Program &trial) {
        --left;
        return trial.ops.size() > 300;
    };
    program = minimise(std::move(program), {fails, [](const Program &) {}, [&] { return left <= 0; }});
    EXPECT_GT(program.ops.size(), 300u);
    EXPECT_GE(left, -20);
}

TEST(OpsRemove, KeepsBodiesRight)
{
    Program program;
    ASSERT_EQ(program_parse("purge(); repeat 3 step 1 { b0 = malloc(1); free(b0); purge(); } purge();", program), "");
    ops_remove(program.ops, 3, 4);
    EXPECT_EQ(program.ops[1].slot, 2u);
    ops_remove(program.ops, 0, 1);
    EXPECT_EQ(program.ops[0].slot, 2u);
    ops_remove(program.ops, 2, 4);
    EXPECT_EQ(program.ops[0].slot, 1u);
}

}  // namespace
}  // namespace stress

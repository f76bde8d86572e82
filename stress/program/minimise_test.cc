// Tests the minimiser with failures that are computed, not run.
#include "program/minimise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/base/rng.h"
#include "program/fold.h"
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

// What fails needs some ops of a random program, in this order: each of its kind, its size at least, and a thread of its own or
// not. Every program that is tried is one that could be written and run in the same way.
struct Needs {
    OpKind kind;
    std::size_t size;
    bool is_other_thread; // than the one before
};

bool is_aligned(OpKind kind)
{
    return kind == OpKind::AlignedAlloc || kind == OpKind::PosixMemalign || kind == OpKind::Memalign;
}

bool has_all(const OpList &ops, const std::vector<Needs> &needs)
{
    std::size_t found = 0;
    std::uint32_t thread = 0;
    for (const Op &op : ops) {
        if (found == needs.size()) break;
        const Needs &next = needs[found];
        const bool is_kind = op.kind == next.kind || (is_aligned(op.kind) && is_aligned(next.kind));
        if (!is_kind || (!op_frees(op.kind) && op_size(op) < next.size)) continue;
        if (found > 0 && next.is_other_thread && op.thread == thread) continue;
        thread = op.thread;
        ++found;
    }
    return found == needs.size();
}

void expect_could_run(const Program &trial, const Program &first)
{
    EXPECT_EQ(trial.seed, first.seed);
    EXPECT_EQ(trial.schedule, first.schedule);
    EXPECT_EQ(trial.check, first.check);
    EXPECT_EQ(trial.strict, first.strict);
    EXPECT_EQ(trial.rule, first.rule);
    EXPECT_EQ(trial.allocator, first.allocator);
    ASSERT_GE(trial.threads, 1u);
    std::string note;
    for (const Op &op : trial.ops) EXPECT_EQ(op.link, 0u);
    for (const Op &op : repeats_expand(trial.ops, note)) {
        ASSERT_LT(op.thread, trial.threads);
        if (op_has_slot(op.kind)) ASSERT_LT(op.slot, kOpSlotsMax);
    }
}

TEST(Minimise, LeavesWhatIsNeeded)
{
    constexpr OpKind kinds[] = {OpKind::Malloc, OpKind::Calloc, OpKind::Realloc, OpKind::Free, OpKind::Memalign};
    for (std::uint64_t stream = 0; stream < 12 && !testing::Test::HasFailure(); ++stream) {
        SCOPED_TRACE("stream " + std::to_string(stream));
        Rng rng(7, stream);
        Program first = random_program(600, 4);
        for (Op &op : first.ops) op.link = rng.one_in(3) ? static_cast<std::uint16_t>(1 + rng.below(9)) : 0;
        first.seed = rng.next();
        first.schedule = rng.one_in(2) ? Schedule::Os : Schedule::Seeded;
        first.check = rng.one_in(2);
        first.strict = rng.one_in(2);
        first.rule = "overlap";
        first.allocator = "a.so";
        first.laps = 3;
        first.ops_limit = 600;
        std::vector<Needs> needs(1 + rng.below(5));
        for (Needs &each : needs) each = {kinds[rng.below(5)], 1 + rng.below(700), rng.one_in(2)};
        const bool needs_laps = rng.one_in(4);
        const auto fails = [&](const Program &trial) {
            std::string note;
            return has_all(repeats_expand(trial.ops, note), needs) &&
                   (!needs_laps || (trial.laps == 3 && trial.ops_limit != 0));
        };
        if (!fails(first)) continue;
        bool is_first = true;
        Program last = minimise(first, {[&](const Program &trial) {
                                            expect_could_run(trial, first);
                                            is_first = false;
                                            return fails(trial);
                                        },
                                        [](const Program &) {}, [] { return false; }});
        EXPECT_FALSE(is_first);
        ASSERT_TRUE(fails(last));
        EXPECT_LE(last.ops.size(), needs.size()) << text_of(last);
        for (std::size_t i = 0; i < last.ops.size(); ++i) {
            Program less = last;
            ops_remove(less.ops, i, i + 1);
            EXPECT_FALSE(fails(less)) << "op " << i << " of " << text_of(last);
        }
        EXPECT_EQ(last.laps, needs_laps ? 3u : 1u);
        if (needs_laps)
            EXPECT_LE(last.ops_limit, std::uint64_t{last.threads} * std::max<std::size_t>(1, last.ops.size()));
        else EXPECT_EQ(last.ops_limit, 0u);
        std::uint32_t slots = 0, others = 0;
        for (const Needs &each : needs) others += each.is_other_thread && &each != needs.data();
        EXPECT_LE(last.threads, 1 + others);
        for (const Op &op : last.ops) {
            EXPECT_TRUE(!is_aligned(op.kind) || op.kind == OpKind::AlignedAlloc) << text_of(last);
            if (!op_has_slot(op.kind)) continue;
            EXPECT_LE(op.slot, slots) << "slots are numbered by their first use: " << text_of(last);
            slots = std::max(slots, op.slot + 1);
        }
    }
}

// Each candidate to fold is a loop that can be run: its slots exist, and no handing over lasts for minutes.
TEST(Fold, CandidatesCanRun)
{
    const Program program = random_program(400, 3);
    const auto candidates = fold_candidates(program.ops, 500'000);
    EXPECT_GT(candidates.size(), 50u);
    for (const OpList &ops : candidates) {
        ASSERT_EQ(ops[0].kind, OpKind::Repeat);
        ASSERT_EQ(ops[0].slot, ops.size() - 1);
        std::uint64_t slots = 0;
        bool is_handed = false;
        for (std::size_t i = 1; i < ops.size(); ++i) {
            slots = std::max<std::uint64_t>(slots, ops[i].slot + 1);
            is_handed |= ops[i].thread != ops[1].thread;
        }
        EXPECT_LE(slots + (op_size(ops[0]) - 1) * ops[0].arg, kOpSlotsMax);
        if (is_handed && ops[0].arg == 0) EXPECT_LE(op_size(ops[0]), 8192u);
    }
}

// A segment becomes rounds of its first ops: on the same slots, on new ones that no other op uses, or on the next ones.
TEST(Fold, ASegmentIsTheRoundsThatItSays)
{
    Rng rng(3, 0);
    for (int i = 0; i < 300; ++i) {
        const Program program = random_program(30, 2);
        const std::size_t from = rng.below(20), width = 1 + rng.below(4),
                          to = from + width + rng.below(30 - from - width);
        for (FoldSlots slots : {FoldSlots::Same, FoldSlots::Fresh, FoldSlots::Next}) {
            const OpList folded = fold_segment(program.ops, from, to, width, slots);
            const std::size_t rounds = (to - from + width - 1) / width;
            ASSERT_EQ(folded.size(), 30 - (to - from) + 1 + width);
            ASSERT_EQ(folded[from].kind, OpKind::Repeat);
            ASSERT_EQ(op_size(folded[from]), rounds);
            std::string note;
            const OpList ops = repeats_expand(folded, note);
            ASSERT_EQ(ops.size(), 30 - (to - from) + rounds * width);
            for (std::size_t at = from; at < from + rounds * width; ++at) {
                const Op &of = program.ops[from + (at - from) % width];
                ASSERT_EQ(ops[at].kind, of.kind);
                ASSERT_EQ(ops[at].thread, of.thread);
                if (slots == FoldSlots::Same) ASSERT_EQ(ops[at].slot, of.slot);
                if (slots == FoldSlots::Next) ASSERT_EQ(ops[at].slot, of.slot + (at - from) / width * width);
                if (slots != FoldSlots::Fresh) continue;
                for (const Op &other : program.ops) ASSERT_NE(ops[at].slot, other.slot) << "it is another block's";
            }
        }
        OpList nested = program.ops;
        nested[from] = op_make(OpKind::Repeat, 1, 2);
        ASSERT_TRUE(fold_segment(nested, from, to, width, FoldSlots::Same).empty());
    }
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

} // namespace
} // namespace stress

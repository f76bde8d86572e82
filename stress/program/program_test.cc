#include "program/program.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <thread>

#include "conform/deny.h"
#include "engine/base/build.h"
#include "engine/subject/fault_os.h"
#include "program/ops_for_test.h"

namespace stress {
namespace {

// Links that the text form cannot say, and links that are right.
TEST(Links, TheLawOfKeptLinks)
{
    OpList ops{op_make(OpKind::Purge, 0, 0, 0, 1)};
    EXPECT_EQ(links_fault(ops, 1), "op 1: it has a link and no slot");
    for (const char *sound :
         {"b0 = malloc(1) link 1; T1: free(b0) link 2; T1: b0 = malloc(1); T1: free(b0); T1: b0 = malloc(1) link 3; "
          "free(b0) link 4;",
          "free(b0); free(b0); T1: free(b1); free(b0) link 1; T1: free(b0) link 2;",
          "free(b0) link 1; T1: free(b1) link 2; free(b0) link 3;", "free(b0) link 5; T1: free(b0) link 7;"})
        EXPECT_EQ(links_fault(ops_of(sound, "links kept\n"), 2), "") << sound;
}

TEST(Links, AreMergedInTheOrderThatTheyAllow)
{
    const auto thread = [](const char *text) { // alone, its links do not have their turns
        Program program;
        program_parse(std::string("links kept\n") + text, program);
        return program.ops;
    };
    EXPECT_EQ(text_of(links_merge({})), "");
    EXPECT_EQ(text_of(links_merge({thread("free(b0); b3 = malloc(1) link 1; free(b3) link 3; purge();"),
                                   thread("T1: purge(); T1: check(b3) link 2;")})),
              "free(b0);T1: purge();b3 = malloc(1) link 1;T1: check(b3) link 2;free(b3) link 3;purge();");
    EXPECT_EQ(text_of(links_merge({thread("free(b0) link 2;"), thread("T1: free(b1); T1: free(b7) link 9;")})),
              "T1: free(b1);free(b0) link 2;T1: free(b7) link 9;")
        << "those without a turn are last";
}

TEST(Repeats, AreWrittenOutWithTheirStep)
{
    Program program;
    ASSERT_EQ(
        program_parse("free(b9); repeat 3 step 2 { b0 = malloc(1); repeat 5 step 1 { free(b1); } } purge();", program),
        "");
    std::string note;
    const OpList ops = repeats_expand(program.ops, note);
    EXPECT_EQ(note, "");
    EXPECT_EQ(text_of(ops),
              "free(b9);b0 = malloc(1);free(b1);b2 = malloc(1);free(b3);b4 = malloc(1);free(b5);purge();");
}

// 524288 rounds of eight ops are as many as fit.
TEST(Repeats, AreCutAtTheLimitWithALine)
{
    const OpList ops = ops_of("repeat 524289 step 0 { purge(); purge(); purge(); purge(); purge(); purge(); purge(); "
                              "purge(); } free(b0);");
    std::string note;
    const OpList expanded = repeats_expand(ops, note);
    EXPECT_EQ(note, "repeats were cut after 4194304 ops, in round 524288 of 524289");
    EXPECT_EQ(expanded.size(), kProgramExpandedMax + 1);
    EXPECT_EQ(expanded.back().kind, OpKind::Free);
}

TEST(Repeats, SlotsWrapAndBodiesEndWithTheProgram)
{
    std::string note;
    EXPECT_EQ(text_of(repeats_expand(
                  ops_of("repeat 3 step 255 { free(b1048066); purge(); } repeat 0 step 1 { free(b0); }"), note)),
              "free(b1048066);purge();free(b1048321);purge();free(b0);purge();");
    OpList ops{op_make(OpKind::Repeat, 9, 2), op_make(OpKind::Repeat, 5, 2), op_make(OpKind::Free, 3),
               op_make(OpKind::Repeat, 1, 2), op_make(OpKind::Repeat, 1, 2)};
    EXPECT_EQ(text_of(repeats_expand(ops, note)), "free(b3);free(b3);");
    const auto clamped = [](OpList of) {
        repeats_clamp(of);
        std::string bodies;
        for (const Op &op : of) bodies += std::to_string(op.slot) + " ";
        return bodies;
    };
    ops[1].slot = 2;
    EXPECT_EQ(clamped(ops), "4 2 3 0 0 ");
    ops = {op_make(OpKind::Repeat, 2, 2), op_make(OpKind::Repeat, 1, 2), op_make(OpKind::Free, 3),
           op_make(OpKind::Repeat, 9, 2), op_make(OpKind::Free, 4)};
    EXPECT_EQ(clamped(ops), "2 1 3 1 4 ") << "two bodies end at once";
    EXPECT_EQ(note, "");
}

TEST(Links, CountWhereSeveralThreadsShareASlot)
{
    OpList ops{op_make(OpKind::Malloc, 1, 8), op_make(OpKind::Malloc, 2, 8), on_thread(op_make(OpKind::Free, 1), 1),
               op_make(OpKind::Free, 2), op_make(OpKind::Malloc, 1, 8)};
    for (Op &op : ops) op.link = 9; // as they were kept in another order
    links_number(ops);
    const std::uint16_t wanted[] = {1, 0, 2, 0, 3};
    for (std::size_t i = 0; i < ops.size(); ++i) EXPECT_EQ(ops[i].link, wanted[i]) << i;
    EXPECT_EQ(links_fault(ops, 2), "");
}

TEST(Links, WrapAfterSixteenBits)
{
    OpList ops;
    for (std::uint32_t i = 0; i < 65537; ++i)
        ops.push_back(on_thread(op_make(OpKind::Malloc, 0, 8), static_cast<std::uint16_t>(i % 2)));
    links_number(ops);
    EXPECT_EQ(ops[65534].link, 65535);
    EXPECT_EQ(ops[65535].link, 1);
}

TEST(Plan, SplitsByThread)
{
    Program program;
    ASSERT_EQ(program_parse("b7 = malloc(1); T1: free(b7); T1: purge();", program), "");
    std::string note;
    Plan plan = plan_of(program, note);
    EXPECT_EQ(plan.slot_count, 8u);
    ASSERT_EQ(plan.generators.size(), 2u);
    Op ops[4];
    EXPECT_EQ(plan.generators[0]->fill(ops, 4), 1u);
    EXPECT_EQ(ops[0].link, 1);
    EXPECT_EQ(plan.generators[1]->fill(ops, 4), 2u);
    EXPECT_EQ(ops[0].link, 2);
    EXPECT_EQ(plan.generators[1]->fill(ops, 4), 0u);
}

TEST(Plan, SaysWhatTheRunNeeds)
{
    const auto plan = [](const char *text) {
        Program program;
        std::string note;
        EXPECT_EQ(program_parse(text, program), "");
        return plan_of(program, note);
    };
    EXPECT_EQ(plan("purge(); repeat 3 step 0 { }").slot_count, 1u) << "bodies are no slots";
    EXPECT_EQ(plan("threads 3").generators.size(), 3u);
    EXPECT_FALSE(plan("purge();").directs_forks || plan("purge();").traps_os);
    EXPECT_TRUE(plan("purge(); fork(1, 2); purge();").directs_forks);
    EXPECT_EQ(plan("limit_memory(1); purge();").skip, kSanitized ? fault_os_refusal() : "");
    EXPECT_EQ(plan("fail_os(1); purge();").skip, fault_os_refusal());
    EXPECT_EQ(plan("purge(); fail_os(1);").traps_os, fault_os_refusal().empty());
    Op ops[2];
    EXPECT_EQ(plan("links kept free(b0) link 1; free(b0) link 2;").generators[0]->fill(ops, 2), 2u);
    EXPECT_EQ(ops[1].link, 2u) << "as they were kept, though one thread needs none";
}

TEST(Plan, IsRefusedWhereTheSystemRefusesTheFilter)
{
    bool is_denied = false;
    std::thread([&is_denied] { // the filter that denies the filter is this thread's alone
        const long calls[] = {SYS_seccomp};
        is_denied = conform::deny_calls(calls, EINVAL);
        if (!is_denied) return;
        const std::string refusal = fault_os_refusal();
        EXPECT_NE(refusal, "");
        for (const char *text : {"purge(); fail_os(1);", "purge(); limit_memory(1);", "purge();"}) {
            Program program;
            std::string note;
            EXPECT_EQ(program_parse(text, program), "");
            const Plan plan = plan_of(program, note);
            const bool needs_it = program.ops.back().kind == OpKind::FailOs ||
                                  (kSanitized && program.ops.back().kind == OpKind::LimitMemory);
            EXPECT_EQ(plan.skip, needs_it ? refusal : "") << text;
            EXPECT_FALSE(plan.traps_os) << text;
        }
    })
        .join();
    if (!is_denied) GTEST_SKIP() << "the kernel lets no seccomp filter be set";
}

// The plan copies each op once, and has no room for more.
TEST(Plan, TakesTheMemoryOfItsOps)
{
    constexpr std::size_t count = (std::size_t{1} << 16) + 1;
    Program program;
    program.ops.assign(count, op_make(OpKind::Purge, 0));
    std::string note;
    const std::size_t before = harness_resident_bytes();
    const Plan plan = plan_of(program, note);
    EXPECT_LT(harness_resident_bytes() - before, count * sizeof(Op) * 5 / 4);
}

}  // namespace
}  // namespace stress

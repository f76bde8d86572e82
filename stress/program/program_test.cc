#include "program/program.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/base/rng.h"
#include "program/op_text.h"

namespace stress {
namespace {

Op on_thread(Op op, std::uint16_t thread)
{
    op.thread = thread;
    return op;
}

// Random bytes as ops, clamped as a reader would clamp them.
Program random_program(Rng &rng, std::size_t count)
{
    Program program;
    program.threads = kOpThreadsMax;
    program.seed = rng.next();
    program.schedule = rng.one_in(2) ? Schedule::Os : Schedule::Seeded;
    for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t words[2] = {rng.next(), rng.next()};
        Op op;
        std::memcpy(&op, words, sizeof op);
        op = op_normalise(op);
        if (rng.one_in(2)) op.thread %= 3;
        if (op.kind == OpKind::Repeat) op.slot %= 8;
        program.ops.push_back(op);
    }
    repeats_clamp(program.ops);
    return program;
}

std::string parse(const Text &text, Program &program)
{
    return program_parse({text.data(), text.size()}, program);
}

void expect_equal(const OpList &a, const OpList &b)
{
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(Op)), 0)
            << "op " << i << " of kind " << int(a[i].kind) << ": " << op_print(a[i]) << " against " << op_print(b[i]);
}

TEST(OpText, WhatIsPrintedParsesBack)
{
    Rng rng(42, 0);
    bool kinds[kOpKindCount] = {};
    for (int round = 0; round < 400; ++round) {
        const Program program = random_program(rng, static_cast<std::size_t>(round % 60));
        for (const Op &op : program.ops) kinds[static_cast<std::size_t>(op.kind)] = true;
        Program again;
        ASSERT_EQ(parse(program_print(program), again), "");
        ASSERT_EQ(again.seed, program.seed);
        ASSERT_EQ(again.schedule, program.schedule);
        expect_equal(again.ops, program.ops);
    }
    for (std::size_t kind = 0; kind < kOpKindCount; ++kind) EXPECT_TRUE(kinds[kind]) << kind;
}

TEST(OpText, SettingsParseBack)
{
    Program program;
    program.threads = 2;
    program.check = false;
    program.strict = false;
    program.laps = 8;
    program.ops_limit = 77;
    program.links_kept = true;
    program.allocator = "/a path/with # in it.so";
    program.rule = "overlap";
    program.expected = {0x123456789abcdef0, 99};
    program.ops = {op_make(OpKind::Malloc, 5, 10, 0, 1), on_thread(op_make(OpKind::Free, 5, 0, 0, 2), 1),
                   op_make(OpKind::Free, 5, 0, 0, 9)};
    Program again;
    ASSERT_EQ(parse(program_print(program), again), "");
    EXPECT_EQ(again.check, false);
    EXPECT_EQ(again.strict, std::optional<bool>(false));
    EXPECT_EQ(again.laps, 8u);
    EXPECT_EQ(again.ops_limit, 77u);
    EXPECT_EQ(again.allocator, program.allocator);
    EXPECT_EQ(again.rule, program.rule);
    EXPECT_EQ(again.expected, program.expected);
    expect_equal(again.ops, program.ops);
}

TEST(OpText, EveryWayToWriteIt)
{
    Program program;
    const std::string_view text =
        "# hakmem ops 1\r\nthreads 2\nallocator  \t/a b.so \t \r\nseed 42\nschedule seeded\nexpect overlap   # the rule\n"
        "b3 = malloc(100);// a comment\nT1: b4 = calloc(2, 50);\nT1: b5 = aligned_alloc(64, 128);\n"
        "b6=posix_memalign(64,SIZE_MAX-5); T0: b3 = realloc(b3, SIZE_MAX);\nb3 = reallocarray(b3, 2, 50);\n"
        "free(b3); usable_size(b4); check(b4); purge(); renew(cancel, 3); fork(2, 10); signals(100);\n"
        "fail_os(3, forever); fail_os(4); limit_memory(65536); sleep_ms(1);\nrepeat 1000 step 1 { b0 = malloc(10); }\n";
    ASSERT_EQ(program_parse(text, program), "");
    EXPECT_EQ(program.rule, "overlap");
    EXPECT_EQ(program.allocator, "/a b.so");
    ASSERT_EQ(program.ops.size(), 19u);
    EXPECT_EQ(op_print(program.ops[1]), "T1: b4 = calloc(2, 50);");
    EXPECT_EQ(op_size(program.ops[3]), SIZE_MAX - 5);
    EXPECT_EQ(op_size(program.ops[4]), SIZE_MAX);
    EXPECT_EQ(op_print(program.ops[13]), "fail_os(3, forever);");
    EXPECT_EQ(program.ops[17].slot, 1u);
}

void expect_fault(std::string_view text, const std::string &fault)
{
    Program program;
    EXPECT_EQ(program_parse(text, program), fault) << text.substr(0, 80);
}

TEST(OpText, FaultsNameTheLine)
{
    expect_fault("\n\n\n\n\n\nb0 = malloc(5, 6);", "line 7: expected ')' after the size, found ','");
    expect_fault("b0 = malloc(99999999999999999999);",
                 "line 1: the size is at most 140737488355327, not 99999999999999999999");
    expect_fault("free(b1048576);", "line 1: the number of a block is at most 1048575, not 1048576");
    expect_fault("free(b0)", "line 1: expected ';' after the op, found the end");
    expect_fault("b0 = free(b0);", "line 1: free gives no block; leave out what is before it");
    expect_fault("malloc(1);", "line 1: malloc gives a block; write b0 = before it");
    expect_fault("b0 = mallok(1);", "line 1: unknown op 'mallok'");
    expect_fault("b0 = realloc(b1, 1);", "line 1: expected b0, the block on the left, found b1");
    expect_fault("b0 = aligned_alloc(48, 1);", "line 1: an alignment is a power of two, not 48");
    expect_fault("repeat 2 step 1 {\nfree(b0);\n", "line 3: expected '}' after the body of repeat, found the end");
    expect_fault("free(b0); }", "line 1: expected an op, found '}'");
    expect_fault("sleep_ms(5000);", "line 1: the size is at most 1000, not 5000");
    expect_fault("b0 = malloc(1); renew(never, 3);", "line 1: unknown way to end a thread: 'never'");
    for (const char *bad : {"nothing", "123", "123456789abcdef0:", "123456789abcdef0:x"})
        expect_fault(std::string("expect_schedule ") + bad + "\n",
                     "line 1: expected HASH:CLOCK, 16 hexadecimal digits and a number, found '" + std::string(bad) +
                         "'");
    expect_fault(
        "expect_schedule 123456789abcdef0:" + std::string(60, '0') + "\n",
        "line 1: expected HASH:CLOCK, 16 hexadecimal digits and a number, found '123456789abcdef0:0000000...'");
    expect_fault("allocator \t \n", "line 1: expected the name of the allocator");
    expect_fault("threads 0", "line 1: threads must be 1 or more");
    expect_fault("threads 2\nT2: purge();", "thread T2 is used, but the file says threads 2");
    expect_fault("purge();\nseed 3", "line 2: 'seed' must stand before the first op");
    expect_fault("free(b0) link 1;", "line 1: a link needs the line 'links kept' before the first op");
    expect_fault("# hakmem ops 2\n", "line 1: this is not version 1 of the format; use the program that wrote it");
    expect_fault(std::string("free(b0);\n\x01"), "line 2: expected an op, found byte 1");
    expect_fault(std::string(10'000'000, 'x'), "line 1: unknown op '" + std::string(24, 'x') + "...'");
    expect_fault("b0 = malloc(" + std::string(10'000'000, '9') + ");",
                 "line 1: the size is at most 140737488355327, not " + std::string(24, '9') + "...");
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
    std::string text;
    for (const Op &op : ops) text += op_print(op);
    EXPECT_EQ(text, "free(b9);b0 = malloc(1);free(b1);b2 = malloc(1);free(b3);b4 = malloc(1);free(b5);purge();");
}

TEST(Repeats, AreCutAtTheLimitWithALine)
{
    Program program;
    ASSERT_EQ(
        program_parse("repeat 1000000 step 0 { purge(); purge(); purge(); purge(); purge(); } free(b0);", program), "");
    std::string note;
    const OpList ops = repeats_expand(program.ops, note);
    EXPECT_LE(ops.size(), kProgramExpandedMax + 1);
    EXPECT_GE(ops.size(), kProgramExpandedMax - 5);
    EXPECT_EQ(note.find("repeats were cut after "), 0u) << note;
    EXPECT_EQ(ops.back().kind, OpKind::Free);
}

TEST(Links, CountWhereSeveralThreadsShareASlot)
{
    OpList ops{op_make(OpKind::Malloc, 1, 8), op_make(OpKind::Malloc, 2, 8), on_thread(op_make(OpKind::Free, 1), 1),
               op_make(OpKind::Free, 2), op_make(OpKind::Malloc, 1, 8)};
    links_number(ops);
    const std::uint16_t wanted[] = {1, 0, 2, 0, 3};
    for (std::size_t i = 0; i < ops.size(); ++i) EXPECT_EQ(ops[i].link, wanted[i]) << i;
    EXPECT_EQ(links_fault(ops, 2), "");
    ops[2].link = 0;
    EXPECT_NE(links_fault(ops, 2), "");
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

}  // namespace
}  // namespace stress

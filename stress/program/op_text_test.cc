// The text form of a program: what is printed, what may be written, and what is said of anything else.
#include "program/op_text.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "engine/base/rng.h"
#include "program/ops_for_test.h"

namespace stress {
namespace {

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

// Word by word, since a reader of another version gets it.
TEST(OpText, APrintedProgramLooksLikeThis)
{
    Program program;
    program.threads = 2;
    program.seed = 7;
    program.ops = {op_make(OpKind::Repeat, 3, 2, 1), on_thread(op_make(OpKind::Malloc, 0, 5), 1),
                   op_make(OpKind::Repeat, 1, 3),    op_make(OpKind::Free, 0),
                   op_make(OpKind::Repeat, 0, 4),    op_make(OpKind::Purge, 0)};
    const auto printed = [&program] {
        const Text text = program_print(program);
        return std::string(text.begin(), text.end());
    };
    const std::string head = "# hakmem ops 1\nthreads 2\nseed 7\nschedule ";
    const std::string body = "repeat 2 step 1 {\n    T1: b0 = malloc(5);\n    repeat 3 step 0 {\n        free(b0);\n"
                             "    }\n}\nrepeat 4 step 0 {\n}\npurge();\n";
    EXPECT_EQ(printed(), head + "seeded\n" + body);
    program.schedule = Schedule::Os;
    program.check = false;
    program.strict = true;
    program.laps = 2;
    program.ops_limit = 1;
    program.links_kept = true;
    program.allocator = "a b";
    program.expected = {1, 2};
    program.rule = "overlap";
    EXPECT_EQ(printed(), head +
                             "os\ncheck no\nstrict yes\nlaps 2\nops 1\nlinks kept\nallocator a b\n"
                             "expect_schedule 0000000000000001:2\nexpect overlap\n" +
                             body);
    program = Program();
    for (std::uint32_t i = 0; i < 10; ++i) program.ops.push_back(op_make(OpKind::Repeat, 9 - i, 1));
    EXPECT_NE(printed().find("\n" + std::string(32, ' ') + "repeat 1 step 0 {\n" + std::string(32, ' ') + "}\n"),
              std::string::npos)
        << "eight levels are indented";
}

// Each kind with its arguments at the limits, as it is printed, so that it must also parse.
TEST(OpText, EachKindAtItsLimits)
{
    for (const std::string_view text : {
             "b0 = malloc(0);",
             "b1048575 = malloc(140737488355327);",
             "b0 = malloc(SIZE_MAX);",
             "b0 = malloc(SIZE_MAX-1);",
             "b0 = malloc(SIZE_MAX-140737488355327);",
             "free(b1048575);",
             "free(b0);",
             "b0 = realloc(b0, 0);",
             "b7 = realloc(b7, SIZE_MAX);",
             "b0 = calloc(0, 0);",
             "b0 = calloc(255, SIZE_MAX-2);",
             "b0 = aligned_alloc(1, 5);",
             "b0 = posix_memalign(1073741824, 5);",
             "b0 = memalign(2, SIZE_MAX);",
             "b3 = reallocarray(b3, 255, 9);",
             "free_sized(b1);",
             "free_aligned_sized(b1);",
             "usable_size(b1);",
             "T5: check(b1);",
             "purge();",
             "renew(return, 0);",
             "renew(exit, 1000);",
             "renew(cancel, 1);",
             "renew(small_stack, 1);",
             "renew(destructors, 1);",
             "fork(255, SIZE_MAX);",
             "signals(1000000);",
             "dlopen(16);",
             "fail_os(1000000);",
             "fail_os(1, forever);",
             "limit_memory(SIZE_MAX-9);",
             "getline(1048576);",
             "flush_all();",
             "sleep_ms(1000);",
             "heap(1000000000);",
             "limit(7);",
             "idle(60000);",
             "T1023: purge();",
         }) {
        EXPECT_EQ(text_of(ops_of(text)), text);
        if (!text.starts_with("T")) EXPECT_EQ(text_of(ops_of("T0 : " + std::string(text))), text) << "the first thread";
    }
    EXPECT_EQ(text_of(ops_of("b0 = malloc(1) link 1; T1: free(b0) link 2; purge();", "links kept\n")),
              "b0 = malloc(1) link 1;T1: free(b0) link 2;purge();");
    const OpList ops = ops_of("repeat 1000000 step 255 { free(b0); repeat 0 step 0 { } } check(b2);");
    EXPECT_EQ(op_size(ops[0]), 1'000'000u);
    EXPECT_EQ(ops[0].arg, 255u);
    EXPECT_EQ(ops[0].slot, 2u);
    EXPECT_EQ(ops[2].slot, 0u);
    EXPECT_EQ(op_print(ops[3]), "check(b2);");
}

TEST(OpText, SettingsAtTheirLimits)
{
    const auto parsed = [](const std::string &text) {
        Program program;
        program.allocator = "of the program before";
        EXPECT_EQ(program_parse(text, program), "") << text.substr(0, 80);
        return program;
    };
    EXPECT_EQ(parsed("").threads, 1u);
    EXPECT_EQ(parsed("").allocator, "");
    EXPECT_EQ(parsed("purge();").threads, 1u);
    EXPECT_EQ(parsed("check(b0);").threads, 1u);
    EXPECT_EQ(parsed("T4: purge(); T2: purge();").threads, 5u);
    EXPECT_EQ(parsed("threads 1024").threads, 1024u);
    EXPECT_EQ(parsed("threads 7 T2: purge();").threads, 7u);
    EXPECT_EQ(parsed("laps 1000").laps, 1000u);
    EXPECT_EQ(parsed("laps 1").laps, 1u);
    EXPECT_EQ(parsed("ops 9007199254740992").ops_limit, kProgramOpsLimitMax);
    EXPECT_EQ(parsed("seed 18446744073709551615").seed, UINT64_MAX);
    EXPECT_EQ(parsed("schedule os").schedule, Schedule::Os);
    EXPECT_EQ(parsed("schedule seeded").schedule, Schedule::Seeded);
    EXPECT_TRUE(parsed("check yes").check);
    EXPECT_FALSE(parsed("check no").check);
    EXPECT_FALSE(parsed("").strict.has_value());
    EXPECT_EQ(parsed("strict yes").strict, std::optional<bool>(true));
    EXPECT_EQ(parsed("strict no").strict, std::optional<bool>(false));
    EXPECT_FALSE(parsed("").links_kept);
    EXPECT_TRUE(parsed("links kept").links_kept);
    EXPECT_EQ(parsed("expect " + std::string(60, 'r')).rule, std::string(60, 'r'));
    EXPECT_EQ(parsed("allocator " + std::string(4000, 'a')).allocator, std::string(4000, 'a'));
    EXPECT_EQ(parsed("expect_schedule 0123456789abcdef:" + std::string(42, '0') + "1").expected,
              (ScheduleMark{0x123456789abcdef, 1}));
    for (const char *head : {"# hakmem ops 1", "# hakmem ops 1\n", "# hakmem ops 1 # more\n", "# hakmem op"})
        EXPECT_EQ(parsed(head).ops.size(), 0u) << head;
    EXPECT_EQ(parsed("purge() // to the end\n; # and here").ops.size(), 1u);
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

// The fault of each text that is refused.
TEST(OpText, FaultsNameTheLine)
{
    const std::string links = "links kept\n";
    const std::pair<std::string, std::string> faults[] = {
        {"\n\n\n\n\n\nb0 = malloc(5, 6);", "line 7: expected ')' after the size, found ','"},
        {"b0 = malloc(99999999999999999999);", "line 1: the size is at most 140737488355327, not 99999999999999999999"},
        {"b0 = malloc(140737488355328);", "line 1: the size is at most 140737488355327, not 140737488355328"},
        {"b0 = malloc(SIZE_MAX-140737488355328);",
         "line 1: the number after SIZE_MAX- is at most 140737488355327, not 140737488355328"},
        {"b0 = malloc(5x);", "line 1: expected the size, found '5x'"},
        {"b0 = malloc();", "line 1: expected a size, found ')'"},
        {"b0 = malloc 1;", "line 1: expected '(' after the name, found '1'"},
        {"b0 malloc(1);", "line 1: expected '=' after the block, found 'malloc'"},
        {"b0 = ;", "line 1: expected a call after '=', found ';'"},
        {"b = malloc(1);", "line 1: unknown op 'b'"},
        {"bx = malloc(1);", "line 1: unknown op 'bx'"},
        {"free(b1048576);", "line 1: the number of a block is at most 1048575, not 1048576"},
        {"free();", "line 1: expected a block, found ')'"},
        {"free(c0);", "line 1: expected a block such as b0, found 'c0'"},
        {"free(b0, 1);", "line 1: expected ')' after the block, found ','"},
        {"free(b0)", "line 1: expected ';' after the op, found the end"},
        {"free(b0) linked 1;", "line 1: expected ';' after the op, found 'linked'"},
        {"purge(1);", "line 1: expected ')' after '(', found '1'"},
        {"b0 = free(b0);", "line 1: free gives no block; leave out what is before it"},
        {"malloc(1);", "line 1: malloc gives a block; write b0 = before it"},
        {"b0 = mallok(1);", "line 1: unknown op 'mallok'"},
        {"b0 = repeat(1);", "line 1: unknown op 'repeat'"},
        {"b0 = realloc(b1, 1);", "line 1: expected b0, the block on the left, found b1"},
        {"b0 = realloc(b0);", "line 1: expected ',' after the block, found ')'"},
        {"b0 = calloc(256, 1);", "line 1: the count is at most 255, not 256"},
        {"b0 = calloc(2);", "line 1: expected ',' after the count, found ')'"},
        {"b0 = calloc(, 2);", "line 1: expected the count, found ','"},
        {"b0 = reallocarray(b0, 2);", "line 1: expected ',' after the count, found ')'"},
        {"b0 = aligned_alloc(48, 1);", "line 1: an alignment is a power of two, not 48"},
        {"b0 = memalign(0, 1);", "line 1: an alignment is a power of two, not 0"},
        {"b0 = memalign(2147483648, 1);", "line 1: the alignment is at most 1073741824, not 2147483648"},
        {"b0 = memalign(8);", "line 1: expected ',' after the alignment, found ')'"},
        {"renew(never, 3);", "line 1: unknown way to end a thread: 'never'"},
        {"renew(exit);", "line 1: expected ',' after the way, found ')'"},
        {"renew(exit, 1001);", "line 1: the size is at most 1000, not 1001"},
        {"fork(1);", "line 1: expected ',' after the count, found ')'"},
        {"fail_os(1, never);", "line 1: expected 'forever' after ','"},
        {"fail_os(1, forever, 2);", "line 1: expected ')' after 'forever', found ','"},
        {"sleep_ms(5000);", "line 1: the size is at most 1000, not 5000"},
        {"sleep_ms(SIZE_MAX);", "line 1: expected the size, found 'SIZE_MAX'"},
        {"repeat 2 step 1 {\nfree(b0);\n", "line 3: expected '}' after the body of repeat, found the end"},
        {"repeat 1000001 step 1 { }", "line 1: the number of rounds is at most 1000000, not 1000001"},
        {"repeat 2 steps 1 { }", "line 1: expected 'step' after the number of rounds"},
        {"repeat 2 step 256 { }", "line 1: the step is at most 255, not 256"},
        {"repeat 2 step 1 free(b0);", "line 1: expected '{' after the step, found 'free'"},
        {"free(b0); }", "line 1: expected an op, found '}'"},
        {"T1024: purge();", "line 1: the thread is at most 1023, not 1024"},
        // Of two faults the first is named.
        {"T1024 purge();", "line 1: the thread is at most 1023, not 1024"},
        {"b1048576 malloc(1);", "line 1: the number of a block is at most 1048575, not 1048576"},
        {"T9x: purge();", "line 1: expected the thread, found '9x'"},
        {"free(b9x);", "line 1: expected the number of a block, found '9x'"},
        {"check(b0", "line 1: expected ')' after the block, found the end"},
        {"purge(); check(b0) b1;", "line 1: expected ';' after the op, found 'b1'"},
        {"T1: check b0;", "line 1: expected '(' after the name, found 'b0'"},
        {"purge(); check no", "line 1: 'check' must stand before the first op"},
        {"T1 purge();", "line 1: expected ':' after the thread, found 'purge'"},
        {"T1: ;", "line 1: expected an op, found ';'"},
        {"T1: seed 4", "line 1: unknown op 'seed'"},
        {"T: purge();", "line 1: unknown op 'T'"},
        {"Tx: purge();", "line 1: unknown op 'Tx'"},
        {"threads 2\nT2: purge();", "thread T2 is used, but the file says threads 2"},
        {"threads 0", "line 1: threads must be 1 or more"},
        {"threads 1025", "line 1: a number of threads is at most 1024, not 1025"},
        {"laps 0", "line 1: laps must be 1 or more"},
        {"laps 1001", "line 1: the number of laps is at most 1000, not 1001"},
        {"ops 9007199254740993", "line 1: the number of ops is at most 9007199254740992, not 9007199254740993"},
        {"seed", "line 1: expected the seed, found the end"},
        {"seed 18446744073709551616", "line 1: the seed is at most 18446744073709551615, not 18446744073709551616"},
        {"schedule never", "line 1: expected seeded or os, found 'never'"},
        {"check perhaps", "line 1: expected yes or no, found 'perhaps'"},
        {"strict perhaps", "line 1: expected yes or no, found 'perhaps'"},
        {"links lost", "line 1: expected 'kept' after 'links'"},
        {"expect ;", "line 1: expected the name of a rule, found ';'"},
        {"expect " + std::string(61, 'r'), "line 1: the name of a rule is too long: '" + std::string(24, 'r') + "...'"},
        {"allocator \t \n", "line 1: expected the name of the allocator"},
        {"allocator " + std::string(4001, 'a'), "line 1: expected the name of the allocator"},
        {"allocator a\x1f", "line 1: the name of the allocator has control characters"},
        {"purge();\nseed 3", "line 2: 'seed' must stand before the first op"},
        {"free(b0) link 1;", "line 1: a link needs the line 'links kept' before the first op"},
        {links + "free(b0) link 0;", "line 2: a link counts from 1, on an op with a block"},
        {links + "purge() link 1;", "line 2: a link counts from 1, on an op with a block"},
        {links + "free(b0) link 65536;", "line 2: the link is at most 65535, not 65536"},
        {links + "repeat 1 step 0 { }", "op 1: links are kept, so nothing can be repeated"},
        {links + "purge(); free(b0) link 2; free(b1);", "op 3: it follows an op of its thread whose turn never comes"},
        {links + "free(b0) link 2; T1: free(b1);", "op 2: it follows ops whose turn never comes"},
        {links + "free(b0) link 2; T1: purge();", "op 2: it follows ops whose turn never comes"},
        {links + "free(b0); T1: free(b0);", "op 2: its slot changes the thread without a link"},
        {links + "free(b0) link 1; T1: free(b0);", "op 2: its slot changes the thread without a link"},
        {links + "free(b0); T1: free(b0) link 1;", "op 2: its slot changes the thread without a link"},
        {"# hakmem ops 2\n", "line 1: this is not version 1 of the format; use the program that wrote it"},
        {"# hakmem ops 12", "line 1: this is not version 1 of the format; use the program that wrote it"},
        {"# hakmem ops 1_", "line 1: this is not version 1 of the format; use the program that wrote it"},
        {"# hakmem ops ", "line 1: this is not version 1 of the format; use the program that wrote it"},
        {"free(b0);\n\x01", "line 2: expected an op, found byte 1"},
        {"\x7f", "line 1: expected an op, found byte 127"},
        {"/ purge();", "line 1: expected an op, found '/'"},
        {"purge(); /", "line 1: expected an op, found '/'"},
        {std::string(24, 'x'), "line 1: unknown op '" + std::string(24, 'x') + "'"},
        {std::string(10'000'000, 'x'), "line 1: unknown op '" + std::string(24, 'x') + "...'"},
        {"b0 = malloc(" + std::string(10'000'000, '9') + ");",
         "line 1: the size is at most 140737488355327, not " + std::string(24, '9') + "..."},
    };
    for (const auto &[text, fault] : faults) {
        Program program;
        EXPECT_EQ(program_parse(text, program), fault) << text.substr(0, 80);
    }
    for (const std::string bad : {"nothing", "123", "123456789abcdef0:", "123456789abcdef0:x", "123456789abcdef0:1x",
                                  "123456789abcdex0:1", "123456789abcdef01:1"}) {
        Program program;
        EXPECT_EQ(program_parse("expect_schedule " + bad + "\n", program),
                  "line 1: expected HASH:CLOCK, 16 hexadecimal digits and a number, found '" + bad + "'");
    }
    Program program;
    EXPECT_EQ(program_parse("expect_schedule 123456789abcdef0:99999999999999999999\n", program),
              "line 1: expected HASH:CLOCK, 16 hexadecimal digits and a number, found '123456789abcdef0:9999999...'");
    EXPECT_EQ(program_parse("expect_schedule 123456789abcdef0:" + std::string(44, '0') + "\n", program),
              "line 1: expected HASH:CLOCK, 16 hexadecimal digits and a number, found '123456789abcdef0:0000000...'");
}

TEST(OpText, AFileHasALimit)
{
    Program program;
    EXPECT_EQ(program_parse("purge();", program, 0), "line 1: more than 0 ops; split the file");
    EXPECT_EQ(program_parse("repeat 1 step 1 {\n}\ncheck(b0);\n", program, 2), "");
    EXPECT_EQ(program_parse("purge();\ncheck(b0);\ncheck(b0);", program, 2), "line 3: more than 2 ops; split the file");
}

}  // namespace
}  // namespace stress

#include "program/program_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "engine/base/rng.h"
#include "program/ops_for_test.h"

namespace stress {
namespace {

Bytes bytes_of(const Text &text)
{
    return {reinterpret_cast<const unsigned char *>(text.data()), text.size()};
}

Program sample(std::size_t kind_count = kOpKindCount)
{
    Program program;
    program.threads = 3;
    program.seed = 7;
    program.laps = 4;
    program.ops_limit = 12;
    program.strict = true;
    program.rule = "overlap";
    program.allocator = "/some/lib.so";
    program.expected = {5, 6};
    for (std::size_t i = 0; i < 50; ++i) {
        Op op = op_normalise(op_make(static_cast<OpKind>(i % kind_count), static_cast<std::uint32_t>(i), i * 3, 3));
        op.thread = static_cast<std::uint16_t>(i % 3);
        program.ops.push_back(op);
    }
    repeats_clamp(program.ops);
    return program;
}

void expect_equal(const Program &a, const Program &b)
{
    EXPECT_EQ(a.threads, b.threads);
    EXPECT_EQ(a.seed, b.seed);
    EXPECT_EQ(a.schedule, b.schedule);
    EXPECT_EQ(a.check, b.check);
    EXPECT_EQ(a.links_kept, b.links_kept);
    EXPECT_EQ(a.laps, b.laps);
    EXPECT_EQ(a.ops_limit, b.ops_limit);
    EXPECT_EQ(a.strict, b.strict);
    EXPECT_EQ(a.rule, b.rule);
    EXPECT_EQ(a.allocator, b.allocator);
    EXPECT_EQ(a.expected, b.expected);
    ASSERT_EQ(a.ops.size(), b.ops.size());
    EXPECT_EQ(std::memcmp(a.ops.data(), b.ops.data(), a.ops.size() * sizeof(Op)), 0);
}

TEST(Binary, WhatIsEncodedDecodesBack)
{
    Program again;
    ASSERT_EQ(program_decode(bytes_of(program_encode(sample())), again), "");
    expect_equal(sample(), again);
    const Program tolerant = program_decode_bytes(bytes_of(program_encode(sample())));
    EXPECT_EQ(tolerant.ops.size(), 50u);
    EXPECT_EQ(tolerant.threads, sample().threads);
    EXPECT_EQ(tolerant.seed, sample().seed);
    EXPECT_EQ(tolerant.laps, sample().laps);
}

// Each setting at both ends, apart from the others. A tolerant reader takes what a strict one does.
TEST(Binary, EachSettingDecodesBack)
{
    void (*const changes[])(Program &) = {
        [](Program &program) { program.threads = 1; },
        [](Program &program) { program.threads = kOpThreadsMax; },
        [](Program &program) { program.seed = UINT64_MAX; },
        [](Program &program) { program.schedule = Schedule::Os; },
        [](Program &program) { program.check = false; },
        [](Program &program) { program.strict = true; },
        [](Program &program) { program.strict = false; },
        [](Program &program) { program.laps = 1000; },
        [](Program &program) { program.ops_limit = kProgramOpsLimitMax; },
        [](Program &program) { program.links_kept = true; },
        [](Program &program) { program.expected = {1, 0}; },
        [](Program &program) { program.expected = {0, 1}; },
        [](Program &program) { program.rule = " "; },
        [](Program &program) { program.allocator = "\xff"; },
        [](Program &program) { program.ops = {op_make(OpKind::Free, kOpSlotsMax - 1)}; },
        [](Program &program) {
            program.links_kept = true;
            program.ops = {op_make(OpKind::Free, 1, 0, 0, 1)};
        },
    };
    for (const auto &change : changes) {
        SCOPED_TRACE(&change - changes);
        Program program, again;
        change(program);
        const Text file = program_encode(program);
        ASSERT_EQ(program_decode(bytes_of(file), again), "");
        expect_equal(program, again);
        Program tolerant = program_decode_bytes(bytes_of(file));
        tolerant.rule = program.rule; // which a fuzzer does not need
        tolerant.allocator = program.allocator;
        expect_equal(program, tolerant);
    }
}

// What the checksum cannot see, since the writer made it so.
TEST(Binary, EachValueOutOfRangeIsRefused)
{
    const std::string settings = "is corrupt: threads, laps or ops are out of range",
                      op = "is corrupt: an op is out of range";
    const std::pair<void (*)(Program &), std::string> faults[] = {
        {[](Program &program) { program.threads = 0; }, settings},
        {[](Program &program) { program.threads = kOpThreadsMax + 1; }, settings},
        {[](Program &program) { program.laps = 0; }, settings},
        {[](Program &program) { program.laps = 1001; }, settings},
        {[](Program &program) { program.ops_limit = kProgramOpsLimitMax + 1; }, settings},
        {[](Program &program) { program.rule = "a\x1f"; }, "is corrupt: its names are garbled"},
        {[](Program &program) { program.rule = std::string("a\0b", 3); }, "is corrupt: its names are garbled"},
        {[](Program &program) { program.ops[1].thread = 2; }, op},
        {[](Program &program) { program.ops[1].link = 1; }, op},
        {[](Program &program) { program.ops[1].kind = static_cast<OpKind>(kOpKindCount); }, op},
        {[](Program &program) { program.ops[1].slot = kOpSlotsMax; }, op},
        {[](Program &program) { program.ops[1] = op_make(OpKind::Malloc, 0, 0, 1); }, op},
        {[](Program &program) { program.ops[1] = op_make(OpKind::Memalign, 0, 0, kOpAlignLog2Max + 1); }, op},
        {[](Program &program) { program.ops[1] = op_make(OpKind::Renew, 0, 0, kRenewHowCount); }, op},
        {[](Program &program) { program.ops[1] = op_make(OpKind::FailOs, 0, 0, 2); }, op},
        {[](Program &program) { program.ops[1] = op_make(OpKind::Purge, 1); }, op},
        {[](Program &program) { program.ops[1] = op_make(OpKind::Sleep, 0, 1001); }, op},
        {[](Program &program) { program.ops[1] = op_make(OpKind::Repeat, 1, 1); },
         "is corrupt: the repeat at op 2 is longer than what follows it"},
        {[](Program &program) {
             program.links_kept = true;
             program.ops[1] = op_make(OpKind::Purge, 0, 0, 0, 1);
         },
         op},
        {[](Program &program) {
             program.links_kept = true;
             program.ops[1] = op_make(OpKind::Repeat, 0, 1);
         },
         "is corrupt: op 2: links are kept, so nothing can be repeated"},
    };
    for (const auto &[change, fault] : faults) {
        Program program, again;
        program.threads = 2;
        program.ops = {op_make(OpKind::Free, 0), op_make(OpKind::Free, 1)};
        change(program);
        EXPECT_EQ(program_decode(bytes_of(program_encode(program)), again), fault) << fault;
    }
    Program again;
    for (const std::size_t kinds : {std::size_t{0}, kOpKindCount + 1})
        EXPECT_EQ(program_decode(bytes_of(program_encode(Program(), kinds)), again),
                  "has " + std::to_string(kinds) + " kinds of op, and this program knows " +
                      std::to_string(kOpKindCount) + "; use the program that wrote it");
    Text file = program_encode(Program());
    file.push_back('x');
    EXPECT_EQ(program_decode(bytes_of(file), again), "has bytes too many: 67 instead of 66");
    EXPECT_EQ(program_decode(bytes_of(file).first(65), again), "is truncated: 65 instead of 66");
    EXPECT_EQ(program_decode(bytes_of(file).first(63), again), "is truncated: it has 63 bytes");
    file[8] = 3;
    EXPECT_EQ(program_decode(bytes_of(file), again), "is of version 3, and this program reads version 1");
}

// Files that an earlier build wrote must stay readable, so the bytes of a file are part of the format.
TEST(Binary, TheBytesOfAFile)
{
    Program program;
    program.threads = 0x0302;
    program.seed = 0x0b0a090807060504;
    program.strict = true;
    program.laps = 7;
    program.rule = "r";
    program.allocator = "al";
    program.expected = {0x1122334455667788, 0x99};
    program.ops_limit = 0x55;
    program.ops = {on_thread(op_make(OpKind::Calloc, 0x0d0c, 0x10, 3), 1)};
    const Text file = program_encode(program, 25);
    std::string hex;
    for (const char c : file) {
        constexpr char digits[] = "0123456789abcdef";
        hex += digits[static_cast<unsigned char>(c) >> 4];
        hex += digits[c & 15];
    }
    EXPECT_EQ(hex, "8948414b4f50530a" // magic
                   "01190f0002030700" // version, kinds, flags, threads, laps
                   "0100000005000000" // ops, bytes of names
                   "0405060708090a0b88776655443322119900000000000000" // seed, hash and clock
                   "55000000000000003da81c270fb6bb2e" // limit of ops, checksum
                   "7200616c00" // names
                   "03030100"
                   "0c0d0000"
                   "100000000000"
                   "0000");
}

// A file from a time when there were fewer kinds.
TEST(Binary, KindsAddedAtTheEndLeaveOldFilesAlone)
{
    for (std::size_t kinds = 1; kinds <= kOpKindCount; ++kinds) {
        const Text file = program_encode(sample(kinds), kinds);
        Program again;
        ASSERT_EQ(program_decode(bytes_of(file), again), "") << kinds;
        expect_equal(sample(kinds), again);
        // Fuzzer bytes in such a file are folded as they were then.
        Text garbage = file;
        garbage.resize(garbage.size() + 160, '\x7f');
        for (const Op &op : program_decode_bytes(bytes_of(garbage)).ops)
            ASSERT_LT(static_cast<std::size_t>(op.kind), kinds);
    }
}

TEST(Binary, EveryBitThatFlipsIsSeen)
{
    const Text file = program_encode(sample());
    for (std::size_t i = 0; i < file.size(); ++i)
        for (int bit = 0; bit < 8; ++bit) {
            Text broken = file;
            broken[i] = static_cast<char>(broken[i] ^ (1 << bit));
            Program program;
            if (i < 8) continue;  // the file is then no longer in this format
            EXPECT_NE(program_decode(bytes_of(broken), program), "") << "byte " << i << " bit " << bit;
        }
}

TEST(Binary, EveryTruncationIsSeen)
{
    const Text file = program_encode(sample());
    for (std::size_t size = 8; size < file.size(); ++size) {
        Program program;
        EXPECT_NE(program_decode(bytes_of(file).first(size), program).find("truncated"), std::string::npos) << size;
    }
}

TEST(DecodeBytes, TakesAnything)
{
    Rng rng(1, 0);
    for (int round = 0; round < 2000; ++round) {
        Text bytes(rng.below(400));
        for (char &byte : bytes) byte = static_cast<char>(rng.next());
        if (round % 2 == 0) {
            const Text head = program_encode(sample());
            std::copy_n(head.begin(), std::min<std::size_t>(bytes.size(), 64 - static_cast<std::size_t>(round % 5)),
                        bytes.begin());
        }
        const Program program = program_decode_bytes(bytes_of(bytes));
        ASSERT_GE(program.threads, 1u);
        std::string note;
        for (const Op &op : program.ops) {
            ASSERT_LT(op.thread, program.threads);
            ASSERT_LT(static_cast<std::size_t>(op.kind), kOpKindCount);
        }
        if (program.links_kept) ASSERT_EQ(links_fault(program.ops, program.threads), "");
    }
    const unsigned char partial[17] = {};
    EXPECT_EQ(program_decode_bytes(partial).ops.size(), 1u);
    EXPECT_EQ(program_decode_bytes(partial).threads, 4u);
}

// Settings out of range are folded into range, and links without an order are dropped.
TEST(DecodeBytes, FoldsTheHeadOfAFile)
{
    Program program;
    program.threads = program.laps = 0;
    program.ops_limit = kProgramOpsLimitMax + 3;
    program.links_kept = true;
    program.ops = {op_make(OpKind::Free, 0, 0, 0, 3), op_make(OpKind::Free, 1), op_make(OpKind::Malloc, 0, 5)};
    Text file = program_encode(program, 1);
    Program folded = program_decode_bytes(bytes_of(file));
    EXPECT_EQ(folded.threads, kOpThreadsMax);
    EXPECT_EQ(folded.laps, UINT32_MAX % 1000 + 1);
    EXPECT_EQ(folded.ops_limit, 2u);
    EXPECT_FALSE(folded.links_kept);
    ASSERT_EQ(folded.ops.size(), 3u);
    for (const Op &op : folded.ops) EXPECT_TRUE(op.kind == OpKind::Malloc && op.link == 0);
    file[9] = kOpKindCount + 1; // more kinds than there are: all of ours
    EXPECT_EQ(program_decode_bytes(bytes_of(file)).ops[0].kind, OpKind::Free);
    EXPECT_EQ(program_decode_bytes(bytes_of(file).first(64)).ops.size(), 0u);
    EXPECT_EQ(program_decode_bytes(bytes_of(file).first(65)).ops.size(), 0u) << "in the names";
    EXPECT_EQ(program_decode_bytes(bytes_of(file).first(63)).threads, 4u) << "not a file: bytes of ops";
    EXPECT_EQ(program_decode_bytes(bytes_of(file).first(63)).ops.size(), 3u);
    program = Program();
    program.ops = {op_make(OpKind::Repeat, 9, 2), op_make(OpKind::Repeat, 9, 2), op_make(OpKind::Free, 0)};
    folded = program_decode_bytes(bytes_of(program_encode(program)));
    EXPECT_EQ(folded.ops[0].slot, 2u);
    EXPECT_EQ(folded.ops[1].slot, 1u);
}

TEST(DecodeBytes, AMillionOps)
{
    Text bytes(16'000'000);
    Rng rng(2, 0);
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        const std::uint64_t word = rng.next();
        std::memcpy(bytes.data() + i, &word, 8);
    }
    const auto start = std::chrono::steady_clock::now();
    const Program program = program_decode_bytes(bytes_of(bytes));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(program.ops.size(), 1'000'000u);
    RecordProperty("seconds", std::to_string(seconds.count()));  // told, not judged
}

class Files : public testing::Test {
  protected:
    std::string path = testing::TempDir() + "hakmem-stress-ops-" + std::to_string(getpid());
    ~Files() override
    {
        unlink(path.c_str());
        rmdir(path.c_str());
    }

    void expect_fault(const std::string &text)
    {
        Program program;
        const std::string fault = program_read(path, program);
        EXPECT_NE(fault.find(path), std::string::npos) << fault;
        EXPECT_NE(fault.find(text), std::string::npos) << fault;
        EXPECT_EQ(fault.find('\n'), std::string::npos) << fault;
    }
};

TEST_F(Files, TextAndBinaryAreToldApart)
{
    for (const Text &content : {program_encode(sample()), program_print(sample())}) {
        ASSERT_EQ(program_write(path, content), "");
        Program again;
        ASSERT_EQ(program_read(path, again), "");
        expect_equal(sample(), again);
    }
}

TEST_F(Files, WhatCannotBeReadIsRefused)
{
    expect_fault("No such file");
    ASSERT_EQ(program_write(path, {}), "");
    expect_fault("is empty");
    ASSERT_EQ(truncate(path.c_str(), off_t{1} << 30), 0);
    expect_fault("larger than 256 MiB");
    ASSERT_EQ(truncate(path.c_str(), off_t{kProgramFileBytesMax}), 0);
    expect_fault("line 1: expected an op, found byte 0");
    ASSERT_EQ(truncate(path.c_str(), off_t{kProgramFileBytesMax} + 1), 0);
    expect_fault("larger than 256 MiB");
    const Text garbage(4096, '\xff');
    ASSERT_EQ(program_write(path, garbage), "");
    expect_fault("line 1: expected an op, found byte 255");
    Text truncated = program_encode(sample());
    truncated.resize(truncated.size() - 1);
    ASSERT_EQ(program_write(path, truncated), "");
    expect_fault("is truncated");
    unlink(path.c_str());
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    expect_fault("not an ordinary file");
    unlink(path.c_str());
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    expect_fault("is a directory");
}

TEST_F(Files, UnreadableFileIsRefused)
{
    if (geteuid() == 0) GTEST_SKIP() << "root may read every file";
    ASSERT_EQ(program_write(path, program_encode(sample())), "");
    ASSERT_EQ(chmod(path.c_str(), 0), 0);
    expect_fault("Permission denied");
}

}  // namespace
}  // namespace stress

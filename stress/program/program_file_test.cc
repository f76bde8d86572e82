#include "program/program_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "engine/base/rng.h"

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

// shrink --keep, on a malloc that wastes memory and time on purpose (canary `waste`).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "command/keep.h"
#include "engine/base/file.h"
#include "engine/base/spawn_for_test.h"
#include "program/program_file.h"

namespace stress {
namespace {

using testing::HasSubstr;

TEST(KeepText, IsACostAFactorAndAMalloc)
{
    const std::optional<Keep> keep = keep_parse("rss>1.3x:glibc");
    ASSERT_TRUE(keep.has_value());
    EXPECT_EQ(keep->cost, Cost::Rss);
    EXPECT_EQ(keep->factor, 1.3);
    EXPECT_EQ(keep->allocator, "system");
    EXPECT_EQ(keep_parse("syscalls>2x:/a/b.so")->allocator, "/a/b.so");
    for (const char *text : {"", "rss", "rss>x:glibc", "rss>0.5x:glibc", "rss>1.3:glibc", "rss>1.3x:", "space>2x:glibc",
                             "rss>1.3y:glibc", "x:>rss"})
        EXPECT_FALSE(keep_parse(text).has_value()) << text;
}

TEST(KeepText, InstructionsAreThoseOfTheLibrary)
{
    const std::string text =
        "positions: line\nevents: Ir\n\nob=/a/m.so\nfl=???\nfn=malloc\n0 7\ncob=/usr/lib/libc.so.6\n"
        "cfn=memset\ncalls=1 0 \n0 1000\n0 3\n\nob=/usr/lib/libc.so.6\nfn=memset\n5 900\n0 100\n\n"
        "ob=/a/m.so\nfn=free\n12 20\n";
    EXPECT_EQ(callgrind_instructions(text, "/a/m.so"), 30u);
    EXPECT_EQ(callgrind_instructions(text, ""), 1000u);
    EXPECT_EQ(callgrind_instructions(text, "/a/m"), 0u);
    EXPECT_EQ(callgrind_instructions("", "/a/m.so"), 0u);
}

class ShrinkKeep : public testing::Test {
  protected:
    std::string directory = testing::TempDir() + "hakmem-keep-" + std::to_string(getpid());
    std::string waste = canary_directory() + "/libcanary-waste.so";

    ShrinkKeep() { mkdir(directory.c_str(), 0700); }
    ~ShrinkKeep() override
    {
        for (const std::string &name : directory_names(directory)) unlink((directory + "/" + name).c_str());
        rmdir(directory.c_str());
    }
};

// Blocks of 3000 bytes take 4500 on the canary; among many others, and some hand-overs, it must find them.
TEST_F(ShrinkKeep, FindsTheSizesThatWasteMemory)
{
    Program program;
    program.threads = 2;
    program.schedule = Schedule::Os;
    for (std::uint32_t i = 0; i < 4'000; ++i) {
        Op op = op_make(OpKind::Malloc, i, i % 3 == 0 ? 3000 : 40 + i % 7);
        op.thread = i % 100 == 0;
        program.ops.push_back(op);
    }
    ASSERT_EQ(program_write(directory + "/a.ops", program_encode(program)), "");
    const SpawnResult result = spawn_stress({"shrink", directory + "/a.ops", "--allocator", waste, "--keep",
                                             "rss>1.2x:system", "-o", directory, "--name", "small", "--seconds", "30"});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    Program small;
    ASSERT_EQ(program_read(directory + "/small.txt", small), "");
    EXPECT_LE(small.ops.size(), 4u) << result.out;
    EXPECT_TRUE(std::any_of(small.ops.begin(), small.ops.end(), [](const Op &op) {
        return op.kind == OpKind::Malloc && op_size(op) >= 2000 && op_size(op) < 4000;
    })) << result.out;
}

TEST_F(ShrinkKeep, SaysThatThereIsNothingToKeep)
{
    ASSERT_EQ(file_replace(directory + "/a.txt", "# hakmem ops 1\nb0 = malloc(10);\n"), "");
    for (const char *cost : {"rss", "time", "faults", "syscalls"}) {
        const SpawnResult result = spawn_stress({"shrink", directory + "/a.txt", "--allocator", "system", "--keep",
                                                 std::string(cost) + ">5x:system", "-o", directory});
        EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
        EXPECT_THAT(result.out, testing::ContainsRegex("nothing to shrink: .*: the cost is .*, and one below .* counts "
                                                       "as none\n"));
    }
    // The canary only passes the calls on.
    const std::string spaced = directory + "/the malloc.so"; // LD_PRELOAD takes a link to it
    std::filesystem::copy_file(waste, spaced);
    ASSERT_EQ(file_replace(directory + "/b.txt", "# hakmem ops 1\nrepeat 1000 step 1 { b0 = malloc(10); free(b0); }\n"),
              "");
    const SpawnResult counted = spawn_stress(
        {"shrink", directory + "/b.txt", "--allocator", spaced, "--keep", "instructions>1x:system", "-o", directory});
    EXPECT_EQ(counted.exit_code, 1) << counted.out << counted.err;
    EXPECT_THAT(counted.out,
                testing::ContainsRegex("the cost is [1-4][0-9]{4} instructions against [0-9]{5,6} instructions"));
    const SpawnResult bad = spawn_stress({"shrink", directory + "/a.txt", "--keep", "rss>2x"});
    EXPECT_EQ(bad.exit_code, 2);
    EXPECT_THAT(bad.err, HasSubstr("must be like 'rss>1.3x:glibc'"));
}

} // namespace
} // namespace stress

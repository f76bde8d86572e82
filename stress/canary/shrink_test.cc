// A planted bug found by a long run must shrink to a few ops. Each canary whose bug shows in single calls is recorded
// as it fails, shrunk, and run again from the shrunk file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ostream>

#include "engine/base/spawn_for_test.h"
#include "program/program_file.h"

namespace stress {
namespace {

using testing::HasSubstr;

struct ShrinkBug {
    const char *bug;
    const char *rule;
    std::vector<std::string> more = {};
    const char *scenario = "random-mixed";
    const char *ops = "200000";
    const char *seconds = "300";  // each try waits for memory to come back, so simplifying gets a time limit
};

void PrintTo(const ShrinkBug &canary, std::ostream *out)
{
    *out << canary.bug;
}

class Shrink : public testing::TestWithParam<ShrinkBug> {
  protected:
    std::string directory = testing::TempDir() + "hakmem-stress-shrink-" + std::to_string(getpid());
    std::string recorded = directory + "/recorded.ops", shrunk = directory + "/small.ops";
    std::string allocator = canary_directory() + "/libcanary-" + GetParam().bug + ".so";

    Shrink() { mkdir(directory.c_str(), 0700); }
    ~Shrink() override
    {
        for (const char *name : {"/recorded.ops", "/small.ops", "/small.txt"}) unlink((directory + name).c_str());
        rmdir(directory.c_str());
    }
};

// Recorded under the seeded schedule; otherwise the bug would strike elsewhere in the replay.
TEST_P(Shrink, LeavesAtMostSixOpsThatFailByTheSameRule)
{
    std::vector<std::string> record = {"record",     "-o",        recorded, GetParam().scenario, "--allocator",
                                       allocator,    "--strict",  "--ops",  GetParam().ops,      "--seed",
                                       "42",         "--threads", "2",      "--watchdog",        "0.3",
                                       "--schedule", "seeded"};
    record.insert(record.end(), GetParam().more.begin(), GetParam().more.end());
    const SpawnResult failing = spawn_stress(record);
    ASSERT_TRUE(failing.exit_code == 1 || failing.exit_code == -1) << failing.out << failing.err;

    const SpawnResult shrink = spawn_stress({"shrink", recorded, "--allocator", allocator, "--strict", "-o", directory,
                                             "--name", "small", "--seconds", GetParam().seconds});
    ASSERT_EQ(shrink.exit_code, 0) << shrink.out << shrink.err;

    // A repeat counts as one, and so does each op of its body.
    Program program;
    ASSERT_EQ(program_read(shrunk, program), "");
    EXPECT_LE(program.ops.size(), 6u) << shrink.out;

    const SpawnResult again =
        spawn_stress({"run", shrunk, "--allocator", allocator, "--strict", "--watchdog", "0.3", "--json", "-"});
    EXPECT_NE(again.exit_code, 0);
    EXPECT_THAT(again.out, HasSubstr(std::string("\"rule\": \"") + GetParam().rule + "\"")) << again.err;
}

INSTANTIATE_TEST_SUITE_P(
    Canary, Shrink,
    testing::Values(ShrinkBug{"overlap", "overlap"}, ShrinkBug{"double_handout", "overlap"},
                    ShrinkBug{"misaligned", "alignment"}, ShrinkBug{"aligned_alloc", "alignment"},
                    ShrinkBug{"aligned_large", "alignment", {"--max-size", "100000"}}, ShrinkBug{"content", "content"},
                    ShrinkBug{"header", "content"}, ShrinkBug{"realloc_content", "realloc_content"},
                    ShrinkBug{"realloc_shrink", "realloc_content"}, ShrinkBug{"calloc_zero", "calloc_zero"},
                    ShrinkBug{"calloc_dirty", "calloc_zero"}, ShrinkBug{"usable_size", "usable_size"},
                    ShrinkBug{"errno", "errno_kept"}, ShrinkBug{"exhausted", "exhausted"}, ShrinkBug{"crash", "crash"},
                    ShrinkBug{"deadlock", "progress"},
                    ShrinkBug{"lost_remote", "memory_return", {}, "remote-free", "200000", "50"},
                    ShrinkBug{"retain",
                              "memory_return",
                              {"--min-size", "1024", "--max-size", "65536", "--working-set", "4096"},
                              "random-mixed",
                              "40000",
                              "40"}),
    [](const auto &tested) { return std::string(tested.param.bug); });

}  // namespace
}  // namespace stress

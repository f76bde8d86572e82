// Detection power: each planted bug must be found, by the rule that is meant for it, and the same library
// without a bug must pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "engine/spawn_for_test.h"

namespace stress {
namespace {

using testing::HasSubstr;

struct Canary {
    const char *bug;
    const char *rule;
};

void PrintTo(const Canary &canary, std::ostream *out)
{
    *out << canary.bug;
}

SpawnResult run_on(const std::string &bug, const std::string &scenario, const std::string &threads)
{
    return spawn_stress({scenario, "--allocator", canary_directory() + "/libcanary-" + bug + ".so", "--strict", "--ops",
                         "2000000", "--seed", "42", "--threads", threads, "--json", "-"});
}

class PlantedBug : public testing::TestWithParam<Canary> {};

TEST_P(PlantedBug, IsFoundByItsRule)
{
    const SpawnResult result = run_on(GetParam().bug, "random-mixed", "2");
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(result.out, HasSubstr("\"verdict\": \"fail\""));
    EXPECT_THAT(result.out, HasSubstr(std::string("\"rule\": \"") + GetParam().rule + "\""));
    EXPECT_THAT(result.err, HasSubstr("seed 42; repeat with: "));
}

INSTANTIATE_TEST_SUITE_P(Canary, PlantedBug,
                         testing::Values(Canary{"overlap", "overlap"}, Canary{"misaligned", "alignment"},
                                         Canary{"aligned_alloc", "alignment"}, Canary{"content", "content"},
                                         Canary{"realloc_content", "realloc_content"},
                                         Canary{"calloc_zero", "calloc_zero"}, Canary{"usable_size", "usable_size"},
                                         Canary{"errno", "errno_kept"}, Canary{"enomem", "enomem"},
                                         Canary{"leak", "memory_bound"}, Canary{"exhausted", "exhausted"}),
                         [](const auto &tested) { return std::string(tested.param.bug); });

class CleanCanary : public testing::TestWithParam<const char *> {};

TEST_P(CleanCanary, Passes)
{
    const SpawnResult result = run_on("none", GetParam(), "2");
    EXPECT_EQ(result.exit_code, 0) << result.out;
    EXPECT_THAT(result.out, HasSubstr("\"verdict\": \"pass\""));
}

INSTANTIATE_TEST_SUITE_P(Canary, CleanCanary, testing::Values("larson", "random-mixed", "remote-free"),
                         [](const auto &tested) {
                             std::string name = tested.param;
                             name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
                             return name;
                         });

TEST(Watchdog, EndsAHangWithOneLine)
{
    const SpawnResult result = spawn_stress({"random-mixed", "--allocator", canary_directory() + "/libcanary-hang.so",
                                             "--seed", "42", "--threads", "2", "--watchdog", "0.3"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("watchdog: no op was completed for 0.3 s; ops per thread: 0:"));
    EXPECT_THAT(result.err, HasSubstr("seed 42; repeat with: "));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(Crash, SaysWhichRunItWas)
{
    const SpawnResult result = run_on("crash", "random-mixed", "2");
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("signal SIGABRT; seed 42; repeat with: "));
}

// The other scenarios must see what is theirs to see.
TEST(OtherScenarios, FindAnOverlapAndAGrowingHeap)
{
    for (const char *scenario : {"larson", "remote-free"}) {
        EXPECT_THAT(run_on("overlap", scenario, "2").out, HasSubstr("\"rule\": \"overlap\"")) << scenario;
        EXPECT_THAT(run_on("leak", scenario, "2").out, HasSubstr("\"rule\": \"memory_bound\"")) << scenario;
        EXPECT_THAT(run_on("misaligned", scenario, "2").out, HasSubstr("\"rule\": \"alignment\"")) << scenario;
    }
}

}  // namespace
}  // namespace stress

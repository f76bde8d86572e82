// Injected faults find planted bugs. Each of these mallocs passes if nothing is injected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <ostream>

#include "engine/base/spawn_for_test.h"
#include "engine/subject/fault_os.h"

namespace stress {
namespace {

using testing::HasSubstr;

struct InjectBug {
    const char *bug, *kind, *scenario, *says;
};

void PrintTo(const InjectBug &canary, std::ostream *out)
{
    *out << canary.bug << " by " << canary.kind;
}

SpawnResult inject_bug(const InjectBug &canary, const std::string &bug)
{
    const std::string library = canary_directory() + "/libcanary-" + bug + ".so";
    return spawn_stress({"inject", canary.kind, canary.scenario, "--allocator", library, "--seed", "42", "--watchdog",
                         "3", "--calls", "9"});
}

class InjectCanary : public testing::TestWithParam<InjectBug> {
  protected:
    void SetUp() override
    {
        const std::string why = std::string(GetParam().kind) == "calls" ? fault_os_refusal() : "";
        if (!why.empty()) GTEST_SKIP() << why;
    }
};

TEST_P(InjectCanary, IsFound)
{
    const SpawnResult result = inject_bug(GetParam(), GetParam().bug);
    EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr(GetParam().says));
    EXPECT_THAT(result.out, HasSubstr(std::string("repeat with: hakmem-stress inject ") + GetParam().kind + " " +
                                      GetParam().scenario));
    EXPECT_THAT(result.out, testing::EndsWith("verdict fail\n"));
}

TEST_P(InjectCanary, TheSoundOnePasses)
{
    const SpawnResult result = inject_bug(GetParam(), "none");
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, testing::EndsWith("verdict pass\n"));
}

// The first two show at the very first failure, when the run takes the memory that the malloc has left.
INSTANTIATE_TEST_SUITE_P(InjectCanary, InjectCanary,
                         testing::Values(InjectBug{"oom_crash", "calls", "mid", "failure: crash: "},
                                         InjectBug{"oom_for_ever", "calls", "mid", "failure: thread: "},
                                         InjectBug{"oom_crash", "space", "mid", "failure: crash: "},
                                         InjectBug{"oom_hang", "calls", "mid", "failure: hang: no op was completed"},
                                         InjectBug{"oom_for_ever", "space", "mid", "failure: exhausted: "},
                                         InjectBug{"oom_lost", "calls", "large", "failure: realloc_content: "},
                                         InjectBug{"oom_leak", "calls", "mid", "failure: lost: "},
                                         InjectBug{"oom_leak", "space", "mid", "failure: lost: "}),
                         [](const auto &tested) { return std::string(tested.param.bug) + "_" + tested.param.kind; });

// Runs that a SIGKILL from outside ended prove nothing, and accuse nobody.
TEST(Inject, KilledFromOutsideIsSkipped)
{
    if (const std::string why = fault_os_refusal(); !why.empty()) GTEST_SKIP() << why;
    const std::vector<std::string> runs[] = {{"calls", "mid", "--call", "1", "--for-ever"}, {"space", "mid"}};
    for (std::vector<std::string> words : runs) {
        words.insert(words.begin(), "inject");
        words.insert(words.end(), {"--seed", "42", "--allocator", canary_directory() + "/libcanary-oom_killed.so"});
        const SpawnResult result = spawn_stress(words);
        EXPECT_EQ(result.exit_code, 77) << result.out << result.err;
        EXPECT_THAT(result.out, testing::ContainsRegex("\nmid +skipped: .*[Kk]ill"));
        EXPECT_THAT(result.out, testing::EndsWith("verdict skipped\n"));
    }
}

// A known failure does not fail the command; one that no longer comes does.
TEST(Inject, KnownFailures)
{
    const std::string expect = testing::TempDir() + "/inject-expect", junit = testing::TempDir() + "/inject.xml";
    const auto inject = [&](const std::string &known) {
        std::ofstream(expect) << known;
        return spawn_stress({"inject", "space", "mid", "--allocator", canary_directory() + "/libcanary-oom_lost.so",
                             "--seed", "42", "--expect", expect, "--junit", junit});
    };
    const auto written = [&] {
        std::ifstream file(junit);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    SpawnResult result = inject("large * # of another scenario\n");
    EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
    EXPECT_THAT(written(), HasSubstr("tests=\"1\" failures=\"1\""));
    result = inject("mid * # it is known\n");
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, testing::ContainsRegex("\nmid +known: it is known\n"));
    EXPECT_THAT(written(), HasSubstr("tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"1\""));
    result = inject("mid * # it is known\nmid overlap # mended\n");
    EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("mid no longer fails by overlap"));
    EXPECT_THAT(written(), HasSubstr("tests=\"2\" failures=\"1\""));
}

// Bad input gives one line that says how to correct it.
TEST(Inject, BadInput)
{
    const auto refused = [](const std::vector<std::string> &words, const std::string &says) {
        std::vector<std::string> all{"inject"};
        all.insert(all.end(), words.begin(), words.end());
        const SpawnResult result = spawn_stress(all);
        EXPECT_EQ(result.exit_code, 2) << says;
        EXPECT_THAT(result.err, HasSubstr(says));
        EXPECT_THAT(result.err, testing::EndsWith("; see hakmem-stress inject --help\n"));
    };
    refused({}, "kind is required");
    refused({"rain"}, "must be one of calls, space, signals, not 'rain'");
    refused({"calls", "rain"}, "must be one of larson, ");
    refused({"space", "mid", "--call", "3"}, "--call and --for-ever are for calls; leave them out");
    refused({"calls", "mid", "--for-ever"}, "--for-ever needs --call");
    refused({"signals", "--limit", "3"}, "--limit is for space; leave it out");
    refused({"signals", "--schedule", "os"}, "--schedule is for calls and space, and signals come as the system likes");
    refused({"calls", "--schedule", "rain"}, "must be one of seeded, os, not 'rain'");
    refused({"calls", "--threads", "0"}, "must be a whole number from 1 to 64, not '0'");
}

}  // namespace
}  // namespace stress

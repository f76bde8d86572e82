// What inject prints is what it did: it names a check that cannot be made, a run that met no fault proves nothing, and
// the command printed with a failure fails again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "engine/base/spawn_for_test.h"
#include "engine/subject/fault_os.h"

namespace stress {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string canary(const std::string &bug)
{
    return canary_directory() + "/libcanary-" + bug + ".so";
}

SpawnResult inject(const std::vector<std::string> &words, const std::string &bug, const std::string &first = "")
{
    std::vector<std::string> all{"inject"};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {"--allocator", canary(bug), "--seed", "42"});
    return spawn_stress(all, first);
}

// Runs the first command that is printed with a failure.
SpawnResult repeat(const std::string &out)
{
    const std::string before = "repeat with: hakmem-stress ";
    const std::size_t start = out.find(before);
    if (start == std::string::npos) return {};
    std::istringstream line(out.substr(start + before.size(), out.find('\n', start) - start - before.size()));
    std::vector<std::string> words;
    for (std::string word; line >> word;) words.push_back(word);
    return spawn_stress(words);
}

#define NEEDS_TRAPPED_CALLS() \
    if (const std::string why = fault_os_refusal(); !why.empty()) GTEST_SKIP() << why

TEST(InjectCanaryLoss, IsNotLookedForWithoutBooks)
{
    const SpawnResult result = inject({"space", "mid", "--limit", "12288"}, "none");
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("; not looked at for loss: this malloc has no books to look at (hak_purge and "
                                      "hak_stats_get)\n"));
    EXPECT_THAT(result.out, HasSubstr("1 scenarios, 0 skipped, 1 not looked at for loss: "));
}

// huge asks the system for each block. Blocks of mid may still fit into an arena that a thread made before the limit.
TEST(InjectCanaryLoss, IsNotLookedForUnderTheSystemsScheduler)
{
    const SpawnResult result = inject({"space", "huge", "--limit", "12288", "--schedule", "os"}, "oom_leak");
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr(", under the system's scheduler; not looked at for loss: what libc keeps for "
                                      "threads then differs from run to run\n"));
    EXPECT_THAT(result.out, HasSubstr("1 scenarios, 0 skipped, 1 not looked at for loss: "));
}

// Also where it was not asked for, but a seeded run proves nothing. Whether a request is refused depends on the machine.
TEST(InjectCanaryLoss, SaysSoWhereTheScheduleIsTheSystemsAfterAll)
{
    const SpawnResult result = inject({"space", "signals", "--limit", "12288"}, "oom_leak");
    EXPECT_THAT(result.out, HasSubstr(", under the system's scheduler; not looked at for loss: what libc keeps"))
        << result.err;
}

TEST(InjectCanaryLoss, IsNotLookedForInDlopen)
{
    NEEDS_TRAPPED_CALLS();
    const SpawnResult result = inject({"calls", "dlopen", "--call", "1"}, "oom_leak");
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("; not looked at for loss: libc's loader keeps blocks for each thread that met a "
                                      "library\n"));
}

TEST(InjectCanaryLoss, IsLookedForWhereThereAreBooks)
{
    const SpawnResult result = inject({"space", "mid", "--limit", "12288"}, "oom_leak");
    EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
    EXPECT_THAT(result.out, Not(HasSubstr("; not looked at for loss")));
    EXPECT_THAT(result.out, HasSubstr("1 scenarios, 0 skipped, 0 not looked at for loss: "));
}

TEST(InjectCanaryRepeat, FailsAgain)
{
    NEEDS_TRAPPED_CALLS();
    const SpawnResult first = inject({"calls", "mid", "--calls", "9"}, "oom_leak");
    const SpawnResult again = repeat(first.out);
    EXPECT_EQ(again.exit_code, 1) << first.out << again.out << again.err;
    EXPECT_THAT(again.out, HasSubstr("mid              failure: lost: "));
    EXPECT_THAT(again.out, HasSubstr(", 1 runs, "));
}

TEST(InjectCanaryRepeat, KeepsTheSystemsScheduler)
{
    const SpawnResult first = inject({"space", "mid", "--schedule", "os"}, "oom_for_ever");
    const SpawnResult again = repeat(first.out);
    EXPECT_EQ(again.exit_code, 1) << first.out << again.out << again.err;
    EXPECT_THAT(again.out, HasSubstr("failure: exhausted: "));
    EXPECT_THAT(again.out, HasSubstr(", under the system's scheduler"));
}

// A seeded run with signals proves nothing on a malloc without sync points.
TEST(InjectCanaryRepeat, IsSkippedWithItsReason)
{
    for (const std::vector<std::string> &one : {std::vector<std::string>{"calls", "signals", "--call", "1"},
                                                std::vector<std::string>{"space", "signals", "--limit", "12288"}}) {
        if (one[0] == "calls") NEEDS_TRAPPED_CALLS();
        std::vector<std::string> words = one;
        words.insert(words.end(), {"--schedule", "seeded"});
        const SpawnResult result = inject(words, "none");
        EXPECT_EQ(result.exit_code, 77) << result.out << result.err;
        EXPECT_THAT(result.out, HasSubstr("signals          skipped: "));
    }
}

TEST(InjectCanaryProof, NeedsACallThatComes)
{
    NEEDS_TRAPPED_CALLS();
    const SpawnResult result = inject({"calls", "mid", "--call", "99999"}, "none");
    EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
    EXPECT_THAT(result.out, testing::ContainsRegex("mid              failure: proves_nothing: call 99999 never came: "
                                                   "this run makes [1-9][0-9]*\n"));
}

TEST(InjectCanaryProof, NeedsARequestThatIsRefused)
{
    const SpawnResult result = inject({"space", "mid", "--limit", "1073741824"}, "none");
    EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
    EXPECT_THAT(result.out,
                HasSubstr("mid              failure: proves_nothing: no request was refused where 1073741824"
                          " bytes more could be mapped; give a lower --limit\n"));
}

// Fewer ops are tried where a run makes more calls than asked for, and taken only where they make enough.
TEST(InjectCanaryProof, KeepsTheCallsThatItNeeds)
{
    NEEDS_TRAPPED_CALLS();
    for (const char *scenario : {"mid", "larson"}) {
        const SpawnResult result = inject({"calls", scenario, "--calls", "4"}, "none");
        EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
        EXPECT_THAT(result.out, testing::ContainsRegex(std::string(scenario) + " .* ops, ([4-9]|[1-9][0-9]+) calls, "));
    }
}

// A few TiB less than the run without a limit asks for, since the harness maps some itself.
TEST(InjectCanaryProof, NeedsALimitThatIsSet)
{
    const SpawnResult result = inject({"space", "mid"}, "none", "ulimit -v 60000000000; ");
    EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("mid              failure: proves_nothing: the address space could not be limited"
                                      " to 70368744177664 bytes more than is mapped, errno EINVAL; begin with a higher "
                                      "hard limit (ulimit -Hv)"));
}

} // namespace
} // namespace stress

// What inject prints is what it did: a check that cannot be made is named, and a run that met no fault proves nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/fault_os.h"
#include "engine/spawn_for_test.h"

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

TEST(InjectCanaryLoss, IsNotLookedForInDlopen)
{
    NEEDS_TRAPPED_CALLS();
    const SpawnResult result = inject({"calls", "dlopen", "--calls", "9"}, "oom_leak");
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

TEST(InjectCanaryProof, NeedsARequestThatIsRefused)
{
    const SpawnResult result = inject({"space", "mid", "--limit", "1073741824"}, "none");
    EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("mid              failure: proves_nothing: no request was refused where 1073741824"
                                      " bytes more could be mapped; give a lower --limit\n"));
}

// Some TiB less than the run without a limit asks for; the harness maps some itself.
TEST(InjectCanaryProof, NeedsALimitThatIsSet)
{
    const SpawnResult result = inject({"space", "mid"}, "none", "ulimit -v 60000000000; ");
    EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("mid              failure: proves_nothing: the address space could not be limited"
                                      " to 70368744177664 bytes more than is mapped, errno EINVAL; begin with a higher "
                                      "hard limit (ulimit -Hv)"));
}

}  // namespace
}  // namespace stress

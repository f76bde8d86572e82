// Detection power of the scenarios about threads and the process: each planted bug is found, by what is meant for
// it. The same forwarding without a bug passes (canary_test.cc), and so does libc (process_ops_test.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "engine/fault_os.h"
#include "engine/spawn_for_test.h"

namespace stress {
namespace {

using testing::HasSubstr;

struct Canary {
    const char *bug;
    const char *scenario;
    const char *says;  // on stdout or stderr
};

void PrintTo(const Canary &canary, std::ostream *out)
{
    *out << canary.bug;
}

class ProcessCanary : public testing::TestWithParam<Canary> {};

TEST_P(ProcessCanary, IsFound)
{
    if (std::string(GetParam().scenario) == "oom" && !fault_os_refusal().empty())
        GTEST_SKIP() << fault_os_refusal();
    // Signals come by time: the faster the machine, the more ops it takes to meet some.
    const char *ops = std::string(GetParam().scenario) == "signals" ? "1000000" : "60000";
    const SpawnResult result =
        spawn_stress({GetParam().scenario, "--allocator", canary_directory() + "/libcanary-" + GetParam().bug + ".so",
                      "--strict", "--ops", ops, "--seed", "42", "--threads", "3", "--watchdog", "3"});
    EXPECT_NE(result.exit_code, 0) << result.out;
    EXPECT_THAT(result.out + result.err, HasSubstr(GetParam().says));
    EXPECT_THAT(result.out + result.err, HasSubstr("seed 42; repeat with: "));
}

INSTANTIATE_TEST_SUITE_P(
    Canary, ProcessCanary,
    testing::Values(Canary{"cancel_point", "cancellation",
                           "failure: cancellation: a pending cancellation ended the thread inside the subject"},
                    Canary{"cancel_point", "thread-churn", "failure: cancellation: "},
                    Canary{"fork_hang", "fork", "failure: fork: the child hung for 1000 ms at "},
                    Canary{"fork_crash", "fork", "failure: fork: the child died by SIGABRT at "},
                    Canary{"fork_overlap", "fork", ": overlap: new block "},
                    Canary{"destructor_crash", "tls-destructors", "SIGABRT"},
                    Canary{"destructor_crash", "thread-churn", "SIGABRT"},
                    Canary{"oom_crash", "oom", "SIGSEGV"},
                    Canary{"oom_for_ever", "oom", "failure: exhausted: "},
                    Canary{"oom_lost", "oom", "failure: realloc_content: "},
                    Canary{"deep_stack", "small-stack", "SIGSEGV"},
                    Canary{"own_thread", "signals", "failure: signal: a signal to the process ran its handler on "}),
    [](const auto &tested) {
        std::string name = std::string(tested.param.bug) + "_" + tested.param.scenario;
        for (char &letter : name)
            if (letter == '-') letter = '_';
        return name;
    });

}  // namespace
}  // namespace stress

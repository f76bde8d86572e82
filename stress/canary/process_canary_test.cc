// Detection power of the scenarios about threads and the process: each planted bug is found by the rule that is meant
// for it. The same forwarding without a bug passes (canary_test.cc), and so does libc (process_ops_test.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "engine/base/program.h"
#include "engine/base/spawn_for_test.h"
#include "engine/subject/fault_os.h"

namespace stress {
namespace {

using testing::HasSubstr;

struct ProcessBug {
    const char *bug;
    const char *scenario;
    const char *says;  // on stdout or stderr
};

void PrintTo(const ProcessBug &canary, std::ostream *out)
{
    *out << canary.bug;
}

class ProcessCanary : public testing::TestWithParam<ProcessBug> {};

TEST_P(ProcessCanary, IsFound)
{
    if (std::string(GetParam().scenario) == "oom" && !fault_os_refusal().empty()) GTEST_SKIP() << fault_os_refusal();
    // Signals come at a fixed rate in time, so a faster machine needs more ops to meet some.
    const char *ops = std::string(GetParam().scenario) == "signals" ? "1000000" : "60000";
    // A forked child may idle for a third of the watchdog's time. One that crashes has gdb show its stack, which may have
    // to wait for a processor on a busy machine.
    const char *watchdog = std::string(GetParam().bug) == "fork_crash" ? "60" : "3";
    const SpawnResult result =
        spawn_stress({GetParam().scenario, "--allocator", canary_directory() + "/libcanary-" + GetParam().bug + ".so",
                      "--strict", "--ops", ops, "--seed", "42", "--threads", "3", "--watchdog", watchdog});
    EXPECT_NE(result.exit_code, 0) << result.out;
    EXPECT_THAT(result.out + result.err, HasSubstr(GetParam().says));
    EXPECT_THAT(result.out + result.err, HasSubstr("seed 42; repeat with: "));
    // gdb shows a crash of the process, also one whose calls are trapped as in oom, and a hang of a forked child.
    const bool hangs = std::string(GetParam().bug) == "fork_hang";
    if (program_find({"gdb"}).empty() || (!hangs && !std::string(GetParam().says).starts_with("SIG"))) return;
    EXPECT_THAT(result.err, testing::ContainsRegex(hangs ? "which hangs:\n  thread [0-9]+:\n    #0 "
                                                         : "\n  thread [0-9]+, which crashed:\n    #0 "));
    EXPECT_THAT(result.err, HasSubstr(std::string("libcanary-") + GetParam().bug));
}

INSTANTIATE_TEST_SUITE_P(
    Canary, ProcessCanary,
    testing::Values(
        ProcessBug{"cancel_point", "cancellation",
                   "failure: cancellation: a pending cancellation ended the thread inside the subject"},
        ProcessBug{"cancel_point", "thread-churn", "failure: cancellation: "},
        ProcessBug{"fork_hang", "fork", "failure: fork: the child hangs: used no processor time for 1 s, at "},
        ProcessBug{"fork_crash", "fork", "failure: fork: the child died by SIGABRT at "},
        ProcessBug{"fork_overlap", "fork", ": overlap: new block "},
        ProcessBug{"destructor_crash", "tls-destructors", "SIGABRT"},
        ProcessBug{"destructor_crash", "thread-churn", "SIGABRT"}, ProcessBug{"oom_crash", "oom", "SIGSEGV"},
        ProcessBug{"oom_for_ever", "oom", "failure: exhausted: "},
        ProcessBug{"oom_lost", "oom", "failure: realloc_content: "}, ProcessBug{"deep_stack", "small-stack", "SIGSEGV"},
        ProcessBug{"own_thread", "signals", "failure: signal: a signal to the process ran its handler on "}),
    [](const auto &tested) {
        std::string name = std::string(tested.param.bug) + "_" + tested.param.scenario;
        for (char &letter : name)
            if (letter == '-') letter = '_';
        return name;
    });

} // namespace
} // namespace stress

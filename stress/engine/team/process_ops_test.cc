// Tests that the process ops do what they say, by the counts of a run on libc; that seeded runs repeat; and that a run
// that never met its purpose fails.
#include "engine/team/process_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <unistd.h>

#include <ostream>
#include <regex>

#include "engine/base/build.h"
#include "engine/base/file.h"
#include "engine/base/spawn_for_test.h"
#include "engine/subject/fault_os.h"
#include "engine/team/thread_life.h"

namespace stress {
namespace {

using testing::HasSubstr;

// A number from the JSON result; -1: it is not there.
long long number_in(const SpawnResult &result, const std::string &key)
{
    std::smatch found;
    const std::regex pattern("\"" + key + "\": \"?([0-9a-f]+)");
    if (!std::regex_search(result.out, found, pattern)) return -1;
    return static_cast<long long>(std::stoull(found[1].str(), nullptr, key == "schedule_hash" ? 16 : 10));
}

SpawnResult run(const std::string &scenario, const std::string &allocator, std::vector<std::string> more)
{
    std::vector<std::string> arguments = {scenario,    "--allocator", allocator, "--seed", "5",
                                          "--threads", "3",           "--json",  "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return spawn_stress(arguments);
}

bool is_beside_program(const std::string &file)
{
    return access((canary_directory() + "/../" + file).c_str(), R_OK) == 0;
}

// A subject with sync points, if there is one.
std::string best_subject()
{
    return !kDirect && is_beside_program("libhakmem-validate.so") ? "validate" : "system";
}

struct Count {
    const char *scenario;
    std::vector<std::string> keys;
    const char *ops;
};

void PrintTo(const Count &count, std::ostream *out)
{
    *out << count.scenario;
}

class Counted : public testing::TestWithParam<Count> {};

TEST_P(Counted, IsDone)
{
    const SpawnResult result = run(GetParam().scenario, "system", {"--strict", "--ops", GetParam().ops});
    if (std::string(GetParam().scenario) == "oom" && !fault_os_refusal().empty()) GTEST_SKIP() << fault_os_refusal();
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    for (const std::string &key : GetParam().keys) EXPECT_GT(number_in(result, key), 0) << key;
    EXPECT_GE(number_in(result, "threads_started"), number_in(result, "threads"));
}

INSTANTIATE_TEST_SUITE_P(
    ProcessOps, Counted,
    testing::Values(Count{"thread-churn", {"cancellations", "small_stacks", "destructor_rounds"}, "60000"},
                    Count{"tls-destructors", {"destructor_rounds"}, "20000"},
                    Count{"cancellation", {"cancellations"}, "40000"}, Count{"small-stack", {"small_stacks"}, "40000"},
                    Count{"fork", {"forks", "getlines"}, "10000"},
                    Count{"signals", {"signals", "signals_inside"}, "300000"},
                    Count{"oom", {"fail_os", "os_calls", "os_failures", "limits"}, "20000"},
                    Count{"dlopen", {"plugins"}, "20000"}),
    [](const auto &tested) {
        std::string name = tested.param.scenario;
        for (char &letter : name)
            if (letter == '-') letter = '_';
        return name;
    });

class Repeats : public testing::TestWithParam<const char *> {};

TEST_P(Repeats, UnderTheSeededScheduler)
{
    const SpawnResult first = run(GetParam(), best_subject(), {"--schedule", "seeded"});
    if (std::string(GetParam()) == "oom" && !fault_os_refusal().empty()) GTEST_SKIP() << fault_os_refusal();
    if (std::string(GetParam()) == "signals" && best_subject() != "validate")
        GTEST_SKIP() << "no library with sync points is beside the program";
    const SpawnResult second = run(GetParam(), best_subject(), {"--schedule", "seeded"});
    EXPECT_EQ(first.exit_code, 0) << first.out << first.err;
    EXPECT_EQ(second.exit_code, 0) << second.out << second.err;
    EXPECT_NE(number_in(first, "schedule_hash"), 0);
    EXPECT_EQ(number_in(first, "schedule_hash"), number_in(second, "schedule_hash"));
    EXPECT_EQ(number_in(first, "logical_clock"), number_in(second, "logical_clock"));
}

INSTANTIATE_TEST_SUITE_P(ProcessOps, Repeats,
                         testing::Values("thread-churn", "tls-destructors", "cancellation", "small-stack", "fork",
                                         "signals", "oom", "dlopen"),
                         [](const auto &tested) {
                             std::string name = tested.param;
                             for (char &letter : name)
                                 if (letter == '-') letter = '_';
                             return name;
                         });

// Five ways for a thread to end; each op starts one more thread.
TEST(Renew, StartsASuccessorEachTime)
{
    const SpawnResult result = run("cancellation", "system", {"--ops", "30000"});
    // Each lap starts one thread on each of three seats.
    const long long laps_x_seats = number_in(result, "threads_started") - number_in(result, "cancellations");
    EXPECT_GT(laps_x_seats, 0);
    EXPECT_EQ(laps_x_seats % 3, 0);
    EXPECT_LE(laps_x_seats, 3 * 16);
}

// Runs a file of ops.
SpawnResult run_text(const std::string &text, std::vector<std::string> more = {})
{
    const std::string path = testing::TempDir() + "hakmem-process-ops-" + std::to_string(getpid()) + ".txt";
    EXPECT_EQ(file_replace(path, text), "");
    more.insert(more.begin(), {"run", path, "--allocator", "system"});
    SpawnResult result = spawn_stress(more);
    unlink(path.c_str());
    return result;
}

// The queue of a seat's ended threads has 256 places. It is emptied while another seat waits for this one.
TEST(Renew, MoreThreadsThanCanWaitToBeJoined)
{
    const SpawnResult result =
        run_text("threads 2\nschedule os\nfree(b0);\nrepeat 300 step 0 {\n    T1: renew(return, 0);\n}\n"
                 "T1: b0 = malloc(1);\nfree(b0);\n",
                 {"--watchdog", "5"});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("2 threads (302 started)"));
}

// The stream drops what it still held of that line. The blocks take the memory that the malloc has.
TEST(GetLine, BeginsAgainAfterOneThatWasRefused)
{
    const SpawnResult result = run_text("limit_memory(1);\nrepeat 800 step 1 {\n    b0 = malloc(100000);\n}\n"
                                        "getline(1000000);\nlimit_memory(0);\ngetline(5);\n");
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

TEST(SmallStack, IsTheLeastAndWhatWeNeed)
{
    EXPECT_GE(small_stack_bytes(), static_cast<std::size_t>(PTHREAD_STACK_MIN));
    EXPECT_LE(small_stack_bytes(), static_cast<std::size_t>(PTHREAD_STACK_MIN) + (32 << 10));
}

TEST(DirectedForks, StandInsideTheAllocatorNearlyAlways)
{
    if (best_subject() != "validate") GTEST_SKIP() << "no library with sync points is beside the program";
    const SpawnResult result = run("fork", "validate", {"--ops", "20000"});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_GT(number_in(result, "forks"), 20);
    EXPECT_GT(number_in(result, "forks_directed") * 4, number_in(result, "forks") * 3);
}

// The verdict of process_ops_judge on these figures; empty: no fault.
std::string judged(const ProcessFigures &figures, bool directs_forks)
{
    std::atomic<bool> stop{false};
    FailureLog failures{stop};
    process_ops_judge(figures, {directs_forks, true}, {0, 0}, failures);
    return failures.size() == 0 ? "" : std::string(failures[0].rule) + ": " + failures[0].detail;
}

TEST(ProvesNothing, IsAFailure)
{
    ProcessFigures figures;
    EXPECT_EQ(judged(figures, true), "");
    figures.signals = 100'000;
    EXPECT_THAT(judged(figures, true), HasSubstr("proves_nothing: of 100000 signals none came while"));
    figures.signals_inside = 1;
    EXPECT_EQ(judged(figures, true), "");
    figures.fail_os = 1000;
    figures.os_calls = 700;
    EXPECT_THAT(judged(figures, true), HasSubstr("proves_nothing: of 700 trapped system calls"));
    figures.os_failures = 1;
    EXPECT_EQ(judged(figures, true), "");
    // This program has no sync points, so forks cannot be directed; that is no fault.
    figures.forks = 1000;
    if (!kDirect) EXPECT_EQ(judged(figures, true), "");
}

}  // namespace
}  // namespace stress

// Fake runs that end in every possible way, and the verdict on each.
#include "campaign/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "campaign/judge.h"
#include "campaign/temporary_for_test.h"

namespace stress {
namespace {

using testing::HasSubstr;
using testing::Not;

class Child : public testing::Test {
  protected:
    RunRecord run(const std::string &body, double timeout_seconds = 20)
    {
        const std::vector<std::string> words{"larson", "--seed", "42",          "--allocator",
                                             "hakmem", "--json", kChildJsonPath};
        outcome_ = child_run({temporary_.script("program", body), "hakmem-stress", words, timeout_seconds},
                             [](double, const std::string &) { return true; });
        return judge(outcome_, timeout_seconds);
    }
    void expect_failure(const RunRecord &record, const std::string &rule, const std::string &says)
    {
        EXPECT_EQ(record.verdict, RunVerdict::Fail);
        ASSERT_FALSE(record.failures.empty());
        EXPECT_EQ(record.failures.back().rule, rule);
        EXPECT_THAT(record.failures.back().detail, HasSubstr(says));
    }
    Temporary temporary_;
    ChildOutcome outcome_;
};

TEST_F(Child, Passes)
{
    const RunRecord record = run("echo \"$pass\" >\"$json\"");
    EXPECT_EQ(record.verdict, RunVerdict::Pass) << outcome_.err_last_line;
    EXPECT_EQ(record.ops, 1000u);
    EXPECT_EQ(record.samples.size(), 2u);
    EXPECT_EQ(outcome_.code, 0);
}

TEST_F(Child, FailsWithItsOwnFailures)
{
    const RunRecord record =
        run("echo '{\"verdict\": \"fail\", \"failures\": [{\"rule\": \"overlap\", \"detail\": \"d\"}]}' >\"$json\"; "
            "exit 1");
    expect_failure(record, "overlap", "d");
    EXPECT_EQ(record.failures.size(), 1u);
}

TEST_F(Child, SkipsWithItsReason)
{
    const RunRecord record = run("echo noise; echo 'skipped: no sync points'; exit 77");
    EXPECT_EQ(record.verdict, RunVerdict::Skip);
    EXPECT_EQ(record.skip_reason, "no sync points");
    expect_failure(run("exit 77"), "error", "without a reason");
}

TEST_F(Child, ACrashNamesTheSignalAndTheLastWords)
{
    const RunRecord record = run("echo first >&2; echo 'the last words' >&2; kill -SEGV $$");
    expect_failure(record, "crash", "SIGSEGV");
    expect_failure(record, "crash", "last line of stderr: the last words");
    // A result that was written before the crash does not save the run, but its figures are kept.
    const RunRecord late = run("echo \"$pass\" >\"$json\"; kill -ABRT $$");
    expect_failure(late, "crash", "SIGABRT");
    EXPECT_EQ(late.ops, 1000u);
}

TEST_F(Child, AHangIsKilledWithAllItStarted)
{
    const std::string mark = temporary_.path("grandchild");
    const RunRecord record = run("echo waiting >&2; (sleep 60 & echo $! >'" + mark + "'; wait) & wait", 0.4);
    expect_failure(record, "hang", "the run hangs: used no processor time for 0.4 s");
    expect_failure(record, "hang", "waiting");
    const pid_t grandchild = static_cast<pid_t>(std::atoi(text_of_file(mark).c_str()));
    ASSERT_GT(grandchild, 1);
    // A zombie that nobody reaps still answers to kill(), so look at its state.
    for (int i = 0; i < 100 && kill(grandchild, 0) == 0; ++i) {
        if (text_of_file("/proc/" + std::to_string(grandchild) + "/stat").find(") Z") != std::string::npos) return;
        usleep(20000);
    }
    EXPECT_NE(kill(grandchild, 0), 0);
}

// Works all the time without an end: a busy machine would look the same, so nobody is accused.
TEST_F(Child, ThatWorksForLongIsSlow)
{
    const RunRecord record = run("while :; do :; done", 0.2);
    EXPECT_EQ(record.verdict, RunVerdict::Skip);
    EXPECT_THAT(record.skip_reason,
                testing::HasSubstr("slow: the run did not end in 1.2 s, of which it had a processor"));
    EXPECT_TRUE(record.failures.empty());
}

TEST_F(Child, KilledFromOutsideIsRunAgain)
{
    const std::string tries = temporary_.path("tries"), mark = temporary_.path("mark");
    const RunRecord record = run("echo x >>'" + tries + "'; kill -KILL $$");
    EXPECT_EQ(record.verdict, RunVerdict::Skip);
    EXPECT_THAT(record.skip_reason, HasSubstr("inconclusive: SIGKILL from outside ended each of 3 runs; "));
    EXPECT_EQ(text_of_file(tries), "x\nx\nx\n");
    const RunRecord second =
        run("[ -e '" + mark + "' ] || { touch '" + mark + "'; kill -KILL $$; }; echo \"$pass\" >\"$json\"");
    EXPECT_EQ(second.verdict, RunVerdict::Pass) << outcome_.err_last_line;
}

TEST_F(Child, ThatTakesTooMuchMemoryIsStopped)
{
    const ChildOutcome outcome =
        child_run({temporary_.script("program", "x=$(head -c 100000000 /dev/zero | tr '\\0' x); echo $x"),
                   "hakmem-stress",
                   {"x"},
                   20,
                   std::uint64_t{32} << 20},
                  [](double, const std::string &) { return true; });
    const RunRecord record = judge(outcome, 20);
    expect_failure(record, "memory_cap", "MiB of memory; the cap is 32.0 MiB");
}

TEST_F(Child, OwnWatchdogIsAHang)
{
    expect_failure(run("echo 'hakmem-stress: watchdog: no op was completed for 60 s' >&2; exit 1"), "hang", "watchdog");
}

TEST_F(Child, NoResultIsAnError)
{
    expect_failure(run("exit 0"), "error", "left no result, exit status 0");
    expect_failure(run("echo 'hakmem-stress: bad' >&2; exit 2"), "error", "hakmem-stress: bad");
    expect_failure(run("echo '{\"verdict\": \"pa' >\"$json\"; exit 0"), "error", "cannot be used: no complete JSON");
}

TEST_F(Child, StatusAndVerdictMustAgree)
{
    expect_failure(run("echo \"$pass\" >\"$json\"; exit 1"), "error", "verdict pass, but exit status 1");
    expect_failure(run("echo '{\"verdict\": \"pass\", \"ops\": 0}' >\"$json\""), "error", "did no op");
    for (int status : {0, 2, 3, 76})
        expect_failure(run("echo '{\"verdict\": \"fail\", \"failures\": [{\"rule\": \"overlap\", \"detail\": "
                           "\"d\"}]}' >\"$json\"; exit " +
                           std::to_string(status)),
                       "error", "verdict fail, but exit status " + std::to_string(status));
}

TEST_F(Child, ThatCannotStart)
{
    const ChildOutcome outcome =
        child_run({"/no/such/program", "x", {}, 1}, [](double, const std::string &) { return true; });
    expect_failure(judge(outcome, 1), "error", "No such file");
}

TEST_F(Child, StopsWhenToldTo)
{
    int ticks = 0;
    const ChildOutcome outcome = child_run({temporary_.script("slow", "echo at work; sleep 60"), "x", {"x"}, 60},
                                           [&](double, const std::string &line) {
                                               EXPECT_EQ(line, "at work");
                                               return ++ticks < 2;
                                           });
    EXPECT_EQ(outcome.end, ChildEnd::Interrupted);
}

TEST_F(Child, PrintsMoreThanAPipeHolds)
{
    const RunRecord record = run("i=0; while [ $i -lt 3000 ]; do echo 'a line that fills the pipe up, again and "
                                 "again and "
                                 "again and again' >&2; i=$((i + 1)); done; echo last >&2; echo \"$pass\" >\"$json\"");
    EXPECT_EQ(record.verdict, RunVerdict::Pass);
    EXPECT_EQ(outcome_.err_last_line, "last");
    EXPECT_EQ(outcome_.err_end.size(), std::size_t{64} << 10);
    EXPECT_THAT(outcome_.err_end, testing::EndsWith("again\nlast\n"));
    EXPECT_EQ(record.err_end, "") << "of failed runs alone";
}

TEST_F(Child, AFailedRunKeepsWhatItWroteToStderr)
{
    const RunRecord record = run("echo '#0 in malloc' >&2; echo '#1 in main' >&2; kill -SEGV $$");
    EXPECT_EQ(record.err_end, "#0 in malloc\n#1 in main\n");
    EXPECT_EQ(record_read(record_json(record, "")).err_end, record.err_end);
}

TEST_F(Child, TerminalLinesLoseTheirEscapes)
{
    run("printf 'one\\r\\033[Ktwo\\n' >&2");
    EXPECT_EQ(outcome_.err_last_line, "two");
}

TEST_F(Child, OurOwnPreloadStaysHere)
{
    setenv("HAKMEM_STRESS_SUBJECT", "/no/such/libsubject.so", 1);
    setenv("LD_PRELOAD", "/no/such/libsubject.so:/no/such/other.so", 1);
    const std::string tell = "echo \"${LD_PRELOAD-unset} ${HAKMEM_STRESS_SUBJECT-unset}\"";
    run(tell);
    EXPECT_EQ(outcome_.out_last_line, "/no/such/other.so unset");
    setenv("LD_PRELOAD", "/no/such/libsubject.so", 1);
    run(tell);
    EXPECT_EQ(outcome_.out_last_line, "unset unset");
    setenv("LD_PRELOAD", "/no/such/libsubject.so.other", 1);
    run(tell);
    EXPECT_EQ(outcome_.out_last_line, "/no/such/libsubject.so.other unset");
    unsetenv("LD_PRELOAD");
    unsetenv("HAKMEM_STRESS_SUBJECT");
}

}  // namespace
}  // namespace stress

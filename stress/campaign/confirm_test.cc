// Runs that a campaign makes again, since their failure depends on timing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "campaign/campaign_for_test.h"
#include "campaign/record.h"

namespace stress {
namespace {

using testing::HasSubstr;
using testing::Not;

class ConfirmedRuns : public Campaigns {
  protected:
    ConfirmedRuns()
    {
        options_.scenarios = {"larson"};
        options_.allocators = {"/x/libother.so"};
        options_.json_path = temporary_.path("all.json");
        options_.junit_path = temporary_.path("junit.xml");
    }

    // `first` and `later` are shell commands for the first run and those after it. `fails RULE` ends a run with a failure
    // by RULE, and `fails RULE '"strict": true,'` a strict one.
    Ended run_of(const std::string &first, const std::string &later)
    {
        write_file(temporary_.path("runs"), "");
        program("fails() { echo \"{$2 \\\"verdict\\\": \\\"fail\\\", \\\"failures\\\": [{\\\"rule\\\": \\\"$1\\\", "
                "\\\"detail\\\": \\\"why $1\\\"}]}\" >\"$json\"; exit 1; }\n"
                "passes() { echo \"$pass\" >\"$json\"; exit 0; }\n"
                "echo run >>'" +
                temporary_.path("runs") + "'\nif [ $(wc -l <'" + temporary_.path("runs") + "') -eq 1 ]; then " + first +
                "; fi\n" + later);
        return run();
    }
    long runs_made() const
    {
        const std::string runs = text_of_file(temporary_.path("runs"));
        return std::count(runs.begin(), runs.end(), '\n');
    }
    RunRecord result() const
    {
        const std::string directory = options_.report_directory + "/results/";
        return record_read(text_of_file(directory + directory_names(directory).at(0)));
    }
};

TEST_F(ConfirmedRuns, AFailureThatIsSeenInEachRunStands)
{
    for (const std::string rule : {"memory_bound", "plateau", "memory_return", "mappings", "proves_nothing"}) {
        const Ended ended = run_of("fails " + rule, "fails " + rule);
        const std::string seen = "seen in 5 of 5 runs";
        EXPECT_EQ(runs_made(), 5) << rule;
        EXPECT_EQ(ended.code, 1) << rule;
        EXPECT_THAT(ended.out, HasSubstr("  failure: " + rule + ": why " + rule + "\n  " + seen +
                                         "\n  repeat with: hakmem-stress larson"));
        EXPECT_THAT(ended.out, testing::EndsWith("0 passed, 1 failed, 0 skipped\n"));
        EXPECT_EQ(result().failures.size(), 1u);
        EXPECT_EQ(result().confirmation, seen);
    }
    EXPECT_THAT(page(), HasSubstr("<p>seen in 5 of 5 runs</p>"));
    EXPECT_THAT(text_of_file(options_.junit_path), HasSubstr("seen in 5 of 5 runs\nrepeat with: "));
}

// If it is seen last, the failure of the four runs before it is not confirmed either.
TEST_F(ConfirmedRuns, TheLastRunDecidesToo)
{
    const std::string fifth = "[ $(wc -l <'" + temporary_.path("runs") + "') -lt 5 ] && fails mappings; passes";
    EXPECT_EQ(run_of("fails mappings", fifth).code, 0);
    EXPECT_EQ(runs_made(), 5);
    EXPECT_EQ(result().confirmation, "not confirmed: seen in 4 of 5 runs");
}

TEST_F(ConfirmedRuns, OnlyTheRulesOfEachRunStand)
{
    const std::string both = "echo '{\"verdict\": \"fail\", \"failures\": [{\"rule\": \"mappings\", \"detail\": "
                             "\"m\"}, {\"rule\": \"memory_return\", \"detail\": \"r\"}]}' >\"$json\"; exit 1";
    const Ended ended = run_of(both, "fails mappings");
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.out,
                HasSubstr("  failure: mappings: m\n  not confirmed: memory_return: r\n  seen in 5 of 5 runs\n"));
    EXPECT_THAT(run_of("fails mappings", both).out,
                HasSubstr("  failure: mappings: why mappings\n  not confirmed: memory_return: in run 2: r\n"));
}

// None of the rules that the first run broke is forgotten where the second one passes.
TEST_F(ConfirmedRuns, EachRuleThatIsNotConfirmedIsKept)
{
    const std::string both = "echo '{\"verdict\": \"fail\", \"failures\": [{\"rule\": \"mappings\", \"detail\": "
                             "\"m\"}, {\"rule\": \"memory_return\", \"detail\": \"r\"}]}' >\"$json\"; exit 1";
    EXPECT_EQ(run_of(both, "passes").code, 0);
    ASSERT_EQ(result().unconfirmed.size(), 2u);
    EXPECT_EQ(result().unconfirmed[0].rule, "mappings");
    EXPECT_EQ(result().unconfirmed[1].rule, "memory_return");
}

// A run that memory_bound ends may not come to the laps that plateau needs.
TEST_F(ConfirmedRuns, MemoryBoundSpeaksForPlateau)
{
    const std::string both = "echo '{\"verdict\": \"fail\", \"failures\": [{\"rule\": \"memory_bound\", \"detail\": "
                             "\"b\"}, {\"rule\": \"plateau\", \"detail\": \"p\"}]}' >\"$json\"; exit 1";
    EXPECT_THAT(run_of(both, both).out, HasSubstr("  failure: memory_bound: b; plateau: p\n  seen in 5 of 5 runs\n"));
}

TEST_F(ConfirmedRuns, AFailureThatIsSeenOncePassesAndIsCounted)
{
    const Ended ended = run_of("fails plateau", "passes");
    const std::string line = "not confirmed: seen in 1 of 2 runs: plateau: why plateau";
    EXPECT_EQ(runs_made(), 2);
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("\npass  larson on /x/libother.so, os, seed 100: 2.00 k ops/s"));
    EXPECT_THAT(ended.out, HasSubstr("\n  " + line + "\n"));
    EXPECT_THAT(ended.out, HasSubstr("pass, 1 not confirmed"));
    EXPECT_THAT(ended.out, testing::EndsWith("1 passed, 0 failed, 0 skipped, 1 not confirmed\n"));
    EXPECT_EQ(result().verdict, RunVerdict::Pass);
    EXPECT_EQ(result().ops_per_second, 2000) << "the figures are those of the run that passed";
    ASSERT_EQ(result().unconfirmed.size(), 1u);
    EXPECT_EQ(result().unconfirmed[0].rule, "plateau");
    EXPECT_THAT(text_of_file(options_.json_path), HasSubstr("\"not_confirmed\": 1, \"passed\": 1, \"failed\": 0"));
    EXPECT_THAT(page(), HasSubstr("<b>1</b> not confirmed"));
    EXPECT_THAT(page(), HasSubstr("<td class=\"wrap\">" + line));
    EXPECT_THAT(text_of_file(options_.junit_path), HasSubstr("<system-out>" + line));
    EXPECT_THAT(text_of_file(options_.junit_path), HasSubstr("failures=\"0\" errors=\"0\" skipped=\"0\""));
}

// What a rule proves in one run, what our own libraries do, and what the seed decides.
TEST_F(ConfirmedRuns, OtherFailuresStandAtOnce)
{
    const auto expect_once = [this](const std::string &first) {
        EXPECT_EQ(run_of(first, "passes").code, 1) << first;
        EXPECT_EQ(runs_made(), 1) << first;
        EXPECT_EQ(result().confirmation, "") << first;
    };
    for (const char *rule : {"overlap", "progress", "errno_kept", "errno_wait", "cancellation"})
        expect_once("fails " + std::string(rule));
    expect_once("fails plateau '\"strict\": true,'");
    expect_once("kill -SEGV $$");
    expect_once("echo '{\"verdict\": \"fail\", \"failures\": [{\"rule\": \"plateau\"}, {\"rule\": \"overlap\"}]}' "
                ">\"$json\"; exit 1");
    options_.schedules = {"seeded"};
    expect_once("fails proves_nothing");
}

TEST_F(ConfirmedRuns, ALaterRunThatFailsOtherwiseIsShownToo)
{
    const Ended ended = run_of("fails plateau", "kill -SEGV $$");
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.out, HasSubstr("  failure: plateau: why plateau\n  failure: crash: in run 2: signal "
                                     "SIGSEGV; nothing on stderr\n  seen in 2 of 2 runs\n"));
    EXPECT_THAT(run_of("fails plateau", "echo 'skipped: not now'; exit 77").out,
                HasSubstr("  seen in 1 of 2 runs; the last was skipped: not now\n"));
}

TEST_F(ConfirmedRuns, AKnownFailureNeedsNoSecondRun)
{
    ASSERT_EQ(options_.expected.parse("known", "larson plateau # it is known\n", options_.scenarios), "");
    EXPECT_THAT(run_of("fails plateau", "passes").out, testing::EndsWith("0 skipped, 1 known to fail\n"));
    EXPECT_EQ(runs_made(), 1);
}

TEST_F(ConfirmedRuns, ASoakCountsThemToo)
{
    options_.json_path = "";
    options_.soak_seconds = 0.3;
    const Ended ended = run_of("fails plateau", "sleep 0.05; passes");
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("not confirmed: seen in 1 of 2 runs: plateau: why plateau\n"));
    EXPECT_EQ(state().unconfirmed, 1u);
    EXPECT_EQ(state().cells.at(0).unconfirmed, 1u);
    EXPECT_EQ(state().passed, state().next_run);
    EXPECT_THAT(text_of_file(options_.junit_path), HasSubstr("runs passed after a failure that was not confirmed"));
}

} // namespace
} // namespace stress

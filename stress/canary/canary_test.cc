// Detection power: the rule that is meant for a planted bug must find it, and the same library without a bug must pass
// every scenario.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "engine/base/program.h"
#include "engine/base/spawn_for_test.h"
#include "engine/run/scenario.h"
#include "engine/subject/fault_os.h"

namespace stress {
namespace {

using testing::HasSubstr;
using testing::Not;

using Words = std::vector<std::string>;

SpawnResult run_on(const std::string &bug, const std::string &scenario, const Words &more,
                   const std::string &first = "")
{
    Words words = {
        scenario, "--allocator", canary_directory() + "/libcanary-" + bug + ".so", "--strict", "--seed", "42", "--json",
        "-"};
    words.insert(words.end(), more.begin(), more.end());
    return spawn_stress(words, first);
}

std::string rule_text(const std::string &rule)
{
    return "\"rule\": \"" + rule + "\"";
}

// Enough ops and threads for bugs that show in one or two calls.
const Words kUsual = {"--ops", "2000000", "--threads", "2"};
const Words kSeeded = {"--ops", "400000", "--threads", "2", "--schedule", "seeded"};

struct Canary {
    const char *bug;
    const char *rule;
    const char *scenario = "random-mixed";
    Words more = kUsual;
    bool seeded = true;  // whether the seeded schedule, which does less in a second, shows it too
};

void PrintTo(const Canary &canary, std::ostream *out)
{
    *out << canary.bug;
}

void expect_found(const Canary &canary, const SpawnResult &result)
{
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(result.out, HasSubstr("\"verdict\": \"fail\""));
    EXPECT_THAT(result.out, HasSubstr(rule_text(canary.rule)));
    EXPECT_THAT(result.err, HasSubstr("seed 42; repeat with: "));
}

class PlantedBug : public testing::TestWithParam<Canary> {};

TEST_P(PlantedBug, IsFoundByItsRule)
{
    expect_found(GetParam(), run_on(GetParam().bug, GetParam().scenario, GetParam().more));
}

class SeededBug : public testing::TestWithParam<Canary> {};

TEST_P(SeededBug, IsFoundByItsRuleInTheSeededSchedule)
{
    expect_found(GetParam(), run_on(GetParam().bug, GetParam().scenario, kSeeded));
}

const std::vector<Canary> &canaries()
{
    static const std::vector<Canary> list = {
        {"overlap", "overlap"},
        {"double_handout", "overlap"},
        {"misaligned", "alignment"},
        {"aligned_alloc", "alignment"},
        {"aligned_large", "alignment", "random-mixed", {"--ops", "100000", "--max-size", "100000"}, false},
        {"content", "content"},
        {"header", "content"},
        {"realloc_content", "realloc_content"},
        {"realloc_shrink", "realloc_content"},
        {"calloc_zero", "calloc_zero"},
        {"calloc_dirty", "calloc_zero"},
        {"usable_size", "usable_size"},
        {"usable_more", "usable_size"},
        {"errno", "errno_kept"},
        {"errno_wait", "errno_kept"}, // strict runs take no errno of a wait; see AnErrnoOfAWaitEndsNoRun
        {"enomem", "enomem"},
        {"exhausted", "exhausted"},
        // The leak must first add up.
        {"leak", "memory_bound", "random-mixed", kUsual, false},
        {"leak_slow", "plateau", "larson", {"--ops", "16000000"}, false},
        {"leak_rare", "remains", "leak", {}, false},
        {"lost_remote", "plateau", "larson", {"--ops", "4000000"}, false},
        {"retain", "memory_return", "random-mixed", {"--ops", "2000000", "--working-set", "100000"}, false},
        {"mappings", "mappings", "random-mixed", kUsual, false},
        {"law", "law"},
    };
    return list;
}

std::vector<Canary> seeded_canaries()
{
    std::vector<Canary> list;
    std::copy_if(canaries().begin(), canaries().end(), std::back_inserter(list),
                 [](const Canary &canary) { return canary.seeded; });
    return list;
}

std::string name_of(const testing::TestParamInfo<Canary> &tested)
{
    return tested.param.bug;
}

INSTANTIATE_TEST_SUITE_P(Canary, PlantedBug, testing::ValuesIn(canaries()), name_of);
INSTANTIATE_TEST_SUITE_P(Canary, SeededBug, testing::ValuesIn(seeded_canaries()), name_of);

class CleanCanary : public testing::TestWithParam<const char *> {};

TEST_P(CleanCanary, Passes)
{
    Words more = {"--seconds", "0.3"};
    // glibc puts small blocks of two threads into one cache line, which only strict runs count as a fault.
    // It makes an arena of 64 MiB when a thread meets another that is ending; strict runs count it as lost. It may keep a third of
    // what was fragmented for as long as strict runs wait (see memory_law.h).
    const std::string scenario = GetParam();
    if (scenario == "false-sharing" || scenario == "leak" || scenario == "fragmentation") more.push_back("--no-strict");
    const SpawnResult result = run_on("none", GetParam(), more);
    if (std::string(GetParam()) == "oom" && !fault_os_refusal().empty()) GTEST_SKIP() << fault_os_refusal();
    for (const char *lacking : {"heaps", "profile", "idle"}) {
        if (std::string(GetParam()) != lacking) continue;
        EXPECT_EQ(result.exit_code, 77) << result.out << result.err;
        EXPECT_THAT(result.err, HasSubstr("\nskipped: this malloc has no "));
        return;
    }
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("\"verdict\": \"pass\""));
}

std::vector<const char *> scenario_names()
{
    std::vector<const char *> names;
    for (const Scenario &scenario : scenarios()) names.push_back(scenario.name);
    return names;
}

INSTANTIATE_TEST_SUITE_P(Canary, CleanCanary, testing::ValuesIn(scenario_names()), [](const auto &tested) {
    std::string name = tested.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

// What the report on a run that does not move must contain: every thread, where it is, what it did last, and how to
// repeat the run. The result must be there all the same.
void expect_hang_report(const SpawnResult &result)
{
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("hakmem-stress: watchdog: no op was completed for 2 s; ops per thread: 0:"));
    for (const char *part : {"\nthread 0: tid ", "\nthread 1: tid ", "  last ops of thread 1:\n",
                             "  <- next or in progress\n", "\nstacks:\n", "\nhakmem-stress: seed 42; repeat with: "})
        EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(result.err.back(), '\n');
    EXPECT_THAT(result.out, HasSubstr(rule_text("progress")));
    EXPECT_THAT(result.out, HasSubstr("\"verdict\": \"fail\""));
}

// gdb's frames, of any thread.
void expect_frames(const std::string &err, std::initializer_list<const char *> frames)
{
    if (program_find({"gdb"}).empty()) return; // AHangHasStacksWithoutGdb
    for (const char *frame : frames) EXPECT_THAT(err, HasSubstr(frame));
    EXPECT_THAT(err, testing::ContainsRegex("\n  thread [0-9]+:\n    #0 "));
}

TEST(Watchdog, AHangIsReportedThreadByThread)
{
    const SpawnResult result = run_on("hang", "random-mixed", {"--threads", "2", "--watchdog", "2"});
    expect_hang_report(result);
    EXPECT_THAT(result.err, HasSubstr(", inside the subject, in malloc\n"));
    expect_frames(result.err, {" malloc (", "libcanary-hang.so"});
}

// Without gdb the threads say what they can themselves.
TEST(Watchdog, AHangHasStacksWithoutGdb)
{
    const SpawnResult result =
        run_on("hang", "random-mixed", {"--threads", "2", "--watchdog", "2"}, "PATH=/nonexistent; ");
    EXPECT_THAT(result.err, HasSubstr("\nstacks:\n  no stack: there is no gdb in PATH (package gdb)\n"));
    EXPECT_THAT(result.err, HasSubstr("  stack:\n"));
    EXPECT_THAT(result.err, HasSubstr("libcanary-hang.so+0x"));
}

TEST(Watchdog, ADeadlockShowsBothEnds)
{
    const SpawnResult result = run_on("deadlock", "random-mixed", {"--threads", "2", "--watchdog", "2"});
    expect_hang_report(result);
    expect_frames(result.err, {" malloc (", " aligned_alloc (", "pthread_mutex_lock"});
}

TEST(Watchdog, ASeededDeadlockSaysWhoHoldsTheBatonAndWhereEachStands)
{
    const SpawnResult result = run_on("deadlock", "random-mixed",
                                      {"--threads", "2", "--watchdog", "2", "--schedule", "seeded", "--ops", "60000"});
    expect_hang_report(result);
    EXPECT_THAT(result.err, HasSubstr(", holds the baton, at sync point lock_wait\n"));
}

TEST(Crash, SaysWhichRunItWasAndLeavesAResult)
{
    const SpawnResult result = run_on("crash", "random-mixed", kUsual);
    EXPECT_NE(result.exit_code, 0);
    // The op in hand with its block, twice: before the stacks and after them.
    const char *what = "signal SIGABRT; thread [01] was in free[(]b[0-9]+[)], where b[0-9]+ is 0x[0-9a-f]+ of [0-9]+ "
                       "bytes; seed 42; repeat with: ";
    EXPECT_THAT(result.err, testing::ContainsRegex(what));
    EXPECT_THAT(result.err.substr(result.err.rfind("hakmem-stress: the subject")), testing::ContainsRegex(what));
    if (program_find({"gdb"}).empty()) EXPECT_THAT(result.err, HasSubstr("  no stack: there is no gdb in PATH"));
    else EXPECT_THAT(result.err, testing::ContainsRegex("thread [0-9]+, which crashed:\n(.|\n)*libcanary-crash"));
    EXPECT_THAT(result.err, HasSubstr("  last ops of thread 0:\n"));
    EXPECT_THAT(result.err, HasSubstr("  last ops of thread 1:\n"));
    EXPECT_THAT(result.out, HasSubstr(rule_text("crash")));
    EXPECT_THAT(result.out, HasSubstr("the subject ended the run with signal SIGABRT; thread "));
    EXPECT_EQ(result.out.substr(result.out.size() - 2), "}\n");
}

// A bug that only some sizes show must not be found in a run without those sizes: the rule must see the bug, and not
// something else.
TEST(PlantedBugs, AreSeenForWhatTheyAre)
{
    const SpawnResult result = run_on("aligned_large", "random-mixed", {"--ops", "200000", "--max-size", "1024"});
    EXPECT_EQ(result.exit_code, 0) << result.out;
}

// `all` makes a run again when it failed by a rule on memory. A leak is there each time.
TEST(PlantedBugs, AreSeenEachTimeByAll)
{
    for (const auto &[bug, ops] : {std::pair{"leak", "1000000"}, std::pair{"lost_remote", "4000000"}}) {
        const SpawnResult result = spawn_stress({"all", "--scenario", "larson", "--allocator",
                                                 canary_directory() + "/libcanary-" + bug + ".so", "--seed", "42",
                                                 "--threads", "2", "--ops", ops});
        EXPECT_EQ(result.exit_code, 1) << result.out;
        EXPECT_THAT(result.out, HasSubstr("  failure: memory_bound: "));
        EXPECT_THAT(result.out, HasSubstr("; plateau: "));
        EXPECT_THAT(result.out, HasSubstr("\n  seen in 5 of 5 runs\n"));
        EXPECT_THAT(result.out, HasSubstr("\n0 passed, 1 failed, 0 skipped\n"));
    }
}

// It fails the run, but does not end it: what the malloc does otherwise is worth seeing. Other errors of free end the run.
TEST(PlantedBugs, AnErrnoOfAWaitEndsNoRun)
{
    for (const auto &[bug, rule] : {std::pair{"errno_wait", "errno_wait"}, std::pair{"errno", "errno_kept"}}) {
        const SpawnResult result =
            spawn_stress({"random-mixed", "--allocator", canary_directory() + "/libcanary-" + bug + ".so", "--seed",
                          "42", "--threads", "2", "--ops", "100000", "--json", "-"});
        EXPECT_EQ(result.exit_code, 1) << result.out;
        EXPECT_THAT(result.out, HasSubstr(rule_text(rule)));
        EXPECT_EQ(result.out.find("\"ops\": 100000") != std::string::npos, rule == std::string("errno_wait"));
    }
}

// No thread of this seed drew realloc, so the run passed a malloc whose realloc loses bytes.
TEST(PlantedBugs, AreMetWhateverTheSeed)
{
    const SpawnResult result =
        spawn_stress({"random-mixed", "--allocator", canary_directory() + "/libcanary-realloc_content.so", "--seed",
                      "8760362722521281", "--ops", "400000", "--json", "-"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.out, HasSubstr(rule_text("realloc_content")));
}

// Twenty mappings a round are far below the rule `mappings`.
TEST(Rounds, FindWhatEachLeavesBehind)
{
    const std::vector<std::string> nine{"--ops", "20000", "--laps", "2", "--repeat", "9", "--no-strict"};
    EXPECT_THAT(run_on("mappings", "larson", nine).out, HasSubstr(rule_text("remains")));
    const SpawnResult sound = run_on("none", "larson", nine);
    EXPECT_EQ(sound.exit_code, 0) << sound.out;
}

// The other scenarios must find the bugs that concern them.
TEST(OtherScenarios, FindAnOverlapAndAGrowingHeap)
{
    for (const char *scenario : {"larson", "remote-free"}) {
        EXPECT_THAT(run_on("overlap", scenario, kUsual).out, HasSubstr(rule_text("overlap"))) << scenario;
        // Twice what the rule allows.
        EXPECT_THAT(run_on("leak", scenario, {"--ops", "500000", "--threads", "2"}).out,
                    HasSubstr(rule_text("memory_bound")))
            << scenario;
        EXPECT_THAT(run_on("misaligned", scenario, kUsual).out, HasSubstr(rule_text("alignment"))) << scenario;
    }
}

} // namespace
} // namespace stress

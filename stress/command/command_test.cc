// show, run, record, shrink and compare from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <tuple>

#include "engine/base/build.h"
#include "engine/base/file.h"
#include "engine/base/spawn_for_test.h"
#include "program/program_file.h"

namespace stress {
namespace {

using testing::HasSubstr;

class Commands : public testing::Test {
  protected:
    std::string directory = testing::TempDir() + "hakmem-stress-commands-" + std::to_string(getpid());
    std::string ops = directory + "/a.ops";

    Commands() { mkdir(directory.c_str(), 0700); }
    ~Commands() override
    {
        for (const char *name : {"/a.ops", "/b.ops", "/min.ops", "/min.txt"}) unlink((directory + name).c_str());
        rmdir(directory.c_str());
    }

    void write(const std::string &text) { std::ofstream(ops) << text; }

    Program read_program(const std::string &path)
    {
        Program program;
        EXPECT_EQ(program_read(path, program), "");
        return program;
    }

    void expect_refused(const std::vector<std::string> &words, const std::string &says)
    {
        const SpawnResult result = spawn_stress(words);
        EXPECT_EQ(result.exit_code, 2) << words[0];
        EXPECT_EQ(result.out, "");
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        EXPECT_THAT(result.err, testing::StartsWith("hakmem-stress: "));
        EXPECT_THAT(result.err, HasSubstr(says));
    }
};

TEST_F(Commands, BadInputIsOneLineAndStatusTwo)
{
    for (const char *command : {"show", "run", "shrink"}) {
        expect_refused({command}, "file");
        expect_refused({command, "/no/such"}, "'/no/such' cannot be read");
        expect_refused({command, directory}, "is a directory");
        write("b0 = malloc(1;");
        expect_refused({command, ops}, "line 1: expected ')' after the size, found ';'");
    }
    write("purge();");
    expect_refused({"run", ops, "--seed", "x"}, "--seed");
    expect_refused({"run", ops, "--allocator", "/no/such.so"}, "/no/such.so");
    expect_refused({"record"}, "");
    expect_refused({"record", "bogus", "-o", ops}, "unknown scenario 'bogus'");
    expect_refused({"record", "larson", "-o", ops, "--threads", "0"}, "--threads");
    expect_refused({"record", "larson", "-o", ops, "--repeat", "5"}, "--repeat: one run is recorded");
    expect_refused({"shrink", ops, "-o", "/proc/no/such"}, "/proc/no");
    expect_refused({"compare"}, "a is required");
    expect_refused({"report"}, "file");
    expect_refused({"report", "/no/such"}, "report: '/no/such' cannot be opened");
    expect_refused({"report", ops}, "does not begin with HAKCRASH");
    expect_refused({"report", ops, "--symbols", "x"}, "--symbols");
}

TEST_F(Commands, HelpAndListNameThem)
{
    for (const char *word : {"list", "--help"}) {
        const SpawnResult result = spawn_stress({word});
        EXPECT_EQ(result.exit_code, 0);
        for (const char *command : {"show ", "run ", "record ", "shrink ", "compare ", "speed ", "report "})
            EXPECT_THAT(result.out, HasSubstr(std::string("\n") + command));
    }
}

TEST_F(Commands, TooLittleAddressSpaceIsALine)
{
    if constexpr (kDirect) GTEST_SKIP() << "a sanitizer needs more address space than any of the limits";
    for (const char *kib : {"65536", "524288", "1048576"}) {
        const SpawnResult result =
            spawn_stress({"mid", "--ops", "100", "--seed", "1"}, "ulimit -v " + std::string(kib) + "; ");
        EXPECT_EQ(result.exit_code, 2) << kib;
        EXPECT_THAT(result.err, testing::StartsWith("hakmem-stress: no address space for the ")) << kib;
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
}

TEST_F(Commands, SpeedTimesALoop)
{
    expect_refused({"speed"}, "scenario is required");
    expect_refused({"speed", "mid"}, "there is no loop of 'mid'; choose larson, random-mixed or remote-free");
    if constexpr (kSanitized || kDirect) {
        expect_refused({"speed", "larson", "--allocator", a_subject()}, "this build");
        GTEST_SKIP() << "this build times nothing";
    }
    expect_refused({"speed", "larson", "--threads", "0"}, "--threads");
    expect_refused({"speed", "larson", "--seconds", "0"}, "--seconds");
    expect_refused({"speed", "larson", "--allocator", "/no/such.so"}, "No such file");
    expect_refused({"speed", "larson", "--json", "/no/such/x"}, "--json: cannot write");
    for (const auto &[scenario, row, threads, seated] : {std::tuple{"larson", "larson", "3", "3"},
                                                         {"random-mixed", "mixed-1024", "1", "1"},
                                                         {"remote-free", "remote-free", "3", "2"}}) {
        const SpawnResult result = spawn_stress({"speed", scenario, "--threads", threads, "--ops", "6000",
                                                 "--allocator", "system", "--json", "-", "--seed", "5"});
        EXPECT_EQ(result.exit_code, 0) << result.err;
        for (const std::string &part :
             {std::string("\"loop\": \"") + row, std::string("\"threads\": ") + seated + ",",
              std::string("\"ops\": 6000,"), std::string("\"seed\": 5,"), std::string("\"verdict\": \"pass\""),
              std::string("speed ") + scenario + " --threads"})
            EXPECT_THAT(result.out, HasSubstr(part));
    }
    // A malloc that fails in the loop has no figure.
    const SpawnResult dead = spawn_stress({"speed", "larson", "--ops", "1000000", "--allocator",
                                           canary_directory() + "/libcanary-exhausted.so", "--json", "-"});
    EXPECT_NE(dead.exit_code, 0);
    EXPECT_EQ(dead.out, "");
    EXPECT_THAT(dead.err, HasSubstr("SIGSEGV in the loop"));
    // By time: the trials choose the number of calls.
    const SpawnResult timed = spawn_stress({"speed", "larson", "--seconds", "0.2", "--allocator", "system"});
    EXPECT_EQ(timed.exit_code, 0) << timed.err;
    EXPECT_THAT(timed.out,
                testing::ContainsRegex("  ops        [0-9]+[0-9]{5} in [0-9.]+ s, [0-9.]+ M ops/s, [0-9.]+ ns "));
}

TEST_F(Commands, ShowConvertsBothWays)
{
    write("threads 2\nT1: b1 = malloc(5);\n");
    EXPECT_EQ(spawn_stress({"show", ops, "--binary", directory + "/b.ops"}).exit_code, 0);
    EXPECT_THAT(spawn_stress({"show", directory + "/b.ops"}).out, HasSubstr("\nT1: b1 = malloc(5);\n"));
    EXPECT_THAT(spawn_stress({"show", directory + "/b.ops", "--json"}).out,
                HasSubstr("{\"op\": \"T1: b1 = malloc(5);\"}"));
}

TEST_F(Commands, RunSaysWhenTheScheduleDiverges)
{
    write("threads 2\nseed 1\nrepeat 50 step 2 { b0 = malloc(5); T1: b1 = malloc(7); }\n");
    const SpawnResult first = spawn_stress({"run", ops, "--allocator", a_subject(), "--json", "-"});
    EXPECT_EQ(first.exit_code, 0) << first.err;
    const std::size_t at = first.out.find("--expect-schedule ");
    ASSERT_NE(at, std::string::npos) << first.out;
    const std::string mark = first.out.substr(at + 18, first.out.find('"', at) - at - 18);
    EXPECT_EQ(spawn_stress({"run", ops, "--allocator", a_subject(), "--expect-schedule", mark}).exit_code, 0);
    const SpawnResult other =
        spawn_stress({"run", ops, "--allocator", a_subject(), "--expect-schedule", "0000000000000001:5"});
    EXPECT_EQ(other.exit_code, 1);
    EXPECT_THAT(other.out, HasSubstr("failure: diverged: expected schedule 0000000000000001:5, found " + mark));
    const SpawnResult scenario = spawn_stress({"larson", "--allocator", a_subject(), "--schedule", "seeded", "--ops",
                                               "500", "--seed", "1", "--expect-schedule", "0000000000000001:5"});
    EXPECT_EQ(scenario.exit_code, 1);
    EXPECT_THAT(scenario.out, HasSubstr("failure: diverged: expected schedule 0000000000000001:5, found "));
}

TEST_F(Commands, ARecordedRunRepeatsItsSchedule)
{
    std::vector<std::string> subjects{"system", "hakmem", "validate"};
    if (kSanitized || kDirect) subjects = {a_subject()};
    for (const std::string &subject : subjects)
        for (const char *scenario : {"random-mixed", "larson", "remote-free"}) {
            const SpawnResult recorded =
                spawn_stress({"record", scenario, "--allocator", subject, "--schedule", "seeded", "--ops", "5000",
                              "--seed", "9", "--threads", "3", "-o", ops});
            EXPECT_EQ(recorded.exit_code, 0) << scenario << recorded.out << recorded.err;
            EXPECT_THAT(recorded.out, HasSubstr(" in " + ops));
            const Program program = read_program(ops);
            EXPECT_TRUE(program.expects_schedule());
            EXPECT_TRUE(program.links_kept);
            EXPECT_GT(program.ops.size(), 3000u);
            // The file keeps the order of the run, in which threads took turns; the links of random-mixed would allow
            // any order.
            std::size_t turns = 0;
            for (std::size_t i = 1; i < program.ops.size(); ++i)
                turns += program.ops[i].thread != program.ops[i - 1].thread;
            EXPECT_GT(turns, 8u) << subject << " " << scenario;
            const SpawnResult again = spawn_stress({"run", ops, "--allocator", subject});
            EXPECT_EQ(again.exit_code, 0) << subject << " " << scenario << again.out;
            EXPECT_EQ(again.err, ""); // it says so if the schedule is not compared
            // The order is that of the run, so the run notices that ops are missing.
            Program shorter = read_program(ops);
            shorter.ops.erase(shorter.ops.begin() + 1000);
            if (!links_fault(shorter.ops, shorter.threads).empty()) continue;
            ASSERT_EQ(program_write(ops, program_encode(shorter)), "");
            EXPECT_THAT(spawn_stress({"run", ops, "--allocator", subject}).out, HasSubstr("failure: diverged: "));
        }
}

TEST_F(Commands, ARunUnderTheSystemsScheduleIsRecordedToo)
{
    EXPECT_EQ(
        spawn_stress({"record", "larson", "--allocator", a_subject(), "--ops", "20000", "--threads", "3", "-o", ops})
            .exit_code,
        0);
    const Program program = read_program(ops);
    EXPECT_GT(program.ops.size(), 15000u);
    EXPECT_FALSE(program.expects_schedule());
    EXPECT_EQ(spawn_stress({"run", ops, "--allocator", a_subject(), "--tries", "2"}).exit_code, 0);
}

#define SKIP_WITHOUT_CANARIES() \
    if (kSanitized || kDirect) GTEST_SKIP() << "no library can be put under a sanitizer build"

std::string canary(const std::string &bug)
{
    return canary_directory() + "/libcanary-" + bug + ".so";
}

// A file whose name a shell would not take as it is.
TEST_F(Commands, ShrinkPrintsACommandThatAShellRuns)
{
    SKIP_WITHOUT_CANARIES();
    spawn_stress({"record", "random-mixed", "--allocator", canary("overlap"), "--strict", "--schedule", "seeded",
                  "--ops", "200000", "--seed", "7", "--threads", "2", "-o", ops});
    const SpawnResult shrunk = spawn_stress({"shrink", ops, "--allocator", canary("overlap"), "-o", directory, "--name",
                                             "it'\\''s `min`", "--seconds", "20"});
    const std::string before = "; repeat with: ";
    const std::size_t start = shrunk.out.find(before);
    ASSERT_NE(start, shrunk.out.npos) << shrunk.out << shrunk.err;
    const std::string output = directory + "/b.ops", command = shrunk.out.substr(start + before.size());
    const int status = std::system((command.substr(0, command.find('\n')) + " >'" + output + "' 2>&1").c_str());
    std::string said;
    EXPECT_EQ(file_read(output, said), "");
    EXPECT_EQ(WEXITSTATUS(status), 1) << command;
    EXPECT_THAT(said, HasSubstr("failure: overlap: "));
    for (const char *ending : {"ops", "txt"}) unlink((directory + "/it's `min`." + ending).c_str());
}

TEST_F(Commands, ShrinkAccusesNobodyOfAKillFromOutside)
{
    SKIP_WITHOUT_CANARIES();
    write("# hakmem ops 1\nb0 = malloc(100);\nb0 = realloc(b0, SIZE_MAX-4096);\n");
    const std::string killed = canary_directory() + "/libconform-canary-killed.so";
    const SpawnResult result = spawn_stress({"shrink", ops, "--allocator", killed, "-o", directory, "--name", "min"});
    EXPECT_EQ(result.exit_code, 77) << result.err;
    EXPECT_THAT(result.out, testing::StartsWith("shrink: inconclusive: SIGKILL from outside ended each of 3 runs; "));
    EXPECT_NE(access((directory + "/min.ops").c_str(), F_OK), 0);
}

struct Bug {
    const char *name, *rule;
};

void PrintTo(const Bug &bug, std::ostream *out)
{
    *out << bug.name;
}

class Shrunk : public Commands, public testing::WithParamInterface<Bug> {};

TEST_P(Shrunk, ToAFewOpsThatFailAlike)
{
    SKIP_WITHOUT_CANARIES();
    const auto [bug, rule] = GetParam();
    const SpawnResult recorded =
        spawn_stress({"record", "random-mixed", "--allocator", canary(bug), "--strict", "--schedule", "seeded", "--ops",
                      "200000", "--seed", "7", "--threads", "2", "--watchdog", "0.5", "-o", ops});
    EXPECT_EQ(recorded.exit_code, 1) << recorded.out << recorded.err;
    EXPECT_EQ(read_program(ops).rule, rule);
    const SpawnResult shrunk =
        spawn_stress({"shrink", ops, "--allocator", canary(bug), "-o", directory, "--name", "min", "--seconds", "60"});
    EXPECT_EQ(shrunk.exit_code, 0) << shrunk.out << shrunk.err;
    EXPECT_THAT(shrunk.out, HasSubstr("shrink: wrote "));
    EXPECT_THAT(shrunk.out, testing::Not(HasSubstr("in a fresh process"))) << shrunk.out;
    const Program small = read_program(directory + "/min.ops"), text = read_program(directory + "/min.txt");
    EXPECT_LE(small.ops.size(), 6u) << shrunk.out;
    EXPECT_EQ(small.ops.size(), text.ops.size());
    std::ifstream file(directory + "/min.txt"); // its head is of the program as it is now
    const std::string shown{std::istreambuf_iterator<char>(file), {}};
    std::smatch seen, clock;
    if (std::regex_search(shown, seen, std::regex("seen by .* at its op ([0-9]+)"))) {
        ASSERT_TRUE(std::regex_search(shown, clock, std::regex("expect_schedule [0-9a-f]+:([0-9]+)"))) << shown;
        EXPECT_LE(std::stoul(seen[1]), 2 * std::stoul(clock[1])) << shown; // the last checks count as ops
    }
    EXPECT_EQ(small.rule, rule);
    EXPECT_NE(spawn_stress({"run", directory + "/min.ops", "--allocator", canary(bug), "--watchdog", "0.5"}).exit_code,
              0);
    EXPECT_EQ(spawn_stress({"run", directory + "/min.txt", "--allocator", canary("none")}).exit_code, 0);
    EXPECT_THAT(spawn_stress({"shrink", directory + "/min.ops", "--allocator", canary("none"), "-o", directory}).out,
                HasSubstr("nothing to shrink: "));
}

TEST_F(Commands, ShrinkSaysHowToMeetAFailureThatComesAndGoes)
{
    const std::string file = directory + "/race.txt", ops_of_it = "expect overlap\nb0 = malloc(10);\n";
    for (const char *schedule : {"os", "seeded"}) {
        ASSERT_EQ(file_replace(file, "# hakmem ops 1\nschedule " + std::string(schedule) + "\n" + ops_of_it), "");
        const SpawnResult passed = spawn_stress({"shrink", file, "--allocator", "system", "-o", directory});
        EXPECT_EQ(passed.exit_code, 1) << passed.out << passed.err;
        const bool is_hint = passed.out.find("says that overlap failed") != std::string::npos &&
                             passed.out.find("--tries 20 ") != std::string::npos;
        EXPECT_EQ(is_hint, schedule == std::string("os")) << passed.out;
    }
}

INSTANTIATE_TEST_SUITE_P(Canary, Shrunk,
                         testing::Values(Bug{"overlap", "overlap"}, Bug{"content", "content"},
                                         Bug{"realloc_content", "realloc_content"}, Bug{"enomem", "enomem"},
                                         Bug{"hang", "hang"}, Bug{"crash", "SIGABRT"}),
                         [](const auto &tested) { return std::string(tested.param.name); });

TEST_F(Commands, CompareFindsNoDifferenceWhereThereIsNone)
{
    SKIP_WITHOUT_CANARIES();
    const std::vector<std::string> with_libc{"compare", "hakmem", "--ops", "5000"};
    const std::vector<std::string> with_both{"compare", "hakmem", "system", "--scenario", "larson"};
    for (const std::vector<std::string> &words : {with_libc, with_both}) {
        const SpawnResult result = spawn_stress(words);
        EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
        EXPECT_THAT(result.out, HasSubstr("verdict equal\n"));
        EXPECT_THAT(result.out, HasSubstr("hakmem: pass\nsystem: pass\n"));
    }
}

// It names the same op as the oracle does.
TEST_F(Commands, CompareNamesTheOpThatDiffers)
{
    SKIP_WITHOUT_CANARIES();
    write("repeat 1200 step 1 { b0 = malloc(20); free(b0); }\n");
    const struct {
        const char *bug, *call, *outcome;
    } cases[] = {{"errno", "  free(b", ": freed, errno changed to EINVAL\n    system: freed\n"},
                 {"misaligned", "  b", ": a block, misaligned, judged wrong\n    system: a block\n"},
                 {"exhausted", "  b", ": NULL, ENOMEM\n    system: a block\n"}};
    for (const auto &[bug, call, outcome] : cases) {
        const SpawnResult result = spawn_stress({"compare", canary(bug), "system", ops});
        EXPECT_EQ(result.exit_code, 1) << result.err;
        {
            const std::size_t at = result.out.find("seen by thread 0 at its op ");
            ASSERT_NE(at, std::string::npos) << result.out;
            const std::string number = result.out.substr(at + 27, result.out.find('\n', at) - at - 27);
            EXPECT_THAT(result.out, HasSubstr("\nop " + number + call)) << bug;
        }
        EXPECT_EQ(result.out.find("\nop "), result.out.rfind("\nop ")) << bug;
        EXPECT_THAT(result.out, HasSubstr(outcome)) << bug;
        EXPECT_THAT(result.out, HasSubstr(" ops ran on system only\n")) << bug;
    }

    // A refused realloc of a malloc that loses the block then: the refusal is wrong, not the op before it.
    write("b0 = malloc(100);\nb0 = realloc(b0, SIZE_MAX-4096);\n");
    const SpawnResult lost = spawn_stress({"compare", canary("oom_lost"), "system", ops});
    EXPECT_THAT(lost.out, HasSubstr("  b0 = realloc(b0, SIZE_MAX-4096);\n"));
    EXPECT_THAT(lost.out, HasSubstr(": NULL, ENOMEM, judged wrong\n    system: NULL, ENOMEM\n"));

    write("repeat 1200 step 1 { b0 = malloc(20); free(b0); }\n");
    EXPECT_THAT(spawn_stress({"compare", canary("crash"), "system", ops}).out, HasSubstr("ended early: SIGABRT\n"));
    EXPECT_EQ(spawn_stress({"compare", canary("none"), "system", ops}).exit_code, 0);
}

} // namespace
} // namespace stress

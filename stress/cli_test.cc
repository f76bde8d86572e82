// The program seen from outside: its exit status, stdout and stderr.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

#include "engine/base/build.h"
#include "engine/base/spawn_for_test.h"

namespace stress {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A subject that exists in every build.
std::vector<std::string> with_subject(std::vector<std::string> words)
{
    words.insert(words.end(), {"--allocator", a_subject()});
    return words;
}

std::string text_of(const std::string &path)
{
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void expect_refused(const std::vector<std::string> &words, const std::string &says)
{
    const SpawnResult result = spawn_stress(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(result.err, StartsWith("hakmem-stress: "));
    EXPECT_THAT(result.err, HasSubstr(says));
}

TEST(Cli, BadInputIsOneLineAndStatusTwo)
{
    expect_refused({}, "no scenario");
    expect_refused({"bogus"}, "unknown scenario 'bogus'");
    expect_refused({"larson", "--threads", "0"}, "--threads");
    expect_refused({"random-mixed", "--ops", "-5"}, "--ops");
    expect_refused({"remote-free", "--min-size", "9", "--max-size", "8"}, "min-size 9 is above max-size 8");
    expect_refused(with_subject({"larson", "--json", "/no/such/directory/x"}), "cannot write");
}

TEST(Cli, BadAllocators)
{
    expect_refused({"larson", "--allocator", "/no/such.so"}, "/no/such.so");
    expect_refused({"larson", "--allocator", "/etc/passwd"}, "/etc/passwd");
    if constexpr (kSanitized || kDirect) return;
    expect_refused({"larson", "--allocator", "/no/such.so"}, "No such file");
    expect_refused({"larson", "--allocator", "/etc/passwd"}, "not a 64-bit ELF shared library");
    expect_refused({"larson", "--allocator", "/lib/x86_64-linux-gnu/libm.so.6"}, "does not provide malloc");
}

// One judge for every command, before any run.
TEST(Cli, ALibraryThatCannotBeTestedIsRefusedByEveryCommand)
{
    if constexpr (kSanitized || kDirect) GTEST_SKIP() << "this build takes no other library";
    const std::string folder = testing::TempDir();
    const std::string whole = text_of("/lib/x86_64-linux-gnu/libm.so.6");
    const std::string cut = folder + "hakmem-stress-cut.so", foreign = folder + "hakmem-stress-foreign.so";
    ASSERT_GT(whole.size(), 10000u) << "this test needs libm of x86-64";
    std::ofstream(cut) << whole.substr(0, whole.size() / 2);
    std::string other = whole;
    other[18] = 40; // e_machine: 32-bit ARM
    std::ofstream(foreign) << other;
    const std::string ops = folder + "hakmem-stress-cut.ops";
    std::ofstream(ops) << "b0 = malloc(1);\n";
    const std::vector<std::vector<std::string>> commands{{"larson", "--allocator"},
                                                         {"all", "--allocator", "system", "--allocator"},
                                                         {"conform", "--allocator"},
                                                         {"inject", "signals", "--allocator"},
                                                         {"run", ops, "--allocator"},
                                                         {"shrink", ops, "--allocator"},
                                                         {"record", "-o", folder + "x.ops", "larson", "--allocator"}};
    for (std::vector<std::string> words : commands)
        for (const auto &[library, says] :
             {std::pair{cut, "cut short"}, std::pair{foreign, "another processor (ELF machine 40"},
              std::pair{std::string("/lib/x86_64-linux-gnu/libm.so.6"), "does not provide malloc"},
              std::pair{std::string("/no/such.so"), "No such file"}}) {
            words.push_back(library);
            SCOPED_TRACE(words[0] + " " + library);
            expect_refused(words, says);
            words.pop_back();
        }
    for (const std::string &path : {cut, foreign, ops}) std::remove(path.c_str());
}

// The shards of conform run each of the listed checks once, in lines of their own.
TEST(Cli, ShardsOfConformTakeEachCheckOnce)
{
    if constexpr (kSanitized || kDirect) GTEST_SKIP() << "conform runs only without sanitizers";
    std::string list = spawn_stress({"conform", "--list"}).out;
    const auto count = [](const std::string &text, const std::string &word) {
        std::size_t found = 0;
        for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++found;
        return found;
    };
    const auto checks = static_cast<std::size_t>(std::count(list.begin(), list.end(), '\n'));
    // Two shards of three cheap checks: the options choose the checks, and the shard takes its part of them.
    std::string all;
    for (const char *shard : {"1/2", "2/2"})
        all += spawn_stress({"conform", "--allocator", "system", "--shard", shard, "--only", "null-and-zero", "--only",
                             "free-keeps-errno", "--only", "reallocarray-null-and-zero"})
                   .out;
    EXPECT_EQ(count(all, " free-keeps-errno "), 1u) << all;
    EXPECT_EQ(count(all, " null-and-zero "), 1u) << all;
    EXPECT_EQ(count(all, " reallocarray-null-and-zero "), 1u) << all;
    expect_refused({"conform", "--allocator", "system", "--shard", "1/" + std::to_string(checks + 1)},
                   "there are " + std::to_string(checks) + " checks");
    expect_refused({"inject", "signals", "--allocator", "system", "--shard", "1/4"}, "there are 3 scenarios");
}

TEST(Cli, ListNamesEachScenario)
{
    const SpawnResult result = spawn_stress({"list"});
    EXPECT_EQ(result.exit_code, 0);
    for (const char *name : {"larson", "random-mixed", "remote-free"}) EXPECT_THAT(result.out, HasSubstr(name));
}

TEST(Cli, TheSeedIsTheFirstLineAndTheVerdictTheLast)
{
    for (const char *scenario : {"larson", "random-mixed", "remote-free"}) {
        const SpawnResult result = spawn_stress(with_subject({scenario, "--seed", "42", "--ops", "20000"}));
        EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
        EXPECT_THAT(result.out, StartsWith("seed 42\n"));
        EXPECT_EQ(result.out.substr(result.out.size() - 13), "verdict pass\n") << result.out;
    }
}

TEST(Cli, JsonOnStdoutIsAlone)
{
    const SpawnResult result =
        spawn_stress(with_subject({"random-mixed", "20000", "256", "42", "--threads", "2", "--json", "-"}));
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.out.front(), '{');
    EXPECT_EQ(result.out.substr(result.out.size() - 2), "}\n");
    EXPECT_THAT(result.out, HasSubstr("\"ops\": 40000"));
    EXPECT_THAT(result.err, StartsWith("seed 42\n"));
}

TEST(Cli, JsonFileIsReplaced)
{
    const std::string path = testing::TempDir() + "hakmem-stress-cli-test.json";
    std::ofstream(path) << std::string(100000, 'x');
    const SpawnResult result = spawn_stress(with_subject({"larson", "--ops", "1000", "--no-check", "--json", path}));
    EXPECT_EQ(result.exit_code, 0);
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_THAT(text, HasSubstr("\"check\": false"));
    EXPECT_EQ(text.find("xxx"), std::string::npos);
    std::remove(path.c_str());
}

// A verdict that could not be written is no pass. write_faults_test fails each write.
TEST(Cli, AResultThatIsLostIsNotAPass)
{
    const std::vector<std::string> quick = with_subject({"larson", "--ops", "1000", "--no-check"});
    for (const char *place : {"/dev/full", "/proc/self/fd/99"}) {
        std::vector<std::string> words = quick;
        words.insert(words.end(), {"--json", place});
        const SpawnResult result = spawn_stress(words);
        // A verdict, but no result; a place that cannot be opened is seen before the run.
        EXPECT_EQ(result.exit_code, place == std::string("/dev/full") ? 3 : 2) << place;
        EXPECT_THAT(result.err, HasSubstr("cannot write")) << place;
    }
    std::string command = "'" + std::string(getenv("HAKMEM_STRESS_PROGRAM")) + "'";
    for (const std::string &word : quick) command += " '" + word + "'";
    EXPECT_EQ(WEXITSTATUS(system((command + " >/dev/full 2>/dev/null").c_str())), 3);
}

// The result of an earlier run is not taken for that of a run which was refused, or killed.
TEST(Cli, AnEarlierResultDoesNotStay)
{
    const std::string path = testing::TempDir() + "hakmem-stress-cli-earlier.json";
    std::ofstream(path) << "earlier";
    const SpawnResult result = spawn_stress(with_subject({"oom", "--json", path, "--ops", "1000", "--seed", "1"}));
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_NE(text, "earlier") << result.out << result.err;
    std::remove(path.c_str());
}

TEST(Cli, AnEmptyNameIsRefused)
{
    for (const std::vector<std::string> &words : {std::vector<std::string>{"larson", "--allocator", ""},
                                                  {"all", "--allocator", ""},
                                                  {"conform", "--allocator", ""}}) {
        const SpawnResult result = spawn_stress(words);
        EXPECT_EQ(result.exit_code, 2) << words[0];
        EXPECT_THAT(result.err, HasSubstr("--allocator")) << words[0];
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
}

TEST(Cli, TellsItsVersion)
{
    const SpawnResult result = spawn_stress({"--version"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, StartsWith("hakmem-stress "));
}

// Some supervisors start their programs so. A child that ends well must not count as one that hangs.
TEST(Cli, AParentMayHaveLeftSigchldIgnored)
{
    const SpawnResult result =
        spawn_stress(with_subject({"fork", "--ops", "1000", "--threads", "2", "--seed", "1", "--watchdog", "6"}),
                     "env --ignore-signal=CHLD ");
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("\nverdict pass\n"));
    EXPECT_THAT(result.out, testing::Not(HasSubstr("\n  forks      0,")));
}

// SIGSYS among them, by which the filter of system calls asks.
TEST(Cli, AParentMayHaveLeftSignalsBlocked)
{
    const std::vector<std::string> words = with_subject({"inject", "calls", "mid", "--calls", "1", "--seed", "1"});
    const SpawnResult plain = spawn_stress(words), blocked = spawn_stress(words, "env --block-signal ");
    EXPECT_EQ(plain.exit_code, blocked.exit_code) << plain.out << blocked.out;
}

// As for a service. The results of runs must not get the number of the stream.
TEST(Cli, StandardInputMayBeClosed)
{
    const SpawnResult result =
        spawn_stress(with_subject({"all", "--scenario", "mid", "--ops", "1000", "--seed", "1"}), "exec <&-; ");
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("\n1 passed, 0 failed, 0 skipped\n"));
}

TEST(Cli, LarsonTakesItsBoundsInEitherOrder)
{
    const SpawnResult result =
        spawn_stress(with_subject({"larson", "1", "1000", "1", "10", "10", "42", "1", "--ops", "1000"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("sizes of 1 to 1000 bytes"));
}

// With fixed ops and seed, the threads' streams are the same in every run, and so are the totals.
TEST(Cli, TheSeedDecidesTheRun)
{
    for (const char *scenario : {"larson", "random-mixed", "remote-free"}) {
        const auto figures = [scenario](const char *seed) {
            const SpawnResult result = spawn_stress(
                with_subject({scenario, "--seed", seed, "--ops", "50000", "--threads", "4", "--json", "-"}));
            EXPECT_EQ(result.exit_code, 0) << result.err;
            const auto ops = result.out.find("\"ops\"");
            return result.out.substr(ops, result.out.find('\n', ops) - ops);
        };
        EXPECT_EQ(figures("7"), figures("7")) << scenario;
    }
}

}  // namespace
}  // namespace stress

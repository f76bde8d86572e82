// The command line of `all`, and of --soak on one scenario: what is refused, and what the runs get.
#include "campaign/command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "campaign/temporary_for_test.h"

namespace stress {
namespace {

using testing::HasSubstr;

const CampaignDefaults kDefaults{{"larson", "random-mixed"}, {"a-check"}, "system"};

// Runs `work` in a child process; gives its exit status and its stderr.
template <typename Work> int in_child(const Temporary &temporary, std::string &err, Work work)
{
    const std::string path = temporary.path("err");
    const pid_t child = fork();
    if (child == 0) {
        dup2(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666), 2);
        dup2(open("/dev/null", O_WRONLY), 1);
        _exit(work());
    }
    int status = 0;
    waitpid(child, &status, 0);
    err = text_of_file(path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void expect_refused(std::vector<const char *> words, const std::string &says)
{
    Temporary temporary;
    words.insert(words.begin(), {"hakmem-stress", "all"});
    std::string err;
    const int code =
        in_child(temporary, err, [&] { return campaign_all(static_cast<int>(words.size()), words.data(), kDefaults); });
    EXPECT_EQ(code, 2) << says;
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
    EXPECT_THAT(err, testing::StartsWith("hakmem-stress: "));
    EXPECT_THAT(err, HasSubstr(says));
}

TEST(Command, BadInputIsOneLineAndStatusTwo)
{
    expect_refused({"--scenario", "larsom"}, "not 'larsom'; the nearest name is larson");
    expect_refused({"--allocatr", "system"}, "--allocatr; the nearest name is --allocator; see");
    expect_refused({"--scenario", "bogus"}, "must be one of larson, random-mixed, not 'bogus'");
    expect_refused({"--schedule", "x"}, "os, seeded, both");
    expect_refused({"--threads", "0"}, "--threads");
    expect_refused({"--ops", "-1"}, "--ops");
    expect_refused({"--seconds", "0"}, "--seconds");
    expect_refused({"--seconds", "2", "--schedule", "seeded"}, "limited by --ops");
    expect_refused({"--seed", "x"}, "--seed");
    expect_refused({"--timeout", "nan"}, "--timeout");
    expect_refused({"--allocator", "/no/such.so"}, "cannot use '/no/such.so': No such file");
    expect_refused({"--soak", "8"}, "90s, 30m, 8h or 2d");
    expect_refused({"--soak", "8h"}, "add --report DIR");
    expect_refused({"--fresh"}, "it is for --soak");
    expect_refused({"--speed", "--soak", "8h"}, "leave one of the two out");
    expect_refused({"--rounds", "2"}, "it is for --speed");
    expect_refused({"--shard", "3/2"}, "must be I/N");
    expect_refused({"--shard", "1/9"}, "there are 2 scenarios");
    expect_refused({"--shard", "1/9", "--soak", "1s", "--report", "/tmp"}, "give all workers the same --seed");
    expect_refused({"--shard", "0/9", "--soak", "1s", "--seed", "1", "--report", "/tmp"}, "must be I/N");
    expect_refused({"--seeds", "42", "--soak", "8h"}, "--seeds: must be a FILE, not '42'; for one seed give --seed 42");
    expect_refused({"--expect", "/no/such"}, "--expect: cannot read");
    expect_refused({"--bogus"}, "--bogus");
    expect_refused({"stray"}, "stray");
}

TEST(Command, ASoakGivesEachRunTheRest)
{
    const std::vector<const char *> words{"p",          "larson",      "5",        "8",          "--soak",
                                          "8h",         "--threads=4", "--seed=9", "--fresh",    "--report",
                                          "d",          "--allocator", "system",   "--no-check", "--json=x",
                                          "--schedule", "seeded",      "--junit",  "x",          "--expect=known"};
    EXPECT_EQ(campaign_run_words(static_cast<int>(words.size()), words.data()),
              (std::vector<std::string>{"5", "8", "--threads=4", "--no-check"}));
}

TEST(Command, ASoakOfOneScenarioRefuses)
{
    Temporary temporary;
    std::string err;
    const std::vector<const char *> words{"hakmem-stress", "larson", "--soak", "x"};
    SoakRequest request;
    request.scenario = "larson";
    request.allocator = "system";
    request.soak = "x";
    const auto soak = [&] { return campaign_soak(4, words.data(), request); };
    EXPECT_EQ(in_child(temporary, err, soak), 2);
    EXPECT_THAT(err, HasSubstr("--soak: must be a time"));
    request.soak = "2s";
    request.expect = "/no/such";
    EXPECT_EQ(in_child(temporary, err, soak), 2);
    EXPECT_THAT(err, HasSubstr("--expect: cannot read"));
}

}  // namespace
}  // namespace stress

// Whole campaigns over fake programs, each in its own process: what they print, keep and resume.
#include "campaign/campaign_for_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "campaign/page/html.h"
#include "engine/base/file.h"

namespace stress {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(Campaigns, AllPass)
{
    program("echo \"$pass\" >\"$json\"");
    options_.json_path = temporary_.path("all.json");
    const Ended ended = run();
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
    EXPECT_THAT(ended.out, testing::StartsWith("seed 100\n"));
    EXPECT_THAT(ended.out, testing::EndsWith("4 passed, 0 failed, 0 skipped\n"));
    EXPECT_THAT(ended.out, HasSubstr("pass  random-mixed on system, os, seed 100: 2.00 k ops/s, peak RSS 1.0 MiB, "
                                     "0.5 s\n"));
    EXPECT_THAT(page(), HasSubstr("All 2 mallocs pass</h1>"));
    EXPECT_EQ(result_files(), 4u);
    const std::string json = text_of_file(options_.json_path);
    EXPECT_THAT(json, HasSubstr("\"passed\": 4, \"failed\": 0, \"skipped\": 0, \"verdict\": \"pass\""));
    EXPECT_FALSE(file_exists(options_.json_path + ".new"));
}

TEST_F(Campaigns, OneOfEachKind)
{
    program("case $scenario-$allocator in larson-hakmem) echo \"$pass\" >\"$json\";; larson-system) echo dying >&2;"
            "kill -SEGV $$;; random-mixed-hakmem) echo 'skipped: not here'; exit 77;; *) sleep 30;; esac");
    options_.timeout_seconds = 1;
    options_.list_skips = true;
    options_.run_words = {"--threads", "4"};
    const Ended ended = run();
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.out, testing::EndsWith("1 passed, 2 failed, 1 skipped\n"));
    EXPECT_THAT(ended.out, HasSubstr("failure: crash: signal SIGSEGV; last line of stderr: dying\n"));
    EXPECT_THAT(ended.out, HasSubstr("repeat with: hakmem-stress larson --threads 4 --allocator system --seed 100\n"));
    EXPECT_THAT(ended.out, HasSubstr("failure: hang: the run hangs: used no processor time for 1 s, killed"));
    EXPECT_THAT(ended.out, HasSubstr("skip  random-mixed on hakmem, os, seed 100: skipped: not here\n"));
    EXPECT_THAT(ended.out, HasSubstr("\nskipped: random-mixed on hakmem, os: not here\n"));
    EXPECT_THAT(page(), HasSubstr("<b class=\"fail\">2</b> failed, <b>1</b> skipped"));
    EXPECT_THAT(page(), HasSubstr(html_command("hakmem-stress larson --threads 4 --allocator system --seed 100")));
}

TEST_F(Campaigns, TheRunsOwnCommandIsKeptWithoutOurPart)
{
    program("echo \"{\\\"verdict\\\": \\\"fail\\\", \\\"failures\\\": [{\\\"rule\\\": \\\"r\\\", \\\"detail\\\": "
            "\\\"d\\\"}], \\\"reproduce\\\": "
            "\\\"own words --json $json --expect 7\\\"}\" >\"$json\"; exit 1");
    EXPECT_THAT(run().out, HasSubstr("repeat with: own words --expect 7\n"));
}

TEST_F(Campaigns, SeededRunsGetTheirScheduleAndNoTime)
{
    program("echo \"$*\" >>'" + temporary_.path("words") + "'; echo \"$pass\" >\"$json\"");
    options_.scenarios = {"larson"};
    options_.allocators = {"hakmem"};
    options_.schedules = {"os", "seeded"};
    options_.os_words = {"--seconds", "2"};
    EXPECT_EQ(run().code, 0);
    EXPECT_EQ(text_of_file(temporary_.path("words")),
              "larson --allocator hakmem --seed 100 --seconds 2 --json /proc/self/fd/3\n"
              "larson --allocator hakmem --seed 100 --schedule seeded --json /proc/self/fd/3\n");
}

// With speed_rounds the allocators take turns in each round, and each is the first in one.
TEST_F(Campaigns, UncheckedRunsTakeTurns)
{
    program("echo \"$*\" >>'" + temporary_.path("words") + "'; echo \"$pass\" >\"$json\"");
    options_.scenarios = {"larson"};
    options_.speed_rounds = 2;
    const Ended ended = run();
    EXPECT_EQ(ended.code, 0) << ended.err;
    std::string words = text_of_file(temporary_.path("words"));
    for (const char *always : {" --json /proc/self/fd/3", "larson --allocator "})
        for (std::size_t at; (at = words.find(always)) != std::string::npos;)
            words.erase(at, std::string(always).size());
    EXPECT_EQ(words, "hakmem --seed 100\nsystem --seed 100\n"
                     "hakmem --seed 100 --no-check --no-latency\nsystem --seed 100 --no-check --no-latency\n"
                     "system --seed 101 --no-check --no-latency\nhakmem --seed 101 --no-check --no-latency\n"
                     "hakmem --seed 100 --no-check --latency\nsystem --seed 100 --no-check --latency\n");
    EXPECT_THAT(ended.out, HasSubstr("pass  larson on hakmem, os, unchecked, seed 101: 2.00 k ops/s"));
    EXPECT_THAT(ended.out, testing::ContainsRegex("larson +libc +pass 4 +2.00 k +1.00 +1.00-1.00"));
    EXPECT_THAT(ended.out, testing::EndsWith("8 passed, 0 failed, 0 skipped\n"));
    EXPECT_EQ(result_files(), 8u);
    EXPECT_THAT(page(), HasSubstr("Where it is slow or large"));
}

// A scenario that hakmem-bench has a loop of is timed by `speed`; its other runs are its own. A malloc that dies in the
// loop has no figure.
TEST_F(Campaigns, SpeedIsThatOfALoopWhereThereIsOne)
{
    program("echo \"$*\" >>'" + temporary_.path("words") +
            "'; case $scenario-$allocator in speed-system) kill -SEGV $$;; esac; echo \"$pass\" >\"$json\"");
    options_.scenarios = {"larson"};
    options_.loops = {"larson"};
    options_.run_words = {"--threads", "2"};
    options_.speed_rounds = 1;
    const Ended ended = run();
    EXPECT_EQ(ended.code, 1) << ended.err;
    const std::string words = text_of_file(temporary_.path("words"));
    EXPECT_THAT(words, HasSubstr("\nspeed larson --threads 2 --allocator hakmem --seed 100 --json"));
    EXPECT_THAT(words, HasSubstr("\nlarson --threads 2 --allocator hakmem --seed 100 --no-check --latency --json"));
    EXPECT_THAT(ended.out,
                HasSubstr("repeat with: hakmem-stress speed larson --threads 2 --allocator system --seed 100\n"));
    EXPECT_THAT(ended.out, testing::ContainsRegex("larson +libc +FAIL 1 of 3 +- +- +-"));
}

// A known failure does not fail the campaign, and one that is mended does.
TEST_F(Campaigns, KnownFailures)
{
    program("case $scenario-$allocator in larson-hakmem) kill -SEGV $$;; *) echo \"$pass\" >\"$json\";; esac");
    options_.junit_path = temporary_.path("junit.xml");
    const std::string line = "larson hakmem crash # it is known\n";
    ASSERT_EQ(options_.expected.parse("known", line, options_.scenarios), "");
    const Ended ended = run();
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("known  larson on hakmem, os, seed 100"));
    EXPECT_THAT(ended.out, HasSubstr("  known: it is known\n"));
    EXPECT_THAT(ended.out, testing::EndsWith("3 passed, 0 failed, 0 skipped, 1 known to fail\n"));
    EXPECT_THAT(page(), HasSubstr("All 2 mallocs pass</h1>"));
    EXPECT_THAT(page(), HasSubstr("<b>Known:</b> it is known"));
    EXPECT_THAT(text_of_file(options_.junit_path), HasSubstr("tests=\"4\" failures=\"0\" errors=\"0\" skipped=\"1\""));
    // Another malloc's line, and a rule that no longer comes.
    ASSERT_EQ(options_.expected.parse("known", "larson other crash # x\nrandom-mixed overlap # y", options_.scenarios),
              "");
    const Ended mended = run();
    EXPECT_EQ(mended.code, 1);
    EXPECT_THAT(mended.out, HasSubstr("mended: known:2: random-mixed no longer fails by overlap; take the line out\n"));
    EXPECT_THAT(text_of_file(options_.junit_path), HasSubstr("tests=\"5\" failures=\"1\""));
}

// The next day begins with the seeds that failed, and a seed that passes now stays.
TEST_F(Campaigns, KeptSeedsComeFirst)
{
    const std::string words = temporary_.path("words");
    const std::string body = "echo \"$*\" | cut -d' ' -f 1-5 >>'" + words + "'; ";
    options_.kept_path = temporary_.path("seeds");
    program(body + "case $scenario-$allocator in larson-system) kill -SEGV $$;; *) echo \"$pass\" >\"$json\";; esac");
    EXPECT_EQ(run().code, 1);
    EXPECT_EQ(text_of_file(options_.kept_path), "100 larson os crash system\n");
    unlink(words.c_str());
    options_.seed = 200;
    program(body + "echo \"$pass\" >\"$json\"");
    const Ended ended = run();
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.out, testing::StartsWith("seed 200\nruns of kept seeds first: 1\npass  larson on system"));
    EXPECT_THAT(ended.out, testing::EndsWith("5 passed, 0 failed, 0 skipped\n"));
    EXPECT_THAT(text_of_file(words), testing::StartsWith("larson --allocator system --seed 100\n"
                                                         "larson --allocator hakmem --seed 200\n"));
    EXPECT_EQ(text_of_file(options_.kept_path), "100 larson os crash system\n");
    EXPECT_EQ(result_files(), 5u);
}

// A soak that resumes makes each kept run once, also when the file has grown meanwhile.
TEST_F(Campaigns, KeptSeedsOfASoak)
{
    const std::string words = temporary_.path("words");
    options_.kept_path = temporary_.path("seeds");
    ASSERT_EQ(
        file_replace(options_.kept_path, "7 mid os crash system\n7 larson os crash system\n8 larson os x hakmem\n"),
        "");
    program("echo \"$*\" | cut -d' ' -f 1-5 >>'" + words + "'; echo \"$pass\" >\"$json\"");
    for (const double seconds : {0.3, 0.6}) {
        options_.soak_seconds = seconds;
        EXPECT_EQ(run().code, 0);
        ASSERT_EQ(file_replace(options_.kept_path, "9 larson os crash system\n7 larson os crash system\n"), "");
    }
    EXPECT_THAT(text_of_file(words), testing::StartsWith("larson --allocator system --seed 7\n"
                                                         "larson --allocator hakmem --seed 8\n"
                                                         "larson --allocator hakmem --seed 100\n"));
    for (const char *once : {"--seed 7\n", "--seed 8\n"}) {
        const std::string text = text_of_file(words);
        EXPECT_EQ(text.find(once), text.rfind(once));
    }
    EXPECT_THAT(text_of_file(words), Not(HasSubstr("--seed 9\n")));
}

// A resumed soak remembers which of its failures were known.
TEST_F(Campaigns, KnownFailuresOfASoak)
{
    program("case $scenario-$allocator in larson-hakmem) kill -SEGV $$;; *) echo \"$pass\" >\"$json\";; esac");
    options_.junit_path = temporary_.path("junit.xml");
    options_.soak_seconds = 0.5;
    ASSERT_EQ(options_.expected.parse("known", "larson hakmem crash # it is known\n", options_.scenarios), "");
    EXPECT_EQ(run().code, 0);
    EXPECT_EQ(run().code, 0) << "resumed when its time is over: no run is left";
    EXPECT_THAT(text_of_file(options_.junit_path), HasSubstr("tests=\"4\" failures=\"0\" errors=\"0\" skipped=\"1\""));
    EXPECT_THAT(text_of_file(options_.junit_path), HasSubstr("known failure: "));
    ASSERT_EQ(options_.expected.parse("known", "larson crash # it came on one malloc of two", options_.scenarios), "");
    EXPECT_EQ(run().code, 0) << "nothing is mended";
    ASSERT_EQ(options_.expected.parse("known", "random-mixed overlap # y", options_.scenarios), "");
    EXPECT_EQ(run().code, 1);
    EXPECT_THAT(text_of_file(options_.junit_path), HasSubstr("random-mixed no longer fails by overlap"));
}

// What passed is not hidden by a run that was skipped, as one is on a busy machine.
TEST_F(Campaigns, ASoakPassesWhereSomeRunsAreSkipped)
{
    const std::string flag = temporary_.path("skipped");
    program("[ -e '" + flag + "' ] || { : >'" + flag +
            "'; echo 'skipped: not now'; exit 77; }; echo \"$pass\" >\"$json\"");
    options_.scenarios = {"larson"};
    options_.allocators = {"hakmem"};
    options_.junit_path = temporary_.path("junit.xml");
    options_.soak_seconds = 1.5;
    EXPECT_EQ(run().code, 0);
    EXPECT_EQ(state().cells.at(0).skipped, 1u);
    EXPECT_GT(state().cells.at(0).passed, 0u);
    EXPECT_THAT(text_of_file(options_.junit_path), HasSubstr("tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"0\""));
}

TEST_F(Campaigns, JsonOnStdoutIsAlone)
{
    program("echo \"$pass\" >\"$json\"");
    options_.json_path = "-";
    options_.report_directory = "";
    const Ended ended = run();
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out.front(), '{');
    EXPECT_THAT(ended.err, HasSubstr("4 passed"));
    EXPECT_THAT(ended.out, Not(HasSubstr("ops/s")));
    EXPECT_THAT(ended.out, testing::EndsWith("\"verdict\": \"pass\"}\n"));
}

TEST_F(Campaigns, InterruptedItSaysSoAndFails)
{
    program("case $scenario in larson) echo \"$pass\" >\"$json\";; *) sleep 60;; esac");
    const pid_t child = start();
    for (int i = 0; i < 500 && result_files() < 2; ++i) usleep(10000);
    kill(child, SIGINT);
    const Ended ended = end(child);
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.out, HasSubstr("interrupted after 2 of 4 runs\n"));
    EXPECT_THAT(ended.out, testing::EndsWith("2 passed, 0 failed, 0 skipped\n"));
    EXPECT_THAT(page(), HasSubstr("All 2 mallocs pass, so far</h1>"));
}

TEST_F(Campaigns, ASoakCountsSeedsUpAndCheckpoints)
{
    program("echo $seed >>'" + temporary_.path("seeds") + "'; sleep 0.02; echo \"$pass\" >\"$json\"");
    options_.soak_seconds = 1.5;
    options_.checkpoint_seconds = 0.4;
    const Ended ended = run();
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(text_of_file(temporary_.path("seeds")), testing::StartsWith("100\n100\n100\n100\n101\n101\n"));
    EXPECT_THAT(ended.out, testing::ContainsRegex("checkpoint: [0-9.]+ s of 1.5 s, [0-9]+ runs, 0 failed\n"));
    EXPECT_THAT(ended.out, HasSubstr("0 failed\ncheckpoint: ")); // at least one more run
    EXPECT_THAT(ended.out, Not(HasSubstr("pass  larson"))); // passes are only counted
    EXPECT_THAT(ended.out, HasSubstr("soak of 1.5 s complete"));
    const SoakState kept = state();
    EXPECT_EQ(kept.passed, kept.next_run);
    EXPECT_EQ(kept.cells.size(), 4u);
    // The same command again finds nothing left to do.
    const Ended again = run();
    EXPECT_EQ(again.code, 0);
    EXPECT_EQ(state().next_run, kept.next_run);
    // With --fresh it starts over.
    options_.fresh = true;
    options_.soak_seconds = 0.1;
    EXPECT_EQ(run().code, 0);
    EXPECT_LT(state().next_run, kept.next_run);
    EXPECT_EQ(result_files(), state().next_run);
}

// However often it is killed, the soak continues where it was: no run is lost, none is counted twice, and every cell
// uses every seed, in order.
TEST_F(Campaigns, KilledInMidSoakItResumes)
{
    program("case $((seed % 3)) in 0) kill -ABRT $$;; esac; sleep 0.02; echo \"$pass\" >\"$json\"");
    options_.soak_seconds = 3600;
    std::uint64_t runs = 0;
    for (int kills = 0; kills < 5; ++kills) {
        const pid_t child = start();
        wait_for_runs(runs + 5);
        usleep(static_cast<useconds_t>(kills * 7000));
        kill(child, SIGKILL);
        EXPECT_EQ(end(child).code, -1);
        const SoakState kept = state();
        EXPECT_EQ(kept.passed + kept.failed, kept.next_run);
        EXPECT_LE(kept.next_run, result_files() + 0u); // every counted run has its result
        EXPECT_LE(result_files(), kept.next_run + 1); // at most the run in progress is not counted yet
        EXPECT_GE(kept.next_run, runs + 5);
        runs = kept.next_run;
    }
    // Uses up the rest of the time, then judges the whole soak. On a busy machine the first write of the state may take
    // all of it.
    Ended ended;
    for (int tries = 0; tries < 20 && state().next_run == runs; ++tries) {
        options_.soak_seconds = state().elapsed_seconds + 0.3;
        ended = run();
    }
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.out, HasSubstr("resumed at run " + std::to_string(runs + 1)));
    const SoakState last = state();
    EXPECT_GT(last.next_run, runs);
    EXPECT_EQ(result_files(), last.next_run);
    std::uint64_t failed = 0;
    for (std::uint64_t i = 0; i < last.next_run; ++i) failed += (100 + i / 4) % 3 == 0;
    EXPECT_EQ(last.failed, failed);
    EXPECT_EQ(last.passed, last.next_run - failed);
    std::uint64_t number = 0;
    for (const std::string &name : directory_names(options_.report_directory + "/results")) {
        const RunRecord record = record_read(text_of_file(options_.report_directory + "/results/" + name));
        EXPECT_EQ(record.seed, 100 + number / 4) << name;
        ++number;
    }
    EXPECT_THAT(page(), HasSubstr("<b class=\"fail\">" + std::to_string(failed) + "</b> failed"));
}

TEST_F(Campaigns, TerminatedItTellsHowToResume)
{
    program("sleep 0.02; echo \"$pass\" >\"$json\"");
    options_.soak_seconds = 3600;
    const pid_t child = start();
    wait_for_runs(3);
    kill(child, SIGTERM);
    const Ended ended = end(child);
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.out, HasSubstr("interrupted; to resume: hakmem-stress all --report report\n"));
    EXPECT_THAT(page(), HasSubstr(", so far</h1>"));
    EXPECT_EQ(state().passed, state().next_run);
}

// Bad state gives one line on stderr and status 2, and leaves the file unchanged.
TEST_F(Campaigns, AStateThatIsNotOursIsLeftAlone)
{
    program("echo \"$pass\" >\"$json\"");
    options_.soak_seconds = 3600;
    const pid_t child = start();
    wait_for_runs(1);
    kill(child, SIGTERM);
    ASSERT_EQ(end(child).code, 1);
    options_.soak_seconds = 0.2;
    const std::string path = options_.report_directory + "/soak.json", good = text_of_file(path);
    const auto expect_refused = [&](const std::string &kept, const std::string &says) {
        const Ended ended = run();
        EXPECT_EQ(ended.code, 2);
        EXPECT_EQ(ended.out, "");
        EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
        EXPECT_THAT(ended.err, testing::StartsWith("hakmem-stress: --soak: "));
        EXPECT_THAT(ended.err, HasSubstr(says));
        EXPECT_THAT(ended.err, HasSubstr("add --fresh to start over, or name another --report directory"));
        EXPECT_EQ(text_of_file(path), kept);
        EXPECT_GT(result_files(), 0u);
    };
    write_file(path, good.substr(0, good.size() / 2));
    expect_refused(good.substr(0, good.size() / 2), "cannot be resumed");
    write_file(path, good);
    options_.seed = 7;
    expect_refused(good, "from seed 100");
    options_.seed = 100;
    options_.run_words = {"--threads", "8"};
    expect_refused(good, "with other options (larson, random-mixed on hakmem, system; schedule os)");
    options_.run_words.clear();
    EXPECT_EQ(run().code, 0);
}

TEST_F(Campaigns, BadInputOfTheCampaign)
{
    program("echo \"$pass\" >\"$json\"");
    options_.kept_path = "/no/such/directory/x";
    EXPECT_THAT(run().err, HasSubstr("--seeds: cannot write '/no/such/directory/x': "));
    options_.kept_path = "";
    options_.json_path = "/no/such/directory/x";
    EXPECT_EQ(run().code, 2);
    options_.soak_seconds = 1;
    EXPECT_THAT(run().err, HasSubstr("leave --json out"));
    options_.json_path = "";
    options_.report_directory = "";
    EXPECT_THAT(run().err, HasSubstr("add --report DIR"));
    options_.report_directory = "/proc/no";
    EXPECT_EQ(run().code, 2);
}

// A disk that fills up must not look like a pass.
TEST_F(Campaigns, WhatCannotBeKeptEndsIt)
{
    program("rm -rf '" + temporary_.path("report/results") + "'; echo \"$pass\" >\"$json\"");
    const Ended ended = run();
    EXPECT_EQ(ended.code, 3);
    EXPECT_THAT(ended.err, HasSubstr("cannot write"));
    EXPECT_THAT(ended.out, testing::EndsWith("1 passed, 0 failed, 0 skipped\n"));
}

} // namespace
} // namespace stress

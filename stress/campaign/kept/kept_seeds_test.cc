// The file of seeds that failed.
#include "campaign/kept/kept_seeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "campaign/temporary_for_test.h"
#include "engine/base/file.h"

namespace stress {
namespace {

using testing::HasSubstr;

std::vector<CampaignCell> cells()
{
    std::vector<CampaignCell> all;
    for (const char *scenario : {"larson", "mid"})
        for (const char *allocator : {"hakmem", "/opt/a b/lib x.so"})
            for (const char *schedule : {"os", "seeded"}) {
                CampaignCell cell;
                cell.scenario = scenario, cell.allocator = allocator, cell.schedule = schedule;
                all.push_back(cell);
            }
    CampaignCell timed = all[0];
    timed.mode = RunMode::Speed;
    all.push_back(timed);
    return all;
}

RunRecord failed(const CampaignCell &cell, std::uint64_t seed)
{
    RunRecord record;
    record.scenario = cell.scenario, record.allocator = cell.allocator, record.schedule = cell.schedule;
    record.seed = seed;
    record.failures = {{"overlap", "x"}, {"content", "y"}, {"overlap", "z"}};
    return record;
}

// Law: what is added to a file, by any number of processes one after another, is what a campaign of the same cells begins
// with, once each and in that order; and what N shards begin with is together the same, nothing twice.
TEST(KeptSeeds, WhatWasAddedComesBackOnce)
{
    Temporary temporary;
    const std::string path = temporary.path("seeds");
    const auto all = cells();
    std::vector<std::pair<std::size_t, std::uint64_t>> added;
    for (std::uint64_t turn = 0; turn < 40; ++turn) {
        KeptSeeds file;
        ASSERT_EQ(file.open(path), "");
        const std::size_t cell = turn * 5 % 8;
        const std::uint64_t seed = turn % 3 == 0 ? UINT64_MAX : turn % 7;
        ASSERT_EQ(file.add(failed(all[cell], seed)), "");
        if (std::find(added.begin(), added.end(), std::pair{cell, seed}) == added.end()) added.emplace_back(cell, seed);
    }
    KeptSeeds file;
    ASSERT_EQ(file.open(path), "");
    for (std::uint64_t stride : {1u, 2u, 3u, 7u, 100u}) {
        std::vector<std::pair<std::size_t, std::uint64_t>> together(added.size());
        for (std::uint64_t shard = 0; shard < stride; ++shard) {
            std::size_t at = shard;
            for (const FirstRun &run : file.runs_of(all, shard, stride)) {
                ASSERT_LT(at, together.size());
                together[at] = {run.cell, run.seed};
                at += stride;
            }
        }
        EXPECT_EQ(together, added) << stride << " shards";
    }
    EXPECT_TRUE(file.runs_of({}).empty()) << "lines of other scenarios and mallocs are left alone";
}

TEST(KeptSeeds, ALineIsForReadersToo)
{
    Temporary temporary;
    const std::string path = temporary.path("seeds");
    ASSERT_EQ(file_replace(path, "# seeds that failed\n\n7 mid os crash hakmem"), "");
    KeptSeeds file;
    ASSERT_EQ(file.open(path), "");
    ASSERT_EQ(file.add(failed(cells()[2], 42)), "");
    std::string text;
    ASSERT_EQ(file_read(path, text), "");
    EXPECT_EQ(text, "# seeds that failed\n\n7 mid os crash hakmem\n42 larson os overlap,content lib x.so\n");
}

// Adds seeds from `first` on in a process that waits until the pipe is closed.
pid_t start_to_add(const std::string &path, const int (&gate)[2], std::uint64_t first, std::uint64_t count)
{
    const pid_t child = fork();
    if (child != 0) return child;
    close(gate[1]);
    KeptSeeds file;
    bool good = file.open(path).empty();
    for (char byte; ::read(gate[0], &byte, 1) < 0;) {}
    for (std::uint64_t seed = first; good && seed < first + count; ++seed)
        good = file.add(failed(cells()[0], seed)).empty();
    _exit(good ? 0 : 1);
}

// Law: whatever the file held, two processes that add at once lose no line of it and none of their own, and a seed that both
// added runs once.
TEST(KeptSeeds, TwoProcessesThatAddAtOnceLoseNothing)
{
    constexpr std::uint64_t kCount = 40, kShared = 10;
    for (const char *begins : {"", "# a comment", "5000 mid os crash hakmem", "5000 mid os crash hakmem\n"}) {
        Temporary temporary;
        const std::string path = temporary.path("seeds");
        ASSERT_EQ(file_replace(path, begins), "");
        int gate[2];
        ASSERT_EQ(pipe(gate), 0);
        const pid_t children[] = {start_to_add(path, gate, 0, kCount),
                                  start_to_add(path, gate, kCount - kShared, kCount)};
        close(gate[0]), close(gate[1]);
        for (const pid_t child : children) {
            int status = -1;
            waitpid(child, &status, 0);
            EXPECT_EQ(status, 0);
        }
        std::string text;
        ASSERT_EQ(file_read(path, text), "");
        EXPECT_THAT(text, testing::StartsWith(begins));
        KeptSeeds file;
        ASSERT_EQ(file.open(path), "");
        std::set<std::uint64_t> seeds;
        const std::vector<FirstRun> runs = file.runs_of(cells());
        for (const FirstRun &run : runs) seeds.insert(run.seed);
        const std::uint64_t before = begins[0] == '5';
        EXPECT_EQ(seeds.size(), 2 * kCount - kShared + before) << "'" << begins << "'";
        EXPECT_EQ(runs.size(), seeds.size()) << "none twice";
    }
}

// Law: however much room there is, a line is added as a whole or not at all.
TEST(KeptSeeds, WhatDoesNotFitLeavesNoPart)
{
    const std::string before = "7 mid os crash hakmem", line = "\n42 larson os overlap,content hakmem\n";
    for (std::size_t room = 0; room <= line.size(); ++room) {
        Temporary temporary;
        const std::string path = temporary.path("seeds");
        ASSERT_EQ(file_replace(path, before), "");
        const pid_t child = fork();
        if (child == 0) {
            const rlimit limit{before.size() + room, before.size() + room};
            std::signal(SIGXFSZ, SIG_IGN);
            KeptSeeds file;
            if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || !file.open(path).empty()) _exit(2);
            _exit(file.add(failed(cells()[0], 42)).empty() ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        const bool fits = room == line.size();
        EXPECT_EQ(WEXITSTATUS(status), fits ? 0 : 1) << room;
        EXPECT_EQ(text_of_file(path), fits ? before + line : before) << room;
    }
}

TEST(KeptSeeds, ALineThatStandsTwiceRunsOnce)
{
    Temporary temporary;
    const std::string path = temporary.path("seeds");
    ASSERT_EQ(file_replace(path, "7 mid os crash hakmem\n8 mid os crash hakmem\n7 mid os overlap hakmem\n"), "");
    KeptSeeds file;
    ASSERT_EQ(file.open(path), "");
    EXPECT_EQ(file.runs_of(cells()).size(), 2u);
}

TEST(KeptSeeds, ASymbolicLinkStays)
{
    Temporary temporary;
    const std::string link = temporary.path("link"), path = temporary.path("seeds");
    ASSERT_EQ(symlink("seeds", link.c_str()), 0);
    KeptSeeds file;
    ASSERT_EQ(file.open(link), "") << "its file is not there yet";
    for (const std::uint64_t seed : {7u, 8u}) ASSERT_EQ(file.add(failed(cells()[0], seed)), "");
    char target[16];
    EXPECT_EQ(readlink(link.c_str(), target, sizeof target), 5);
    EXPECT_EQ(text_of_file(path), "7 larson os overlap,content hakmem\n8 larson os overlap,content hakmem\n");
}

TEST(KeptSeeds, ABadLineIsNamed)
{
    Temporary temporary;
    const std::string path = temporary.path("seeds");
    for (const char *line : {"x larson os crash hakmem", "-1 larson os crash hakmem", "1 larson os crash",
                             "1 larson never crash hakmem", "1", "18446744073709551616 larson os crash hakmem"}) {
        ASSERT_EQ(file_replace(path, std::string("# ok\n1 larson os crash hakmem\n") + line + "\n"), "");
        KeptSeeds file;
        EXPECT_THAT(file.open(path), HasSubstr(":3: must be SEED SCENARIO SCHEDULE RULES ALLOCATOR, not '")) << line;
    }
}

TEST(KeptSeeds, WithoutAFileNothingIsKept)
{
    KeptSeeds file;
    EXPECT_EQ(file.open(""), "");
    EXPECT_EQ(file.add(failed(cells()[0], 1)), "");
    EXPECT_TRUE(file.runs_of(cells()).empty());
}

// Before the first run, as for --json: an hour of work must not end in a seed that cannot be kept.
TEST(KeptSeeds, AFileThatCannotBeWrittenIsRefusedAtOnce)
{
    Temporary temporary;
    for (const std::string &path : {temporary.path("no/seeds"), temporary.path(""), std::string("/dev/full")}) {
        KeptSeeds file;
        EXPECT_THAT(file.open(path), HasSubstr("cannot write '" + path + "'"));
    }
}

} // namespace
} // namespace stress

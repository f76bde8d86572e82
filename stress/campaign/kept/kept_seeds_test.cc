// The file of seeds that failed.
#include "campaign/kept/kept_seeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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
    for (std::uint64_t stride : {1, 2, 3, 7, 100}) {
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
    KeptSeeds nowhere;
    EXPECT_EQ(nowhere.open("/nowhere/seeds"), "");
    EXPECT_NE(nowhere.add(failed(cells()[0], 1)), "") << "a seed that cannot be kept is said";
}

} // namespace
} // namespace stress

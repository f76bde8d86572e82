// Folders of workers: joined by rule, frames and build; a run counts once; each cut file is one line.
#include "campaign/merge/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "campaign/record.h"
#include "campaign/soak_state.h"
#include "campaign/temporary_for_test.h"
#include "engine/base/file.h"

namespace stress {
namespace {

using testing::HasSubstr;

const char *const kStack = "  thread 7, which crashed:\n"
                           "    #0 raise (sig=6) at raise.c:26\n"
                           "    #1 0x00007f00 in inner () from /a/libx.so\n"
                           "    #2 0x00007f01 in free () from /a/libx.so\n"
                           "    #3 0x00005501 in Interp::release(Op const&) ()\n"
                           "  thread 8:\n"
                           "    #0 0x00007f02 in other () from /a/libx.so\n";

class Merge : public testing::Test {
  protected:
    void worker(const std::string &name, std::uint64_t runs)
    {
        SoakState state;
        state.next_run = runs;
        state.elapsed_seconds = 60;
        ASSERT_EQ(directory_make(path(name) + "/results"), "");
        ASSERT_EQ(file_replace(path(name) + "/soak.json", soak_state_text(state)), "");
    }

    void run(const std::string &name, std::uint64_t seed, const std::string &rule, const std::string &stack = "",
             const std::string &build = "ab12")
    {
        RunRecord record;
        record.scenario = "larson";
        record.allocator = "/a/libx.so";
        record.seed = seed;
        record.build_id = build;
        record.err_end = stack;
        record.reproduce = "hakmem-stress larson --seed " + std::to_string(seed);
        record.verdict = rule.empty() ? RunVerdict::Pass : RunVerdict::Fail;
        if (!rule.empty()) record.failures = {{rule, "at seed " + std::to_string(seed)}, {rule, "again"}};
        const std::string file = "/results/0000000" + std::to_string(seed) + "-larson.json";
        ASSERT_EQ(file_replace(path(name) + file, record_json(record, "")), "");
    }

    std::string path(const std::string &name) { return directory_.path(name); }

    int merge(const std::vector<std::string> &names)
    {
        MergeOptions options;
        for (const std::string &name : names) options.directories.push_back(path(name));
        options.out = path("out");
        testing::internal::CaptureStdout();
        const int status = merge_run(options);
        said_ = testing::internal::GetCapturedStdout();
        file_read(path("out/failures.ndjson"), lines_);
        file_read(path("out/index.html"), page_);
        file_read(path("out/junit.xml"), junit_);
        return status;
    }

    Temporary directory_;
    std::string said_, lines_, page_, junit_;
};

TEST_F(Merge, ABugThatThreeWorkersSawIsOneLine)
{
    for (const char *name : {"a", "b", "c"}) worker(name, 10);
    run("a", 1, "overlap");
    run("b", 2, "overlap");
    run("c", 3, "overlap");
    run("c", 6, "");
    EXPECT_EQ(merge({"a", "b", "c"}), 1);
    EXPECT_EQ(std::count(lines_.begin(), lines_.end(), '\n'), 1);
    const nlohmann::json line = nlohmann::json::parse(lines_);
    EXPECT_EQ(line["runs"], 3);
    EXPECT_EQ(line["workers"].size(), 3u);
    EXPECT_EQ(line["reproduce"], "hakmem-stress larson --seed 1");
    EXPECT_THAT(said_, HasSubstr("1 failures joined, 30 runs of 3 workers"));
    EXPECT_THAT(junit_, HasSubstr("failures=\"1\""));
    EXPECT_THAT(page_, HasSubstr("ab12"));
}

TEST_F(Merge, OtherFramesBuildsAndRulesStayApart)
{
    worker("a", 10);
    run("a", 1, "crash", kStack);
    run("a", 2, "crash");
    run("a", 3, "crash", kStack, "cd34");
    run("a", 4, "hang", kStack);
    EXPECT_EQ(merge({"a"}), 1);
    EXPECT_EQ(std::count(lines_.begin(), lines_.end(), '\n'), 4);
    EXPECT_THAT(lines_, HasSubstr("\"frames\":[\"inner\",\"free\"]"));
}

TEST_F(Merge, NothingIsLostOrDoubled)
{
    worker("a", 10);
    worker("b", 10);
    run("a", 1, "overlap");
    run("b", 1, "overlap"); // a copy of the folder
    run("b", 2, "overlap");
    run("b", 5, "content");
    ASSERT_EQ(file_replace(path("b/results/00000005-larson.json"), "{\"scenario\": \"lars"), "");
    ASSERT_EQ(file_replace(path("b/results/00000007-larson.json.new"), "{"), ""); // the run of a worker that was killed
    ASSERT_EQ(directory_make(path("c/results")), "");
    EXPECT_EQ(merge({"a", "b", "b", "b/", "./b", "c"}), 1);
    EXPECT_EQ(nlohmann::json::parse(lines_)["runs"], 2);
    EXPECT_THAT(said_, HasSubstr("1 runs were in more than one folder"));
    EXPECT_THAT(said_, HasSubstr("b/results/00000005-larson.json: no complete JSON"));
    EXPECT_THAT(said_, HasSubstr("c/soak.json: "));
    EXPECT_THAT(said_, HasSubstr("20 runs of 3 workers in"));
    EXPECT_THAT(said_, HasSubstr(", 2 cut"));
}

TEST_F(Merge, PassesIfNothingFailed)
{
    worker("a", 10);
    run("a", 1, "");
    EXPECT_EQ(merge({"a"}), 0);
    EXPECT_EQ(lines_, "");
}

} // namespace
} // namespace stress

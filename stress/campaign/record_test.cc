#include "campaign/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "campaign/runs_for_test.h"

namespace stress {
namespace {

using testing::HasSubstr;

TEST(Record, ReadsEveryField)
{
    std::string fault;
    const RunRecord run = record_read(made_up_campaign().results[1], &fault);
    EXPECT_EQ(fault, "");
    EXPECT_EQ(run.verdict, RunVerdict::Pass);
    EXPECT_EQ(run.scenario, "larson");
    EXPECT_EQ(run.schedule, "seeded");
    EXPECT_EQ(run.schedule_hash, "9f3c2a7be1d40586");
    EXPECT_EQ(run.seed, 42u);
    EXPECT_EQ(run.logical_clock, 812345u);
    EXPECT_EQ(run.vma_count_peak, 43u);
    EXPECT_EQ(run.malloc_ns.p50, 210u);
    EXPECT_EQ(run.realloc_ns.count, 123456u);
    ASSERT_EQ(run.samples.size(), 256u);
    EXPECT_EQ(run.samples.back().seconds, 2);
}

TEST(Record, MissingKeysAreNotMeasured)
{
    std::string fault;
    const RunRecord run = record_read(R"({"scenario": "larson", "verdict": "pass"})", &fault);
    EXPECT_EQ(fault, "");
    EXPECT_EQ(run.verdict, RunVerdict::Pass);
    EXPECT_EQ(run.schedule, "os");
    EXPECT_FALSE(run.peak_rss_bytes.has_value());
    EXPECT_EQ(run.malloc_ns.count, 0u);
}

// A result cut at any byte becomes a failing record that says so; the complete one does not.
TEST(Record, CutAnywhereItFails)
{
    const std::string whole = R"({"scenario": "x", "verdict": "pass", "samples": [[0, 1, 2, 3]], "failures": []})";
    for (std::size_t length = 0; length < whole.size(); ++length) {
        std::string fault;
        const RunRecord run = record_read(whole.substr(0, length), &fault);
        ASSERT_EQ(run.verdict, RunVerdict::Fail) << length;
        ASSERT_NE(fault, "") << length;
        ASSERT_EQ(run.failures.size(), 1u);
        ASSERT_THAT(run.failures[0].detail, HasSubstr("cannot be used"));
    }
    EXPECT_EQ(record_read(whole).verdict, RunVerdict::Pass);
}

TEST(Record, EveryValueOfTheWrongKindIsTaken)
{
    const std::vector<std::string> values{
        "null",     "true", "-1", "1e300", "18446744073709551615",
        "\"text\"", "[]",   "{}", "[[1]]", "[[0,1,2,3],[-1,0,0,0],[\"a\",1,2,3],[1,1e300,2,3]]",
        "1.5"};
    for (const char *key : {"scenario", "seed", "ops", "seconds", "ops_per_second", "peak_rss_bytes", "latency_ns",
                            "samples", "failures", "verdict", "check", "reproduce", "schedule"})
        for (const std::string &value : values) {
            const RunRecord run = record_read("{\"" + std::string(key) + "\": " + value + "}");
            EXPECT_EQ(run.verdict, RunVerdict::Fail);  // no verdict, or a bad one
            for (const RunSample &sample : run.samples) EXPECT_GE(sample.seconds, 0);
        }
    for (const char *text : {"[]", "1", "\"x\"", "null", "{\"seed\": 1e999}", "\xff\xfe", "{}{}"})
        EXPECT_EQ(record_read(text).verdict, RunVerdict::Fail) << text;
    EXPECT_EQ(record_read(std::string(200000, '[')).verdict, RunVerdict::Fail);
}

TEST(Record, SamplesAscend)
{
    const RunRecord run =
        record_read(R"({"verdict": "pass", "samples": [[1, 1, 1, 1], [0.5, 2, 2, 2], [2, 3, 3, 3]]})");
    ASSERT_EQ(run.samples.size(), 2u);
    EXPECT_EQ(run.samples[1].live_bytes, 3);
}

TEST(Record, AVerdictThatContradictsItselfFails)
{
    EXPECT_EQ(record_read(R"({"verdict": "pass", "failures": [{"rule": "r"}]})").verdict, RunVerdict::Fail);
    EXPECT_EQ(record_read(R"({"verdict": "fail", "failures": []})").failures.size(), 1u);
    EXPECT_EQ(record_read(R"({"verdict": "maybe"})").verdict, RunVerdict::Fail);
}

TEST(Record, WhatTheCampaignAddsIsReadBack)
{
    RunRecord run = record_read(R"({"verdict": "pass", "ops": 7, "custom": "kept"})");
    run.scenario = "larson";
    run.allocator = "a\"b";
    run.seed = UINT64_MAX;
    run.verdict = RunVerdict::Fail;
    run.failures = {{"crash", "signal \xff SIGSEGV"}};
    run.reproduce = "do 'it' again";
    const std::string json =
        record_json(run, R"({"verdict": "pass", "ops": 7, "custom": "kept", "loop": "mixed-1024"})");
    EXPECT_THAT(json, HasSubstr("kept"));
    const RunRecord again = record_read(json);
    EXPECT_EQ(again.seed, UINT64_MAX);
    EXPECT_EQ(again.ops, 7u);
    EXPECT_EQ(again.loop, "mixed-1024");
    EXPECT_EQ(again.allocator, "a\"b");
    ASSERT_EQ(again.failures.size(), 1u);
    EXPECT_EQ(again.failures[0].rule, "crash");
    EXPECT_EQ(again.reproduce, run.reproduce);
    EXPECT_EQ(record_read(record_json(run, "no JSON")).failures.size(), 1u);
}

}  // namespace
}  // namespace stress

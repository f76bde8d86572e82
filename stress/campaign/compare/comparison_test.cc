#include "campaign/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "campaign/compare/comparison_text.h"
#include "campaign/compare/labels.h"

namespace stress {
namespace {

using testing::HasSubstr;

RunRecord run(const std::string &allocator, RunMode mode, std::uint64_t seed, double ops_per_second)
{
    RunRecord record;
    record.verdict = RunVerdict::Pass;
    record.mode = mode;
    record.scenario = "larson";
    record.allocator = allocator;
    record.seed = seed;
    record.ops_per_second = ops_per_second;
    return record;
}

RunRecord checked(const std::string &allocator, std::uint64_t start, std::uint64_t peak)
{
    RunRecord record = run(allocator, RunMode::Check, 1, 5);
    record.start_rss_bytes = start;
    record.peak_rss_bytes = peak;
    record.peak_live_bytes = 100;
    record.malloc_ns = {1, 10, 20, 30, 40, 50};
    return record;
}

Comparison of(std::vector<RunRecord> runs)
{
    label_runs(runs);
    return comparison_of(runs);
}

TEST(Comparison, RatiosAreWithinARound)
{
    // The machine was slow in round 2: medians of 20 and 40, but three times as fast in each round that both ran in.
    const Comparison compared = of({run("hakmem", RunMode::Speed, 1, 60), run("system", RunMode::Speed, 1, 20),
                                    run("hakmem", RunMode::Speed, 2, 6), run("system", RunMode::Speed, 2, 2),
                                    run("hakmem", RunMode::Speed, 3, 30), run("system", RunMode::Speed, 3, 15),
                                    run("hakmem", RunMode::Speed, 4, 9)});
    EXPECT_EQ(compared.baseline, "libc");
    ASSERT_EQ(compared.scenarios.size(), 1u);
    const ComparedRow &ours = compared.scenarios[0].rows[0], &libc = compared.scenarios[0].rows[1];
    EXPECT_EQ(ours.label, "hakmem");
    EXPECT_EQ(ours.ops_per_second, 19.5);
    EXPECT_EQ(ours.ratio, 3);
    EXPECT_EQ(ours.ratio_low, 2);
    EXPECT_EQ(ours.ratio_high, 3);
    EXPECT_EQ(libc.ratio, 1);
    EXPECT_DOUBLE_EQ(*compared.totals[0].ratio, 3);
}

TEST(Comparison, TheTextSaysWhatTheThroughputIsOf)
{
    RunRecord loop = run("system", RunMode::Speed, 1, 20), own = run("system", RunMode::Speed, 1, 20);
    loop.loop = "mixed-1024";
    loop.scenario = "random-mixed";
    EXPECT_THAT(comparison_text(of({own})), HasSubstr("within a round; with the suite's own work for each call\n"));
    const std::string alone =
        "within a round; in random-mixed of malloc and free alone, in the loops of ci/bench times";
    EXPECT_THAT(comparison_text(of({loop})), HasSubstr(alone + "\n"));
    EXPECT_THAT(comparison_text(of({loop, own})),
                HasSubstr(alone + "; elsewhere, and in the mean, with the suite's own work for each call\n"));
}

TEST(Comparison, TheMeanIsOfOneKindOfThroughput)
{
    std::vector<RunRecord> runs;
    for (const auto &[scenario, loop, ours] :
         {std::tuple("larson", "larson", 90.0), {"mid", "", 20.0}, {"fork", "", 80.0}})
        for (const auto &[allocator, rate] : {std::pair("system", 10.0), {"hakmem", ours}}) {
            runs.push_back(run(allocator, RunMode::Speed, 1, rate));
            runs.back().scenario = scenario;
            runs.back().loop = loop;
        }
    EXPECT_DOUBLE_EQ(*of(runs).totals[1].ratio, 4); // of 2 and 8
    runs.resize(2);
    EXPECT_DOUBLE_EQ(*of(runs).totals[1].ratio, 9);
}

TEST(Comparison, CheckedRunsAreNoThroughput)
{
    const Comparison compared = of({checked("hakmem", 10, 20), checked("system", 10, 20)});
    EXPECT_FALSE(compared.has_speed);
    EXPECT_FALSE(compared.scenarios[0].rows[0].ops_per_second.has_value());
    EXPECT_EQ(compared.scenarios[0].rows[0].tail.p999, 40u);
    EXPECT_THAT(comparison_text(compared), HasSubstr("not measured; add --speed"));
}

// What an allocator takes before the first op is its own: the harness is the least of them.
TEST(Comparison, MemoryIsAboveTheHarness)
{
    const Comparison compared = of({checked("hakmem", 3000, 5000), checked("system", 1000, 1500)});
    EXPECT_EQ(compared.scenarios[0].rows[0].memory_bytes, 4000u);
    EXPECT_EQ(compared.scenarios[0].rows[1].memory_bytes, 500u);
    EXPECT_EQ(compared.totals[0].memory_bytes, 4000u);
}

TEST(Comparison, AFailureCountsAndMeasuresNothing)
{
    RunRecord dead = run("hakmem", RunMode::Speed, 1, 50), late = checked("hakmem", 1000, 9000);
    dead.verdict = late.verdict = RunVerdict::Fail;
    const Comparison compared = of({dead, late, run("system", RunMode::Speed, 1, 20), checked("system", 1000, 1500)});
    const ComparedRow &row = compared.scenarios[0].rows[0];
    EXPECT_EQ(row.failed, 2u);
    EXPECT_FALSE(row.ops_per_second.has_value());
    EXPECT_FALSE(row.memory_bytes.has_value());
    EXPECT_FALSE(compared.totals[1].ratio.has_value()); // hakmem has none in this scenario
    EXPECT_THAT(comparison_text(compared), HasSubstr("FAIL 2 of 2"));
}

using Names = std::vector<std::string>;

TEST(Labels, AreShortAndDiffer)
{
    EXPECT_EQ(allocator_labels({"system", "hakmem", "/a/libx.so"}), (Names{"libc", "hakmem", "libx.so"}));
    EXPECT_EQ(allocator_labels({"/old/lib/libx.so", "/new/lib/libx.so", "./y.so"}),
              (Names{"old/lib/libx.so", "new/lib/libx.so", "y.so"}));
    EXPECT_EQ(allocator_labels({"libx.so", "/b/libx.so"}), (Names{"libx.so", "b/libx.so"}));
    EXPECT_EQ(allocator_labels({"/b/libc", "system"}), (Names{"b/libc", "libc"}));
    const std::string tail = "-a-name-that-is-far-too-long.so";
    EXPECT_EQ(allocator_labels({"/b/x" + tail}, 12), (Names{"…too-long.so"}));
    EXPECT_EQ(allocator_labels({"/b/x" + tail, "/b/y" + tail}, 12), (Names{"x" + tail, "y" + tail}));
}

} // namespace
} // namespace stress

#include "engine/run/coverage.h"
#include "engine/run/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stress {
namespace {

using testing::HasSubstr;

Result sample_result()
{
    Result result;
    result.scenario = "larson";
    result.allocator = "system";
    result.seed = 42;
    result.threads = 2;
    result.threads_started = 5;
    result.ops = 1000;
    result.seconds = 0.5;
    result.peak_rss_bytes = 3 << 20;
    result.end_rss_bytes = 2 << 20;
    result.reproduce = "hakmem-stress larson --seed 42";
    return result;
}

// Compares the text itself, which is the contract, without using the JSON library again.
TEST(ResultJson, HasEveryKeyOfTheSchema)
{
    const std::string json = result_json(sample_result());
    for (const char *pair :
         {"\"scenario\": \"larson\"", "\"allocator\": \"system\"", "\"seed\": 42", "\"threads\": 2", "\"ops\": 1000",
          "\"seconds\": 0.5", "\"ops_per_second\": 2000.0", "\"peak_rss_bytes\": 3145728", "\"end_rss_bytes\": 2097152",
          "\"verdict\": \"pass\"", "\"failures\": []", "\"check\": true", "\"threads_started\": 5"})
        EXPECT_THAT(json, HasSubstr(pair));
    EXPECT_EQ(json.front(), '{');
    EXPECT_EQ(json.substr(json.size() - 2), "}\n");
}

TEST(ResultJson, AFailureHasRuleAndDetail)
{
    Result result = sample_result();
    result.failures.push_back({"overlap", "block \"a\""});
    const std::string json = result_json(result);
    EXPECT_THAT(json, HasSubstr("\"verdict\": \"fail\""));
    EXPECT_THAT(json, HasSubstr("\"rule\": \"overlap\""));
    EXPECT_THAT(json, HasSubstr("\"detail\": \"block \\\"a\\\"\""));
}

TEST(ResultSummary, EndsWithTheVerdict)
{
    Result result = sample_result();
    result.op_counts = {{"malloc", 600}, {"free", 400}};
    result.rule_cases = {{"overlap", 600}, {"realloc_content", 0}};
    const std::string text = result_summary(result);
    EXPECT_THAT(text, HasSubstr("  done       malloc 600, free 400\n  cases      overlap 600, realloc_content 0\n"));
    EXPECT_THAT(result_json(result), testing::ContainsRegex("\"rule_cases\": [{]\\s*\"overlap\": 600"));
    EXPECT_EQ(text.substr(text.size() - 13), "verdict pass\n");
    EXPECT_THAT(text, HasSubstr("1000 in 0.50 s, 2.00 k ops/s"));
    EXPECT_THAT(text, testing::Not(HasSubstr("repeat")));
}

TEST(ResultSummary, NamesWhatTheScenarioClaims)
{
    Result result = sample_result();
    EXPECT_THAT(result_summary(result), testing::Not(HasSubstr("claims")));
    result.claims = {"overlap", "thread"};
    EXPECT_THAT(result_summary(result), HasSubstr("  claims     overlap, thread\n"));
    EXPECT_THAT(result_json(result), testing::ContainsRegex("\"claims\": \\[\\s*\"overlap\",\\s*\"thread\"\\s*\\]"));
}

TEST(Claims, NeedACaseInARunThatIsLongEnough)
{
    const std::vector<CountOf> cases = {{"overlap", 1}, {"thread", 0}};
    const std::vector<Claim> claims = {"overlap", {"thread", 10}, {"fork", 20}};
    EXPECT_EQ(claim_without_case(cases, claims, 9), "");
    EXPECT_EQ(claim_without_case(cases, claims, 10), "10 ops had no case of thread");
    EXPECT_EQ(claim_without_case(cases, claims, 20), "20 ops had no case of thread, fork") << "one that nothing counts";
    EXPECT_EQ(claim_without_case(cases, {}, 20), "");
}

TEST(ResultSummary, AFailureSaysHowToRepeatIt)
{
    Result result = sample_result();
    result.failures.push_back({"overlap", "two blocks"});
    const std::string text = result_summary(result);
    EXPECT_THAT(text, HasSubstr("failure: overlap: two blocks\n"));
    EXPECT_THAT(text, HasSubstr("seed 42; repeat with: hakmem-stress larson --seed 42\n"));
    EXPECT_EQ(text.substr(text.size() - 13), "verdict fail\n");
}

}  // namespace
}  // namespace stress

#include "campaign/page/directed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stress {
namespace {

using testing::HasSubstr;

std::string check(const std::string &id, const std::string &status, const std::string &rule,
                  const std::string &more = "")
{
    return R"({"id": ")" + id + R"(", "status": ")" + status + R"(", "rule": ")" + rule + R"(", "detail": "d of )" +
           id + "\"" + more + "}";
}

std::string result(const std::string &checks)
{
    return R"({"allocator": "/x/libmine.so", "checks": [)" + checks + "]}";
}

// Each status of a check, by a standard and of quality, known and not.
TEST(Directed, CountsStandardsAndQualityApart)
{
    std::string checks;
    for (const char *rule : {"C17 7.22.3.4: realloc", "quality: memory comes back"})
        for (const char *status : {"pass", "pass", "fail", "memory cap", "skip", "slow", "inconclusive"})
            checks += (checks.empty() ? "" : ", ") + check(std::string(status) + rule[0], status, rule);
    checks += ", " + check("known", "fail", "POSIX", R"(, "expected": "issue 7", "repeat": "the command")");
    const DirectedChecks all = directed_read(result(checks));
    EXPECT_EQ(all.fault, "");
    EXPECT_EQ(all.allocator, "/x/libmine.so");
    EXPECT_EQ(all.standard.passed, 2u);
    EXPECT_EQ(all.standard.failed, 1u); // the known one is none, and no standard has a memory cap
    EXPECT_EQ(all.quality.passed, 2u);
    EXPECT_EQ(all.quality.failed, 3u);
    EXPECT_EQ(all.skipped.size(), 6u);
    EXPECT_EQ(all.skipped[1].detail, "slow: d of slowC");
    ASSERT_EQ(all.failed.size(), 5u);
    EXPECT_FALSE(all.failed[0].is_quality);
    EXPECT_EQ(all.failed[0].repeat, "hakmem-stress conform --allocator /x/libmine.so --only failC");
    EXPECT_TRUE(all.failed[1].is_quality);
    EXPECT_TRUE(all.failed[2].is_quality);
    EXPECT_TRUE(all.failed[4].is_known);
    EXPECT_EQ(all.failed[4].repeat, "the command");
}

TEST(Directed, WhatIsNoResultSaysSo)
{
    const std::string whole = result(check("a", "pass", "C17"));
    EXPECT_EQ(directed_read(whole).fault, "");
    for (std::size_t length = 0; length < whole.size(); ++length)
        EXPECT_THAT(directed_read(whole.substr(0, length)).fault, HasSubstr("no complete result")) << length;
    for (const char *text :
         {"[]", "3", R"({"checks": []})", R"({"allocator": "a", "checks": 3})", R"({"allocator": 1, "checks": []})"})
        EXPECT_THAT(directed_read(text).fault, HasSubstr("no complete result")) << text;
    EXPECT_EQ(directed_read(result("3, [], null")).fault, ""); // entries that are no checks count as none
}

} // namespace
} // namespace stress

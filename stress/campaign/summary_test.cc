// What a campaign prints for people and for CI of counts of every kind: no failure hides behind another count.
#include "campaign/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stress {
namespace {

TEST(Summary, AFailureShowsBesideAllElse)
{
    for (unsigned mix = 0; mix < 81; ++mix) {
        const std::uint64_t passed = mix % 3, failed = mix / 3 % 3, skipped = mix / 9 % 3, known = mix / 27;
        CampaignCell cell;
        cell.scenario = "larson";
        cell.allocator = "hakmem";
        cell.schedule = "os";
        cell.passed = passed;
        cell.failed = failed;
        cell.skipped = skipped;
        cell.known = known;
        const std::string table = summary_table({cell}), junit = soak_junit({cell}, {});
        EXPECT_EQ(table.find("FAIL") != std::string::npos, failed != 0) << table;
        EXPECT_EQ(junit.find("<failure") != std::string::npos, failed != 0) << junit;
        EXPECT_EQ(table.find("known") != std::string::npos, failed == 0 && known != 0) << table;
        EXPECT_EQ(junit.find("<skipped") != std::string::npos, failed == 0 && (known != 0 || passed == 0)) << junit;
    }
}

} // namespace
} // namespace stress

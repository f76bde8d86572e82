// What commands share to run in the CI of others: shards, known failures, JUnit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/base/expect.h"
#include "engine/base/junit.h"
#include "engine/base/shard.h"

namespace stress {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Shard, TogetherTheyTakeEachItemOnce)
{
    for (std::size_t items = 1; items <= 40; ++items)
        for (std::size_t count = 1; count <= items; ++count) {
            std::vector<int> taken(items, 0);
            for (std::size_t index = 1; index <= count; ++index) {
                std::vector<std::size_t> part(items);
                std::iota(part.begin(), part.end(), 0);
                ASSERT_EQ(shard_keep({index, count}, "items", part), "");
                ASSERT_FALSE(part.empty());
                for (std::size_t item : part) ++taken[item];
            }
            EXPECT_EQ(taken, std::vector<int>(items, 1)) << items << " items, " << count << " shards";
        }
    std::vector<int> few{1, 2};
    EXPECT_THAT(shard_keep({1, 3}, "scenarios", few), HasSubstr("there are 2 scenarios"));
}

TEST(Shard, OnlyIOfN)
{
    Shard shard;
    EXPECT_EQ(shard_parse("2/4", shard), "");
    EXPECT_EQ(shard.index, 2u);
    EXPECT_EQ(shard.count, 4u);
    for (const char *bad : {"", "1", "0/2", "3/2", "1/0", "1/", "/2", "1/2/3", "-1/2", "a/b", "1/2 "})
        EXPECT_THAT(shard_parse(bad, shard), HasSubstr("must be I/N")) << bad;
}

const std::vector<std::string> kNames{"oom", "fork", "larson"};

TEST(Expect, KnownFailuresPassAndMendedOnesFail)
{
    Expectations known;
    ASSERT_EQ(
        known.parse("f", "# ours\n\noom libje.so errno_kept # BZ#1\r\nfork * # hangs\nlarson overlap # x", kNames), "");
    EXPECT_EQ(known.judge("oom", "/a/libje.so", {"errno_kept"}), "BZ#1");
    EXPECT_EQ(known.judge("oom", "/a/libxje.so", {"errno_kept"}), "");
    EXPECT_EQ(known.judge("oom", "/a/libje.so", {"errno_kept", "overlap"}), ""); // one of them is new
    EXPECT_EQ(known.judge("fork", "system", {"hang"}), "hangs");
    EXPECT_THAT(known.mended(), ElementsAre()); // larson was not judged
    EXPECT_EQ(known.judge("larson", "system", {}), "");
    EXPECT_THAT(known.mended(), ElementsAre("mended: f:5: larson no longer fails by overlap; take the line out"));
    ASSERT_EQ(known.parse("g", "fork hang # here\nfork a.so * # everywhere", kNames), "");
    EXPECT_EQ(known.judge("fork", "/b/a.so", {"hang"}), "hangs");
    EXPECT_EQ(known.mended().size(), 1u) << "each line that names the failure has come";
}

TEST(Expect, AFailureThatComesByChanceIsNeverMended)
{
    Expectations known;
    ASSERT_EQ(known.parse("f", "oom plateau? # sometimes\nfork *? # sometimes too\nlarson overlap # x", kNames), "");
    EXPECT_EQ(known.judge("oom", "system", {"plateau"}), "sometimes");
    EXPECT_EQ(known.judge("fork", "system", {"hang"}), "sometimes too");
    EXPECT_EQ(known.judge("fork", "system", {}), "");
    EXPECT_EQ(known.judge("oom", "system", {"plateau", "overlap"}), "");
    known = {};
    ASSERT_EQ(known.parse("f", "oom plateau? # sometimes\nlarson overlap # x", kNames), "");
    EXPECT_EQ(known.judge("oom", "system", {}), "");
    EXPECT_EQ(known.judge("larson", "system", {}), "");
    EXPECT_THAT(known.mended(), ElementsAre(HasSubstr("larson"))); // oom is not
}

TEST(Expect, BadLinesHaveTheirNumber)
{
    for (const auto &[text, says] : {std::pair{"\noom\n", "f:2: must be NAME"},
                                     {"oom a b c # d", "f:1: must be NAME"},
                                     {"oom ? # d", "f:1: must be NAME"},
                                     {"bogus x # d", "f:1: there is nothing called 'bogus'"},
                                     {"oom enomem", "f:1: say why"},
                                     {"oom enomem #  ", "f:1: say why"}})
        EXPECT_THAT(Expectations().parse("f", text, kNames), HasSubstr(says)) << text;
    EXPECT_THAT(Expectations().read("/no/such", kNames), HasSubstr("cannot read '/no/such'"));
}

TEST(Junit, CountsAndEscapes)
{
    const std::string xml =
        junit_xml("s", {{"g", "a", JunitCase::Kind::Passed, 1.5, "", ""},
                        {"g<", "b", JunitCase::Kind::Failed, 0, "\"x\" & \x01\xff", "1 < 2\n\xef\xbf\xbf"},
                        {"g", "c", JunitCase::Kind::Skipped, 0, "no", ""}});
    EXPECT_THAT(
        xml, HasSubstr("<testsuite name=\"s\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"1.500\">"));
    EXPECT_THAT(xml, HasSubstr("classname=\"g&lt;\""));
    EXPECT_EQ(xml.find('\x01'), std::string::npos);
    EXPECT_EQ(xml.find('\xff'), std::string::npos);
    EXPECT_EQ(xml.find("\xef\xbf\xbf"), std::string::npos);
    EXPECT_THAT(xml, HasSubstr("<skipped message=\"no\"/>"));
}

} // namespace
} // namespace stress

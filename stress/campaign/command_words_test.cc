#include "campaign/command_words.h"

#include <gtest/gtest.h>

namespace stress {
namespace {

TEST(Words, AShellReadsThemBack)
{
    EXPECT_EQ(words_quoted({"a", "--b=c", "", "it's", "$(x)"}), "a --b=c '' 'it'\\''s' '$(x)'");
}

TEST(Words, DurationsOnBothSidesOfEachLimit)
{
    EXPECT_EQ(duration_parse("90s"), 90);
    EXPECT_EQ(duration_parse("1.5m"), 90);
    EXPECT_EQ(duration_parse("8h"), 28800);
    EXPECT_EQ(duration_parse("2d"), 172800);
    EXPECT_EQ(duration_parse("366d"), 366 * 86400.0);
    for (const char *bad : {"", "8", "h", "8x", "8hh", "-1h", "0s", "1e3s", "367d", "nan", "infs", " 8h", "8 h"})
        EXPECT_FALSE(duration_parse(bad).has_value()) << bad;
}

TEST(Words, DurationsForPeople)
{
    EXPECT_EQ(duration_text(0.25), "0.2 s");
    EXPECT_EQ(duration_text(59.96), "1 min");
    EXPECT_EQ(duration_text(3600), "1 h");
    EXPECT_EQ(duration_text(3.5 * 3600), "3 h 30 min");
    EXPECT_EQ(duration_text(52 * 3600), "2 d 4 h");
    EXPECT_EQ(duration_text(-1), "0.0 s");
}

TEST(Words, Utc)
{
    EXPECT_EQ(utc_text(0), "1970-01-01 00:00 UTC");
    EXPECT_EQ(utc_text(1709210096), "2024-02-29 12:34 UTC");
    EXPECT_EQ(utc_text(253402300799), "9999-12-31 23:59 UTC");
    EXPECT_EQ(utc_text(UINT64_MAX).size(), 20u);
}

}  // namespace
}  // namespace stress

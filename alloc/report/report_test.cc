// report_test.cc: the text of reports, and the two settings.
#include "base/test_support.h"

extern "C" {
#include "report/settings.h"
#include "report/text.h"
}

namespace {

std::string of(const text &text)
{
    return std::string(text.bytes, text.length);
}

} // namespace

TEST(Report, Numbers)
{
    char buffer[200];
    text text = {buffer, sizeof buffer, 0};
    text_add_number(&text, 0);
    text_add(&text, " ");
    text_add_number(&text, UINT64_MAX);
    text_add(&text, " ");
    text_add_signed(&text, INT64_MIN);
    text_add(&text, " ");
    text_add_hex(&text, 0);
    text_add(&text, " ");
    text_add_hex(&text, 0x1f0);
    text_add(&text, " ");
    text_add_address(&text, reinterpret_cast<void *>(0xabc));
    EXPECT_EQ(of(text), "0 18446744073709551615 -9223372036854775808 0x0 0x1f0 0x0000000000000abc");
}

TEST(Report, WhatDoesNotFitIsCutOff)
{
    char buffer[11] = {};
    text text = {buffer, 10, 0};
    for (int i = 0; i < 100; i++) text_add(&text, "abc");
    EXPECT_EQ(of(text), "abcabcabca");
    text_add_number(&text, 5);
    text_add_address(&text, buffer);
    EXPECT_EQ(of(text), "abcabcabca");
    EXPECT_EQ(buffer[10], '\0');
}

TEST(Report, WordsAreQuotedForAShell)
{
    for (const auto &[word, quoted] : {std::pair("/usr/bin/x-1_2", "/usr/bin/x-1_2"), std::pair("", "''"),
                                       std::pair("a b", "'a b'"), std::pair("it's $1", "'it'\\''s $1'")}) {
        char buffer[100];
        text text = {buffer, sizeof buffer, 0};
        text_add_word(&text, word);
        EXPECT_EQ(of(text), quoted);
    }
}

TEST(Report, SettingsAreTwoAndTakeTheirValuesAlone)
{
    for (const char *good : {"FAILFAST=abort", "FAILFAST=report", "FAILFAST_LEVEL=0", "FAILFAST_LEVEL=3"})
        EXPECT_EQ(failfast_settings_check(good), SETTINGS_GOOD) << good;
    for (const char *bad : {"FAILFAST=", "FAILFAST=ABORT", "FAILFAST=reports", "FAILFAST_LEVEL=", "FAILFAST_LEVEL=4",
                            "FAILFAST_LEVEL=-1", "FAILFAST_LEVEL=11", "FAILFAST_LEVEL=two"})
        EXPECT_EQ(failfast_settings_check(bad), SETTINGS_BAD) << bad;
    for (const char *other : {"STATS=1", "FAILFAS=abort", "FAILFAST", "FAILFAST_LEVELS=1", "FAILFASTER=1"})
        EXPECT_EQ(failfast_settings_check(other), SETTINGS_OTHER) << other;
}

// tests.cmake sets HAKMEM_FAILFAST_LEVEL=1 for this program.
TEST(Report, TheLevelComesFromTheEnvironmentOfTheProcessAndStays)
{
    if (getenv("HAKMEM_FAILFAST_LEVEL") == nullptr) GTEST_SKIP() << "HAKMEM_FAILFAST_LEVEL=1 is not set";
    EXPECT_EQ(failfast_level(), LEVEL_LAYOUT);
    setenv("HAKMEM_FAILFAST_LEVEL", "3", 1);
    EXPECT_EQ(failfast_level(), LEVEL_LAYOUT);
    EXPECT_FALSE(failfast_goes_on());
    setenv("HAKMEM_FAILFAST_LEVEL", "1", 1);
}

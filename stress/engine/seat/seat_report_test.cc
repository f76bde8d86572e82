#include "engine/seat/seat_report.h"

#include <gtest/gtest.h>

namespace stress {
namespace {

std::string line_of(const Op &op)
{
    SafeText text;
    op_line(text, op);
    return text.c_str();
}

TEST(SafeText, NumbersInEveryBase)
{
    SafeText text;
    text.add_number(0).add(" ").add_number(18446744073709551615ULL).add(" ").add_hex(0xbeef).add(" ");
    text.add_number(7, 10, 3);
    EXPECT_STREQ(text.c_str(), "0 18446744073709551615 0xbeef 007");
}

TEST(SafeText, JsonStringsAreEscaped)
{
    SafeText text;
    text.add_json("a\"b\\c\n\xff");
    EXPECT_STREQ(text.c_str(), "a\\\"b\\\\c\\u000a\\u00ff");
}

TEST(SafeText, WhatDoesNotFitIsCutOff)
{
    SafeText text;
    for (int i = 0; i < 1000; ++i) text.add("0123456789");
    EXPECT_LT(text.size(), 10000u);
    EXPECT_EQ(std::string(text.c_str()).size(), text.size());
}

TEST(SeatReport, OpsReadLikeC)
{
    EXPECT_EQ(line_of(op_make(OpKind::Malloc, 5, 100)), "b5 = malloc(100)");
    EXPECT_EQ(line_of(op_make(OpKind::Free, 7)), "free(b7)");
    EXPECT_EQ(line_of(op_make(OpKind::Realloc, 7, 24)), "b7 = realloc(b7, 24)");
    EXPECT_EQ(line_of(op_make(OpKind::Calloc, 1, 8, 3)), "b1 = calloc(3, 8)");
    EXPECT_EQ(line_of(op_make(OpKind::AlignedAlloc, 2, 128, 6)), "b2 = aligned_alloc(64, 128)");
    EXPECT_EQ(line_of(op_make(OpKind::Malloc, 0, SIZE_MAX - 4096)), "b0 = malloc(SIZE_MAX-4096)");
    EXPECT_EQ(line_of(op_make(OpKind::Free, 7, 0, 0, 2)), "free(b7) link 2");
    EXPECT_EQ(line_of(op_make(OpKind::Purge, 0)), "purge()");
}

}  // namespace
}  // namespace stress

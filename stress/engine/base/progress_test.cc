#include "engine/base/progress.h"

#include <gtest/gtest.h>

namespace stress {
namespace {

TEST(Progress, BytesAtEachUnitAndItsEdge)
{
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1024), "1.0 KiB");
    EXPECT_EQ(format_bytes(1536), "1.5 KiB");
    EXPECT_EQ(format_bytes(20u << 20), "20.0 MiB");
    EXPECT_EQ(format_bytes(3ULL << 30), "3.0 GiB");
    EXPECT_EQ(format_bytes(5000ULL << 40), "5000.0 TiB");
}

TEST(Progress, RatesAtEachUnit)
{
    EXPECT_EQ(format_rate(0), "0");
    EXPECT_EQ(format_rate(950), "950");
    EXPECT_EQ(format_rate(1500), "1.50 k");
    EXPECT_EQ(format_rate(3.4e6), "3.40 M");
    EXPECT_EQ(format_rate(2e9), "2.00 G");
}

TEST(Progress, LineNamesEverything)
{
    EXPECT_EQ(progress_text({12, 3.4e6, 1258291, 33u << 20}), " 12.0 s   3.40 M ops/s   live 1.2 MiB   rss 33.0 MiB");
}

}  // namespace
}  // namespace stress

#include "engine/base/rng.h"

#include <gtest/gtest.h>

#include <set>

namespace stress {
namespace {

// Reference values of splitmix64 from its published source, state 1234567.
TEST(Rng, SplitmixMatchesReference)
{
    std::uint64_t state = 1234567;
    EXPECT_EQ(splitmix_next(state), 6457827717110365317ULL);
    EXPECT_EQ(splitmix_next(state), 3203168211198807973ULL);
    EXPECT_EQ(splitmix_next(state), 9817491932198370423ULL);
}

TEST(Rng, SameSeedAndStreamGiveTheSameNumbers)
{
    Rng a(42, 3), b(42, 3);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(a.next(), b.next());
}

TEST(Rng, StreamsAndSeedsDiffer)
{
    std::set<std::uint64_t> seen;
    for (std::uint64_t seed = 0; seed < 32; ++seed)
        for (std::uint64_t stream = 0; stream < 32; ++stream) seen.insert(Rng(seed, stream).next());
    EXPECT_EQ(seen.size(), 32u * 32u);
}

TEST(Rng, BelowStaysBelowAndReachesBothEnds)
{
    Rng rng(1, 0);
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 1000; ++i) seen.insert(rng.below(7));
    EXPECT_EQ(seen.size(), 7u);
    EXPECT_EQ(*seen.rbegin(), 6u);
    EXPECT_EQ(rng.below(1), 0u);
}

TEST(Rng, BetweenIncludesBothEnds)
{
    Rng rng(1, 0);
    std::set<std::size_t> seen;
    for (int i = 0; i < 1000; ++i) seen.insert(rng.between(10, 12));
    EXPECT_EQ(seen, (std::set<std::size_t>{10, 11, 12}));
    EXPECT_EQ(rng.between(5, 5), 5u);
}

TEST(Rng, DrawnSeedsDifferAndFitADouble)
{
    const std::uint64_t a = seed_draw(), b = seed_draw();
    EXPECT_NE(a, b);
    EXPECT_LT(a, 1ULL << 53);
}

}  // namespace
}  // namespace stress

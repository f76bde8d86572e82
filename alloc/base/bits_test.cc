// bits_test.cc: each function of bits.h against the obvious loop.
#include "base/test_support.h"

extern "C" {
#include "base/bits.h"
}

namespace {

bool run_at(uint64_t mask, uint32_t first, uint32_t count)
{
    if (first + count > 64) return false;
    for (uint32_t i = 0; i < count; i++)
        if ((mask >> (first + i) & 1) == 0) return false;
    return true;
}

void check_runs(uint64_t mask)
{
    for (uint32_t count = 1; count <= 64; count++) {
        uint64_t expected = 0;
        for (uint32_t first = 0; first < 64; first++)
            if (run_at(mask, first, count)) expected |= 1ull << first;
        ASSERT_EQ(bits_runs(mask, count), expected) << std::hex << mask << " " << count;
    }
}

} // namespace

TEST(Bits, PowerOfTwo)
{
    EXPECT_FALSE(is_power_of_two(0));
    for (uint32_t shift = 0; shift < 64; shift++) {
        size_t value = size_t{1} << shift;
        EXPECT_TRUE(is_power_of_two(value));
        if (shift > 1) EXPECT_FALSE(is_power_of_two(value - 1));
        if (shift > 0) EXPECT_FALSE(is_power_of_two(value + 1));
    }
    EXPECT_FALSE(is_power_of_two(SIZE_MAX));
}

TEST(Bits, Log2FloorOfEveryWidth)
{
    for (uint32_t shift = 0; shift < 64; shift++) {
        EXPECT_EQ(log2_floor(1ull << shift), shift);
        EXPECT_EQ(log2_floor((1ull << shift) | ((1ull << shift) - 1)), shift);
    }
}

TEST(Bits, RoundUp)
{
    for (size_t align = 1; align <= 1 << 16; align *= 2) {
        EXPECT_EQ(round_up(0, align), 0u);
        for (size_t value : {size_t{1}, align - 1, align, align + 1, 3 * align - 1, 3 * align}) {
            size_t rounded = round_up(value, align);
            EXPECT_EQ(rounded % align, 0u);
            EXPECT_GE(rounded, value);
            EXPECT_LT(rounded - value, align);
        }
    }
    EXPECT_EQ(round_up(SIZE_MAX - 15, 16), SIZE_MAX - 15);
}

TEST(Bits, RangeOfEveryPlace)
{
    for (uint32_t first = 0; first < 64; first++)
        for (uint32_t count = 1; first + count <= 64; count++) {
            uint64_t expected = 0;
            for (uint32_t i = 0; i < count; i++) expected |= 1ull << (first + i);
            ASSERT_EQ(bits_range(first, count), expected);
        }
}

TEST(Bits, RunsOfEveryRange)
{
    check_runs(0);
    check_runs(~0ull);
    for (uint32_t first = 0; first < 64; first += 3)
        for (uint32_t count = 1; first + count <= 64; count += 5) {
            check_runs(bits_range(first, count));
            check_runs(~bits_range(first, count));
        }
}

TEST(Bits, RunsOfRandomWords)
{
    test::Rng rng;
    for (int i = 0; i < 300; i++) {
        uint64_t word = rng.next();
        check_runs(word);
        check_runs(word | rng.next() | rng.next()); // long runs
    }
}

// The first numbers that SplitMix64 and xorshift64 (13, 7, 17) are known to give, from the seeds 0 and 1.
TEST(Bits, MixAndRandomAreThoseOfTheirAuthors)
{
    const uint64_t step = 0x9e3779b97f4a7c15, mixed[] = {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x6c45d188009454f};
    for (uint64_t i = 0; i < 3; i++) EXPECT_EQ(bits_mix((i + 1) * step), mixed[i]);
    EXPECT_EQ(bits_mix(0), 0u);
    uint64_t random = 1;
    for (uint64_t next : {0x40822041ull, 0x100041060c011441ull, 0x9b1e842f6e862629ull}) {
        EXPECT_EQ(bits_random(&random), next);
        EXPECT_EQ(random, next);
    }
}

#include "engine/memory.h"

#include <gtest/gtest.h>

namespace stress {
namespace {

TEST(Memory, ResidentBytesCountWhatIsTouched)
{
    const std::size_t before = process_resident_bytes();
    ASSERT_GT(before, 0u);
    const Mapped<char> own(16u << 20);
    EXPECT_GE(process_resident_bytes(), before + (15u << 20));
    EXPECT_GE(harness_resident_bytes(), 16u << 20);
}

TEST(Memory, TheBoundGrowsWithLiveBytesAndThreads)
{
    EXPECT_GT(memory_bound_bytes(1 << 30, 1), std::uint64_t{4} << 30);
    EXPECT_GT(memory_bound_bytes(0, 8), memory_bound_bytes(0, 1));
}

}  // namespace
}  // namespace stress

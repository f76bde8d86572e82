#include "engine/content.h"

#include <gtest/gtest.h>

#include <vector>

namespace stress {
namespace {

// Every size up to 200 and every place of a changed byte: small enough to enumerate.
TEST(Content, EveryChangedByteIsSeen)
{
    for (std::size_t size = 1; size <= 200; ++size) {
        std::vector<unsigned char> block(size);
        content_fill(block.data(), size, 77);
        ASSERT_TRUE(content_holds(block.data(), 0, size, 77)) << size;
        for (std::size_t at = 0; at < size; ++at) {
            block[at] ^= 1;
            ASSERT_FALSE(content_holds(block.data(), 0, size, 77)) << size << " " << at;
            ASSERT_EQ(content_first_difference(block.data(), 0, size, 77), at);
            block[at] ^= 1;
        }
    }
}

TEST(Content, APartIsJudgedAloneAndInFull)
{
    constexpr std::size_t size = 48;
    std::vector<unsigned char> block(size);
    content_fill(block.data(), size, 5);
    for (std::size_t from = 0; from < size; ++from)
        for (std::size_t to = from; to <= size; ++to)
            for (std::size_t at = 0; at < size; ++at) {
                block[at] ^= 0x80;
                ASSERT_EQ(content_holds(block.data(), from, to, 5), at < from || at >= to);
                block[at] ^= 0x80;
            }
}

TEST(Content, FillStaysInsideTheBlock)
{
    for (std::size_t size = 0; size <= 64; ++size) {
        std::vector<unsigned char> block(size + 1, 0xee);
        content_fill(block.data(), size, 9);
        ASSERT_EQ(block[size], 0xee) << size;
    }
}

TEST(Content, AnotherGenerationDiffers)
{
    std::vector<unsigned char> block(64);
    content_fill(block.data(), block.size(), 1);
    EXPECT_FALSE(content_holds(block.data(), 0, block.size(), 2));
    EXPECT_FALSE(content_holds(block.data() + 8, 0, 56, 1)) << "shifted content must not pass";
}

TEST(Content, FirstNonzeroFindsEachByte)
{
    for (std::size_t size = 1; size <= 64; ++size) {
        std::vector<unsigned char> block(size, 0);
        ASSERT_EQ(content_first_nonzero(block.data(), size), kNoDifference);
        for (std::size_t at = 0; at < size; ++at) {
            block[at] = 1;
            ASSERT_EQ(content_first_nonzero(block.data(), size), at);
            block[at] = 0;
        }
    }
}

}  // namespace
}  // namespace stress

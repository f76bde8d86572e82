#include "engine/op/content.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/build.h"
#include "engine/judge/memory.h"
#include "engine/op/content_parts.h"

namespace stress {
namespace {

// Every size up to 200 bytes and every place of a changed byte: few enough to try all.
TEST(Content, EveryChangedByteIsSeen)
{
    for (std::size_t size = 1; size <= 200; ++size) {
        std::vector<unsigned char> block(size);
        content_fill(block.data(), size, 77);
        ASSERT_TRUE(content_holds(block.data(), size, size, 77)) << size;
        for (std::size_t at = 0; at < size; ++at) {
            block[at] ^= 1;
            ASSERT_FALSE(content_holds(block.data(), size, size, 77)) << size << " " << at;
            ASSERT_EQ(content_first_difference(block.data(), size, size, 77), at);
            ASSERT_EQ(content_first_difference(block.data(), size, at, 77), kNoDifference) << "it is not kept";
            block[size - 1] ^= 2;
            ASSERT_EQ(content_first_difference(block.data(), size, size, 77), at) << "not the last";
            block[size - 1] ^= 2;
            block[at] ^= 1;
        }
    }
}

TEST(Content, WhatIsKeptIsJudgedAloneAndInFull)
{
    constexpr std::size_t size = 48;
    std::vector<unsigned char> block(size);
    content_fill(block.data(), size, 5);
    for (std::size_t kept = 0; kept <= size; ++kept)
        for (std::size_t at = 0; at < size; ++at) {
            block[at] ^= 0x80;
            ASSERT_EQ(content_holds(block.data(), size, kept, 5), at >= kept);
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

// Each block ends where its mapping does.
TEST(Content, NothingBehindTheBlockIsTouched)
{
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t room = (kContentFullBytes / page + 2) * page;
    auto *start = static_cast<unsigned char *>(
        mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(start, MAP_FAILED);
    ASSERT_EQ(mprotect(start + room, page, PROT_NONE), 0);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{15},
                                   std::size_t{16}, std::size_t{4096}, kContentFullBytes, kContentFullBytes + 1}) {
        unsigned char *block = start + room - size;
        std::memset(block, 0, size);
        EXPECT_EQ(content_first_nonzero(block, size, 6), kNoDifference);
        content_fill(block, size, 6);
        EXPECT_TRUE(content_holds(block, size, size, 6));
        EXPECT_EQ(content_first_difference(block, size, size, 6), kNoDifference);
    }
    munmap(start, room + page);
}

TEST(Content, AnotherGenerationDiffers)
{
    std::vector<unsigned char> block(64);
    content_fill(block.data(), block.size(), 1);
    EXPECT_FALSE(content_holds(block.data(), block.size(), block.size(), 2));
    EXPECT_FALSE(content_holds(block.data() + 8, 56, 56, 1)) << "shifted content must not pass";
}

TEST(Content, FirstNonzeroFindsEachByte)
{
    for (std::size_t size = 1; size <= 64; ++size) {
        std::vector<unsigned char> block(size, 0);
        ASSERT_EQ(content_first_nonzero(block.data(), size, 3), kNoDifference);
        for (std::size_t at = 0; at < size; ++at) {
            block[at] = 1;
            ASSERT_EQ(content_first_nonzero(block.data(), size, 3), at);
            block[size - 1] = 2;
            ASSERT_EQ(content_first_nonzero(block.data(), size, 3), at) << "not the last";
            block[at] = block[size - 1] = 0;
        }
    }
}

// Changes each word of a large block in turn: exactly the words that were filled must be checked.
TEST(Content, OfALargeBlockWhatIsFilledIsJudged)
{
    const std::size_t step = (kSanitized ? 9 : 3) * 512;  // otherwise seconds, under a sanitizer ten and more
    for (std::size_t size : {kContentFullBytes + 1, kContentFullBytes + 4093, 3 * kContentFullBytes - 8}) {
        std::vector<unsigned char> block(size, 0);
        content_fill(block.data(), size, 11);
        ASSERT_TRUE(content_holds(block.data(), size, size, 11));
        std::size_t judged = 0;
        for (std::size_t at = 0; at < size; at += step) {
            const bool filled = block[at] == content_byte(11, at);
            block[at] ^= 0xff;
            const bool seen = !content_holds(block.data(), size, size, 11);
            const bool named = content_first_difference(block.data(), size, size, 11) == at;
            const bool kept_out = content_holds(block.data(), size, at, 11);
            block[at] ^= 0xff;
            ASSERT_EQ(seen, named) << at;
            ASSERT_TRUE(kept_out) << at;
            if (seen) {
                ASSERT_TRUE(filled) << at;
                ++judged;
            }
        }
        // Both ends in full, and most of the sixteen pages.
        EXPECT_GE(judged * step, 2 * (std::size_t{64} << 10) + 10 * 4096);
        EXPECT_LT(judged * step, kContentFullBytes / 2);
    }
}

TEST(Content, OfALargeBlockEndsAndBordersAreJudged)
{
    constexpr std::size_t size = (std::size_t{5} << 20) + 24;
    std::vector<unsigned char> block(size);
    content_fill(block.data(), size, 4);
    for (std::size_t at : {std::size_t{0}, std::size_t{65535}, size - 65536, size - 1}) {
        block[at] ^= 1;
        EXPECT_FALSE(content_holds(block.data(), size, size, 4)) << at;
        EXPECT_EQ(content_first_difference(block.data(), size, size, 4), at);
        block[size - 1] ^= 2;
        EXPECT_EQ(content_first_difference(block.data(), size, size, 4), at) << "not the last";
        block[size - 1] ^= 2;
        block[at] ^= 1;
    }
    // A page that no longer belongs to the block has both of its borders changed. Of the 64 borders, some must fall
    // into any stretch of a fiftieth of the block.
    for (std::size_t from = 65536; from + size / 50 < size; from += size / 50) {
        std::vector<unsigned char> spoiled = block;
        for (std::size_t i = from; i < from + size / 50; ++i) spoiled[i] ^= 0x5a;
        EXPECT_FALSE(content_holds(spoiled.data(), size, size, 4)) << from;
    }
}

// No page is left out for good, wherever the block ends in its last one.
TEST(Content, OfALargeBlockEachPageIsJudgedInTime)
{
    for (const std::size_t size : {kContentFullBytes + 8, kContentFullBytes + 2048, kContentFullBytes + 4095}) {
        std::vector<bool> judged((size - 1) / kContentPageBytes + 1);
        for (std::uint64_t generation = 0; generation < 400; ++generation)
            content_parts(size, generation, [&judged, size](std::size_t from, std::size_t to) {
                std::size_t page = (from + kContentPageBytes - 1) / kContentPageBytes;
                while (std::min((page + 1) * kContentPageBytes, size) <= to && page < judged.size())
                    judged[page++] = true;
                return true;
            });
        for (std::size_t page = 0; page < judged.size(); ++page) EXPECT_TRUE(judged[page]) << size << " " << page;
    }
}

TEST(Content, OfAHugeBlockLittleIsTouched)
{
    constexpr std::size_t size = std::size_t{4} << 30;
    void *start = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(start, MAP_FAILED);
    madvise(start, size, MADV_NOHUGEPAGE);
    const std::size_t before = process_resident_bytes();
    EXPECT_EQ(content_first_nonzero(start, size, 8), kNoDifference);
    content_fill(start, size, 8);
    EXPECT_TRUE(content_holds(start, size, size, 8));
    EXPECT_LT(process_resident_bytes() - before, std::size_t{2} << 20);
    static_cast<unsigned char *>(start)[size - 1] ^= 1;
    EXPECT_FALSE(content_holds(start, size, size, 8));
    munmap(start, size);
}

TEST(Content, AnotherGenerationJudgesOtherPages)
{
    constexpr std::size_t size = std::size_t{64} << 20;
    std::vector<std::size_t> parts[2];
    for (std::uint64_t generation : {0u, 1u})
        content_parts(size, generation, [&](std::size_t from, std::size_t) {
            parts[generation].push_back(from);
            return true;
        });
    EXPECT_NE(parts[0], parts[1]);
}

} // namespace
} // namespace stress

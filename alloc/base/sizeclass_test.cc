// sizeclass_test.cc: law 5, by every size and every alignment there is.
#include "base/test_support.h"

#include <set>

extern "C" {
#include "base/sizeclass.h"
}

TEST(SizeClass, EverySize)
{
    EXPECT_EQ(sizeclass_of(0), (uint32_t)CLASS_EMPTY);
    EXPECT_EQ(sizeclass_bytes(CLASS_EMPTY), 0u);
    uint32_t last = 0;
    for (size_t size = 1; size <= SMALL_BYTES_MAX; size++) {
        uint32_t class_index = sizeclass_of(size);
        ASSERT_LT(class_index, (uint32_t)CLASS_COUNT);
        size_t bytes = sizeclass_bytes(class_index);
        ASSERT_GE(bytes, size);
        ASSERT_LT(sizeclass_bytes(class_index - 1), size) << "a smaller class would do";
        ASSERT_TRUE(class_index == last || class_index == last + 1) << size;
        ASSERT_LE(bytes - size, size / 8 + 15) << size;
        last = class_index;
    }
    EXPECT_EQ(last, (uint32_t)CLASS_GEOMETRIC_LAST) << "a class that no size reaches";
    EXPECT_EQ(sizeclass_bytes(CLASS_GEOMETRIC_LAST), (uint32_t)SMALL_BYTES_MAX);
}

TEST(SizeClass, LinearAndGeometricMeet)
{
    EXPECT_EQ(sizeclass_of(SMALL_LINEAR_BYTES_MAX), (uint32_t)CLASS_LINEAR_LAST);
    EXPECT_EQ(sizeclass_of(SMALL_LINEAR_BYTES_MAX + 1), (uint32_t)CLASS_LINEAR_LAST + 1);
}

// Up to SMALL_LINEAR_BYTES_MAX the classes are granules apart, and from there eight a doubling.
TEST(SizeClass, EveryClass)
{
    for (uint32_t c = 1; c < CLASS_COUNT; c++) {
        EXPECT_EQ(sizeclass_slab_pages(c) == 1,
                  sizeclass_stage_blocks(c) >= STAGE_BYTES_MAX / (PAGE_BYTES / SLAB_BLOCKS_MIN))
            << "stage_slab in slab/remote.c";
        uint32_t bytes = sizeclass_bytes(c);
        if (c < CLASS_ALIGNED_FIRST) {
            EXPECT_EQ(sizeclass_of(bytes), c) << "round trip";
            EXPECT_GT(bytes, sizeclass_bytes(c - 1));
        } else {
            EXPECT_EQ(sizeclass_of_aligned(bytes, COLOURED_STEP_BYTES), c) << "round trip";
        }
        EXPECT_EQ(bytes % GRANULE_BYTES, 0u);

        uint32_t pages = sizeclass_slab_pages(c);
        EXPECT_TRUE(pages == 1 || pages == 4 || pages == 8);
        EXPECT_GE(pages * PAGE_BYTES / bytes, (uint32_t)SLAB_BLOCKS_MIN);
        EXPECT_LE(pages * PAGE_BYTES / bytes, (uint32_t)UINT16_MAX);
        if (pages > 1)
            EXPECT_LT((pages == 4 ? 1 : 4) * PAGE_BYTES / bytes, (uint32_t)SLAB_BLOCKS_MIN)
                << "a shorter slab would do";

        uint32_t credit = sizeclass_credit(c);
        EXPECT_GE(credit, (uint32_t)CREDIT_MIN);
        EXPECT_LE(credit, (uint32_t)CREDIT_MAX);
        if (credit > CREDIT_MIN) EXPECT_LE(credit * bytes, (uint32_t)CREDIT_BYTES);

        uint32_t grown = sizeclass_credit_grown(c);
        EXPECT_GE(grown, credit) << "a credit never shrinks as it grows";
        EXPECT_LE(grown, (uint32_t)CREDIT_GROWN_MAX);
        if (grown > CREDIT_MIN) EXPECT_LE(grown * bytes, (uint32_t)CREDIT_GROWN_BYTES);
        for (uint32_t each = credit; each <= grown; each++) {
            uint32_t magazines = sizeclass_magazines(c, each);
            ASSERT_GE(magazines, (uint32_t)MAGAZINES_MIN);
            ASSERT_LE(magazines, (uint32_t)MAGAZINES_MAX);
            if (magazines > MAGAZINES_MIN) ASSERT_LE(magazines * each * bytes, (uint32_t)MAGAZINES_BYTES);
        }

        uint32_t stage = sizeclass_stage_blocks(c);
        EXPECT_GE(stage, 1u);
        EXPECT_LE(stage, (uint32_t)STAGE_BLOCKS_MAX);
        if (stage > 1) EXPECT_LE(stage * bytes, (uint32_t)STAGE_BYTES_MAX);
    }
}

TEST(SizeClass, EverySizeAtEveryAlignment)
{
    for (size_t align = 1; align <= SMALL_BYTES_MAX; align *= 2) {
        uint32_t expected = 1; // the first class that serves this size; it rises with the size
        for (size_t size = 0; size <= SMALL_BYTES_MAX; size++) {
            while (sizeclass_bytes(expected) < size || sizeclass_bytes(expected) % align != 0) expected++;
            uint32_t c = sizeclass_of_aligned(size, align);
            ASSERT_EQ(sizeclass_bytes(c), sizeclass_bytes(expected)) << size << " at " << align;
            if (sizeclass_colours(c) > 1) {
                ASSERT_LE(align, (size_t)CACHE_LINE_BYTES) << size;
            }
            if (align <= CACHE_LINE_BYTES || size > SMALL_LINEAR_BYTES_MAX)
                ASSERT_EQ(c, expected) << size << " at " << align;
        }
    }
}

TEST(SizeClass, ColoursWhereBlocksMeetInFewSets)
{
    EXPECT_EQ(sizeclass_colours(0), 1u) << "the class of no block";
    for (uint32_t c = 1; c < CLASS_COUNT; c++) {
        uint32_t bytes = sizeclass_bytes(c), colours = sizeclass_colours(c);
        bool wanted = bytes % COLOURED_STEP_BYTES == 0 && bytes <= SMALL_LINEAR_BYTES_MAX && c < CLASS_ALIGNED_FIRST;
        EXPECT_EQ(colours > 1, wanted) << bytes;
        EXPECT_EQ(colours & (colours - 1), 0u);
        EXPECT_LE(colours * CACHE_LINE_BYTES, wanted ? bytes : (uint32_t)CACHE_LINE_BYTES)
            << "an offset costs one block at most";
        // Blocks of all colours begin on every line of a page.
        std::set<uint32_t> lines;
        for (uint32_t colour = 0; wanted && colour < colours; colour++)
            for (uint32_t i = 0; i < PAGE_BYTES / bytes; i++)
                lines.insert((colour * CACHE_LINE_BYTES + i * bytes) % 4096 / CACHE_LINE_BYTES);
        if (wanted) EXPECT_EQ(lines.size(), 4096u / CACHE_LINE_BYTES) << bytes;
    }
}

TEST(SizeClass, Clamp)
{
    EXPECT_EQ(sizeclass_clamp(4, 5, 9), 5u);
    EXPECT_EQ(sizeclass_clamp(5, 5, 9), 5u);
    EXPECT_EQ(sizeclass_clamp(7, 5, 9), 7u);
    EXPECT_EQ(sizeclass_clamp(9, 5, 9), 9u);
    EXPECT_EQ(sizeclass_clamp(10, 5, 9), 9u);
}

// profile_block_test.cc: a sampled block is a block like others; the arithmetic of sampling; fork.
#include "heap/heap_test_support.h"

#include <cmath>

extern "C" {
#include "os/meta.h"
#include "os/os_fault.h"
#include "profile/profile.h"
#include "profile/profile_write.h"
#include "superslab/pagemap.h"
#include "superslab/purge.h"
}
#include "profile/poisson.h"

class ProfileBlock : public testing::Test {
  protected:
    void SetUp() override
    {
        if (SANITIZED) GTEST_SKIP() << "builds with a sanitizer do not profile";
    }
};

TEST_F(ProfileBlock, Arithmetic)
{
    for (double x : {1e-6, 0.001, 0.03, 0.0625, 0.5, 1.0, 3.0, 17.0, 39.0, 1000.0}) {
        EXPECT_NEAR(poisson_log(x), std::log(x), 1e-8) << x;
        EXPECT_NEAR(poisson_probability(x) / -std::expm1(-x), 1, 1e-9) << x;
    }
    uint64_t random = 1;
    EXPECT_EQ(poisson_random(&random), 0x40822041u) << "of xorshift64 (13, 7, 17)";
    double sum = 0;
    for (int i = 0; i < 1000000; i++) sum += poisson_distance(&random, 1000);
    EXPECT_NEAR(sum / 1e6, 1000, 4);
}

TEST_F(ProfileBlock, WhatAFullDeviceRefusesIsTheResult)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(64, 7), 0);
        hak_free(hak_malloc(5000));
        errno = 7;
        EXPECT_EQ(profile_write("/dev/full"), ENOSPC);
        EXPECT_EQ(profile_write("/dev/null"), 0) << "the next one begins again";
        EXPECT_EQ(errno, 7);
    }));
}

// With a thread's table of choices refused, its blocks are served and not sampled; later they are.
TEST_F(ProfileBlock, WithoutMemoryForATableNothingIsSampled)
{
    EXPECT_TRUE(test::in_child([] {
        std::vector<void *> blocks(20000);
        for (void *&block : blocks) block = hak_malloc(200);
        for (void *block : blocks) hak_free(block);
        ASSERT_EQ(profile_start(64, 7), 0);
        os_fault_install(1, true);
        while (meta_alloc(64) != nullptr) {}
        for (void *&block : blocks) ASSERT_NE(block = hak_malloc(200), nullptr);
        EXPECT_EQ(profile_used_bytes(), 0u);
        os_fault_remove();
        for (void *block : blocks) hak_free(block);
        for (void *&block : blocks) block = hak_malloc(200);
        EXPECT_GT(profile_used_bytes(), 0u);
        for (void *block : blocks) hak_free(block);
    }));
}

// As without a profile, slow paths give back what has been free for a while.
TEST_F(ProfileBlock, FreePagesGoBack)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1 << 20, 7), 0);
        pool_set_purge_delay_ms(1);
        hak_free(hak_malloc(RUN_BYTES_MAX));
        EXPECT_GE(purge_dirty_pages(), (size_t)RUN_PAGES_MAX - 8);
        std::vector<void *> blocks;
        for (int i = 0; i < 60 && purge_dirty_pages() > 0; i++) { // a refill each, and few pages in all
            for (int j = 0; j < 9; j++) blocks.push_back(hak_malloc(512));
            usleep(5000);
        }
        EXPECT_EQ(purge_dirty_pages(), 0u);
        for (void *block : blocks) hak_free(block);
    }));
}

// Samples that are live at the fork are the child's too, and both go on.
TEST_F(ProfileBlock, Fork)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(64, 7), 0);
        std::vector<void *> blocks;
        for (int i = 0; i < 3000; i++) blocks.push_back(hak_malloc(200));
        uint64_t used_bytes = profile_used_bytes();
        EXPECT_GT(used_bytes, 0u);
        EXPECT_TRUE(test::in_child([&] {
            EXPECT_EQ(profile_used_bytes(), used_bytes);
            for (void *block : blocks) hak_free(block);
            EXPECT_EQ(profile_used_bytes(), 0u);
            void *block = hak_malloc(100000);
            EXPECT_GE(profile_used_bytes(), 100000u);
            hak_free(block);
        }));
        EXPECT_EQ(profile_used_bytes(), used_bytes);
        for (void *block : blocks) hak_free(block);
        EXPECT_EQ(profile_used_bytes(), 0u);
    }));
}

// A sampled block has its class's size and stays in place where another would.
TEST_F(ProfileBlock, SampledBlock)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1, 7), 0); // every block
        hak_free(hak_malloc(1000));
        char *block = static_cast<char *>(hak_malloc(1000));
        ASSERT_EQ(pagemap_tag_checked(block), (uint32_t)CLASS_PROFILE);
        EXPECT_EQ(hak_malloc_usable_size(block), sizeclass_bytes(sizeclass_of(1000)));
        test::pattern_fill(block, 1008, 1);
        EXPECT_EQ(hak_realloc(block, 1008), block);
        char *moved = static_cast<char *>(hak_realloc(block, 5000));
        EXPECT_NE(moved, block);
        EXPECT_TRUE(test::pattern_holds(moved, 1008, 1));
        hak_free(moved);
        for (size_t align : {16, 64, 256, 4096, 32768}) {
            void *aligned = hak_aligned_alloc(align, 100);
            EXPECT_TRUE(test::is_aligned(aligned, align));
            hak_free(aligned);
        }
        profile_stop();
        for (int i = 0; i < 2000; i++) hak_free(hak_malloc(1000));
        void *plain = hak_malloc(1000);
        EXPECT_NE(pagemap_tag_checked(plain), (uint32_t)CLASS_PROFILE);
        hak_free(plain);
        test::inspected();
    }));
}

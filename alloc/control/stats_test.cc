// stats_test.cc: the figures follow what is allocated and freed.
#include "heap/heap_test_support.h"

#include <fcntl.h>
#include <sys/mman.h>

extern "C" {
#include "control/stats_write.h"
#include "profile/profile.h"
#include "superslab/pool.h"
}

namespace {

class Stats : public test::HeapTest {
  protected:
    static hak_stats get()
    {
        hak_stats stats;
        hak_stats_get(&stats);
        return stats;
    }
};

using test::MIB;

} // namespace

TEST_F(Stats, AtRest)
{
    hak_stats stats = get();
    EXPECT_EQ(stats.slab_bytes, 0u);
    EXPECT_EQ(stats.small_bytes, 0u);
    EXPECT_EQ(stats.run_bytes, 0u);
    EXPECT_EQ(stats.huge_bytes, 0u);
    EXPECT_EQ(stats.huge_cached_bytes, 0u);
    EXPECT_EQ(stats.dirty_bytes, 0u);
    EXPECT_EQ(stats.reserved_bytes % SUPERSLAB_BYTES, 0u);
}

TEST_F(Stats, SmallBlocks)
{
    std::vector<void *> blocks;
    for (int i = 0; i < 100; i++) blocks.push_back(hak_malloc(1000));
    hak_stats stats = get();
    EXPECT_GE(stats.small_bytes, 100u * 1008);
    EXPECT_LE(stats.small_bytes, 100u * 1008 + CARVE_BYTES) << "and what was carved beyond";
    EXPECT_EQ(stats.slab_bytes, 2u * PAGE_BYTES) << "64 KiB hold 65 of them";
    EXPECT_EQ(stats.run_bytes, 0u);
    EXPECT_GE(stats.reserved_bytes, (size_t)SUPERSLAB_BYTES);
    for (size_t size : {5000u, 20000u}) blocks.push_back(hak_malloc(size));
    EXPECT_EQ(get().slab_bytes, (2u + 4 + 8) * PAGE_BYTES);
    for (void *block : blocks) hak_free(block);
    EXPECT_GE(get().small_bytes, 1u) << "in the thread's cache";
    hak_purge();
    EXPECT_EQ(get().small_bytes, 0u);
    EXPECT_EQ(get().slab_bytes, 0u);
}

TEST_F(Stats, Runs)
{
    void *first = hak_malloc(3 * PAGE_BYTES), *second = hak_malloc(5 * PAGE_BYTES - 1);
    EXPECT_EQ(get().run_bytes, 8u * PAGE_BYTES);
    hak_free(first);
    EXPECT_EQ(get().run_bytes, 5u * PAGE_BYTES);
    EXPECT_EQ(get().dirty_bytes, 3u * PAGE_BYTES);
    second = hak_realloc(second, PAGE_BYTES);
    EXPECT_EQ(get().run_bytes, (size_t)PAGE_BYTES);
    hak_free(second);
    EXPECT_EQ(get().run_bytes, 0u);
    EXPECT_EQ(hak_purge(), 8u * PAGE_BYTES);
    EXPECT_EQ(get().dirty_bytes, 0u);
}

TEST_F(Stats, HugeBlocks)
{
    size_t reserved = get().reserved_bytes;
    void *block = hak_malloc(5 * MIB);
    EXPECT_EQ(get().huge_bytes, 5 * MIB);
    EXPECT_EQ(get().reserved_bytes, reserved + 5 * MIB);
    block = hak_realloc(block, 9 * MIB);
    EXPECT_EQ(get().huge_bytes, 9 * MIB);
    hak_free(block);
    EXPECT_EQ(get().huge_bytes, 0u);
    EXPECT_EQ(get().huge_cached_bytes, 9 * MIB);
    EXPECT_EQ(get().reserved_bytes, reserved + 9 * MIB);
    EXPECT_EQ(hak_purge(), 9 * MIB);
    EXPECT_EQ(get().huge_cached_bytes, 0u);
    EXPECT_EQ(get().reserved_bytes, reserved);
}

TEST_F(Stats, Heaps)
{
    hak_free(hak_malloc(1));
    size_t orphans = get().orphan_count, heaps = get().heap_count;
    EXPECT_GE(heaps, 1u);
    test::in_thread([&] {
        hak_free(hak_malloc(1));
        EXPECT_EQ(get().heap_count, std::max(heaps, (size_t)2));
    });
    EXPECT_EQ(get().heap_count, std::max(heaps, (size_t)2));
    EXPECT_EQ(get().orphan_count, std::max(orphans, (size_t)1));
}

TEST_F(Stats, WhileOthersWork)
{
    static std::atomic<bool> done;
    done = false;
    std::thread busy([] {
        test::Rng rng;
        while (!done) {
            // Superslabs are made and released while the figures are read.
            void *runs[2 * EMPTY_SUPERSLABS_MIN + 8];
            for (void *&run : runs) run = hak_malloc(RUN_BYTES_MAX);
            for (int i = 0; i < 100; i++) hak_free(hak_malloc(rng.below(100000)));
            for (void *run : runs) hak_free(run);
            hak_purge();
        }
    });
    for (int i = 0; i < test::rounds(20000); i++) {
        hak_stats stats = get();
        EXPECT_LT(stats.reserved_bytes, (size_t)1 << 40);
        EXPECT_LE(stats.slab_bytes, stats.reserved_bytes);
    }
    done = true;
    busy.join();
}

TEST_F(Stats, WhatBinsAndTheCacheOfMappingsHaveLearned)
{
    EXPECT_TRUE(test::in_child([] {
        hak_free(hak_malloc(500));
        hak_purge_all();
        const uint32_t c = sizeclass_of(500), most = sizeclass_credit_grown(c);
        hak_figures before{}, after{};
        hak_figures_get(&before, sizeof before);
        for (int round = 0; round < 40; round++) {
            std::vector<void *> blocks;
            for (uint32_t i = 0; i < 4 * most; i++) blocks.push_back(hak_malloc(500));
            for (void *block : blocks) hak_free(block);
        }
        hak_figures_get(&after, sizeof after);
        EXPECT_EQ(after.class_credits[c - 1], most);
        EXPECT_GT(after.classes_grown, 0u);
        EXPECT_EQ(before.huge_learned_bytes, 0u);
        void *stays = hak_malloc(3 * MIB);
        for (int round = 0; round < 10; round++) {
            std::vector<void *> blocks;
            for (int i = 0; i < 24; i++) blocks.push_back(hak_malloc(16 * MIB));
            for (void *block : blocks) hak_free(block);
        }
        hak_figures_get(&after, sizeof after);
        EXPECT_GT(after.huge_learned_bytes, 0u);
        hak_free(stays);
    }));
}

// Sampled small blocks lie outside the slabs: each counts with its class's bytes until it is freed, and its slot is
// resident. Runs and huge blocks are counted where they lie, sampled or not.
TEST_F(Stats, SampledBlocksCountAsTheOthers)
{
    if (VALIDATE || SANITIZED) GTEST_SKIP() << "this build takes no heap profile";
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1, 7), 0); // every block
        hak_free(hak_malloc(1000));
        hak_purge();
        const hak_stats before = get();
        hak_figures resident_before, resident;
        hak_figures_get(&resident_before, sizeof resident_before);
        std::vector<void *> blocks;
        for (int i = 0; i < 100; i++) blocks.push_back(hak_malloc(1000));
        hak_figures_get(&resident, sizeof resident);
        EXPECT_GE(get().small_bytes, before.small_bytes + 100u * 1008);
        EXPECT_LE(get().small_bytes, before.small_bytes + 101u * 1008 + CARVE_BYTES)
            << "and the one that a sample stands for";
        EXPECT_GE(resident.resident_bytes, resident_before.resident_bytes + 100u * 1008);
        const size_t small_bytes = get().small_bytes;
        blocks.push_back(hak_malloc(100000));
        blocks.push_back(hak_malloc(3 * MIB));
        EXPECT_EQ(get().small_bytes, small_bytes);
        for (void *block : blocks) hak_free(block);
        hak_purge();
        EXPECT_EQ(get().small_bytes, before.small_bytes);
    }));
}

TEST_F(Stats, Figures)
{
    std::vector<void *> blocks;
    for (int i = 0; i < 1000; i++) blocks.push_back(hak_malloc(500));
    void *huge = hak_malloc(5 * MIB);
    hak_figures figures;
    EXPECT_EQ(hak_figures_get(&figures, sizeof figures), sizeof figures);
    hak_stats stats = get();
    EXPECT_EQ(figures.mapped_bytes, stats.reserved_bytes);
    EXPECT_EQ(figures.used_bytes, stats.small_bytes + stats.run_bytes + stats.huge_bytes);
    EXPECT_EQ(figures.committed_bytes, stats.slab_bytes + stats.run_bytes + stats.dirty_bytes + stats.huge_bytes);
    EXPECT_GE(figures.committed_peak_bytes, figures.committed_bytes);
    EXPECT_EQ(figures.heaps, figures.orphans + figures.threads);
    EXPECT_GE(figures.refills, 1000u * 512 / PAGE_BYTES);
    EXPECT_GE(figures.slabs_made, 8u);
    EXPECT_EQ(figures.superslabs_made - figures.superslabs_released, figures.superslabs);
    const hak_class_figures &of_class = figures.classes[sizeclass_of(500) - 1];
    EXPECT_EQ(of_class.block_bytes, 512u);
    EXPECT_GE(of_class.used_blocks, 1000u);
    EXPECT_EQ(of_class.slab_bytes, 8u * PAGE_BYTES);
    EXPECT_EQ(figures.classes[CLASS_COUNT - 1].block_bytes, 0u) << "the list ends";
    EXPECT_GE(figures.class_credits[sizeclass_of(500) - 1], sizeclass_credit(sizeclass_of(500)));
    for (void *block : blocks) hak_free(block);
    hak_free(huge);
    hak_purge();
    hak_figures after;
    hak_figures_get(&after, sizeof after);
    EXPECT_EQ(after.committed_bytes, 0u);
    EXPECT_EQ(after.resident_bytes, 0u);
    EXPECT_EQ(after.idle_bytes, 0u);
    EXPECT_GE(after.slabs_released, figures.slabs_released + 8);
    EXPECT_GE(after.purged_bytes, figures.purged_bytes + 8 * PAGE_BYTES);
    // Programs that know fewer members, the second as version 0.1.0 was at first, and one that knows more.
    struct {
        uint64_t mapped_bytes, behind;
    } small = {1, 77};
    EXPECT_EQ(hak_figures_get((hak_figures *)&small, sizeof small.mapped_bytes), sizeof(hak_figures));
    EXPECT_EQ(small.mapped_bytes, after.mapped_bytes);
    EXPECT_EQ(small.behind, 77u);
    struct {
        uint64_t members[42];
        hak_class_figures classes[HAKMEM_CLASSES_MAX];
        uint64_t behind;
    } first;
    first.behind = 77;
    hak_figures_get((hak_figures *)&first, offsetof(decltype(first), behind));
    EXPECT_EQ(first.classes[0].block_bytes, 16u);
    EXPECT_EQ(first.behind, 77u);
    struct {
        hak_figures known;
        uint64_t more[4];
    } large;
    memset(&large, 0xff, sizeof large);
    hak_figures_get(&large.known, sizeof large);
    EXPECT_EQ(large.known.mapped_bytes, after.mapped_bytes);
    for (uint64_t each : large.more) EXPECT_EQ(each, 0u);
}

// All that was got is touched: then the books and the kernel say the same.
TEST_F(Stats, TheBooksAgreeWithTheKernel)
{
    SKIP_UNDER_SANITIZER("its own memory is in the same mappings");
    std::vector<std::pair<char *, size_t>> blocks;
    test::Rng rng;
    for (int i = 0; i < 20000; i++) {
        size_t size = i % 100 == 0 ? rng.between(RUN_BYTES_MAX / 4, RUN_BYTES_MAX) : rng.between(1, 4000);
        blocks.emplace_back((char *)hak_malloc(hak_good_size(size)), hak_good_size(size));
    }
    // The superslabs and the huge block, by mincore.
    std::vector<uintptr_t> bases;
    for (auto &[block, size] : blocks) bases.push_back((uintptr_t)block / SUPERSLAB_BYTES * SUPERSLAB_BYTES);
    blocks.emplace_back((char *)hak_malloc(9 * MIB), 9 * MIB);
    auto huge = (uintptr_t)blocks.back().first;
    bases.push_back(huge);
    for (auto &[block, size] : blocks) memset(block, 1, size);
    std::sort(bases.begin(), bases.end());
    bases.erase(std::unique(bases.begin(), bases.end()), bases.end());
    size_t os_bytes = (size_t)sysconf(_SC_PAGESIZE), resident = 0;
    for (uintptr_t base : bases) {
        size_t bytes = base == huge ? size_t{9 * MIB} : size_t{SUPERSLAB_BYTES};
        std::vector<unsigned char> there(bytes / os_bytes);
        ASSERT_EQ(mincore((void *)base, bytes, there.data()), 0);
        for (unsigned char each : there) resident += (each & 1) * os_bytes;
    }
    hak_figures figures;
    hak_figures_get(&figures, sizeof figures);
    printf("%zu bytes by the books, %zu by the kernel\n", (size_t)figures.resident_bytes, resident);
    EXPECT_NEAR((double)figures.resident_bytes, (double)resident, 0.01 * (double)resident);
    for (auto &[block, size] : blocks) hak_free(block);
}

TEST_F(Stats, GoodSizesAreUsableSizes)
{
    for (size_t size : {0u, 1u, 16u, 17u, 1000u, 1025u, 5000u, 32768u, 32769u, 70000u, 3u << 20}) {
        void *block = hak_malloc(size);
        EXPECT_EQ(hak_good_size(size), hak_malloc_usable_size(block)) << size;
        hak_free(block);
        hak_sized_block got = hak_malloc_at_least(size);
        EXPECT_EQ(got.size_bytes, hak_malloc_usable_size(got.block)) << size;
        memset(got.block, 1, got.size_bytes);
        hak_free(got.block);
    }
    EXPECT_EQ(hak_good_size(SIZE_MAX), SIZE_MAX);
    hak_sized_block none = hak_malloc_at_least(SIZE_MAX);
    EXPECT_EQ(none.block, nullptr);
    EXPECT_EQ(none.size_bytes, 0u);
}

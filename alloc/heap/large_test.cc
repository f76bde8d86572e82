// large_test.cc: page runs.
#include "heap/heap_test_support.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

extern "C" {
#include "heap/large.h"
#include "superslab/pool.h"
}

namespace {

using test::MIB;

class Large : public test::HeapTest {};

char *run_alloc(size_t size)
{
    return static_cast<char *>(hak_malloc(size));
}

} // namespace

TEST_F(Large, EveryPageCount)
{
    std::vector<std::pair<char *, size_t>> runs;
    for (size_t pages = 1; pages <= RUN_PAGES_MAX; pages++)
        for (size_t size : {(pages - 1) * PAGE_BYTES + 1, pages * PAGE_BYTES}) {
            if (size <= SMALL_BYTES_MAX) continue;
            char *run = run_alloc(size);
            ASSERT_NE(run, nullptr);
            EXPECT_TRUE(test::is_aligned(run, PAGE_BYTES));
            EXPECT_EQ(hak_malloc_usable_size(run), pages * PAGE_BYTES);
            test::pattern_fill(run, pages * PAGE_BYTES, size, 1024);
            runs.emplace_back(run, size);
        }
    EXPECT_EQ(test::inspected().run_count, runs.size());
    for (auto [run, size] : runs) {
        EXPECT_TRUE(test::pattern_holds(run, hak_malloc_usable_size(run), size, 1024));
        hak_free(run);
    }
}

TEST_F(Large, EveryAlignment)
{
    for (size_t align = 1; align <= RUN_BYTES_MAX; align *= 2)
        for (size_t size : {(size_t)0, (size_t)1, (size_t)SMALL_BYTES_MAX, (size_t)SMALL_BYTES_MAX + 1,
                            (size_t)PAGE_BYTES + 1, (size_t)RUN_BYTES_MAX}) {
            std::vector<void *> blocks;
            for (int i = 0; i < 3; i++) {
                blocks.push_back(hak_aligned_alloc(align, size));
                ASSERT_NE(blocks.back(), nullptr);
                EXPECT_TRUE(test::is_aligned(blocks.back(), std::max<size_t>(align, 16)));
                size_t usable = hak_malloc_usable_size(blocks.back());
                EXPECT_GE(usable, size);
                static_cast<char *>(blocks.back())[usable - 1] = 1;
            }
            for (void *block : blocks) hak_free(block);
        }
}

TEST_F(Large, ResizesInPlace)
{
    char *run = run_alloc(20 * PAGE_BYTES);
    test::pattern_fill(run, 20 * PAGE_BYTES, 1, 512);
    size_t claimed = pool_figures().claimed_pages;
    EXPECT_TRUE(large_resize(run, 5 * PAGE_BYTES + 1));
    EXPECT_EQ(hak_malloc_usable_size(run), 6u * PAGE_BYTES);
    EXPECT_EQ(pool_figures().claimed_pages, claimed - 14);
    test::inspected();
    EXPECT_TRUE(large_resize(run, 6 * PAGE_BYTES)) << "nothing to do";
    EXPECT_TRUE(large_resize(run, 12 * PAGE_BYTES)) << "the pages behind it are free";
    EXPECT_EQ(pool_figures().claimed_pages, claimed - 8);
    EXPECT_TRUE(test::pattern_holds(run, 6 * PAGE_BYTES, 1, 512));
    run[12 * PAGE_BYTES - 1] = 1;
    EXPECT_TRUE(large_resize(run, 1)) << "one page is the least";
    EXPECT_EQ(hak_malloc_usable_size(run), (size_t)PAGE_BYTES);
    test::inspected();
    hak_free(run);
}

// A run that was moved to grow has free pages behind it, also where no page was free and a superslab was made for it.
TEST_F(Large, AMovedRunHasRoomInANewSuperslab)
{
    char *run = run_alloc(2 * PAGE_BYTES);
    std::vector<char *> rest;
    while (pool_figures().claimed_pages < pool_figures().superslab_count * SUPERSLAB_PAGES)
        rest.push_back(run_alloc(PAGE_BYTES));
    const size_t made = pool_figures().made_count;
    run = static_cast<char *>(hak_realloc(run, 8 * PAGE_BYTES));
    ASSERT_NE(run, nullptr);
    ASSERT_EQ(pool_figures().made_count, made + 1);
    char *grown = static_cast<char *>(hak_realloc(run, 16 * PAGE_BYTES));
    EXPECT_EQ(grown, run) << "copied again";
    hak_free(grown);
    for (char *each : rest) hak_free(each);
}

TEST_F(Large, DoesNotGrowOverANeighbour)
{
    char *whole = run_alloc(20 * PAGE_BYTES);
    ASSERT_TRUE(large_resize(whole, 10 * PAGE_BYTES));
    // The first fit from the top may lie elsewhere, so allocate until a run lies behind this one.
    std::vector<char *> others;
    char *behind = nullptr;
    for (int i = 0; i < 200 && behind == nullptr; i++) {
        others.push_back(run_alloc(10 * PAGE_BYTES));
        if (others.back() == whole + 10 * PAGE_BYTES) behind = others.back();
    }
    ASSERT_NE(behind, nullptr);
    test::pattern_fill(whole, 10 * PAGE_BYTES, 2, 512);
    test::pattern_fill(behind, 10 * PAGE_BYTES, 3, 512);
    EXPECT_FALSE(large_resize(whole, 11 * PAGE_BYTES));
    EXPECT_EQ(hak_malloc_usable_size(whole), 10u * PAGE_BYTES);
    char *moved = static_cast<char *>(hak_realloc(whole, 11 * PAGE_BYTES));
    ASSERT_NE(moved, nullptr);
    EXPECT_NE(moved, whole);
    EXPECT_TRUE(test::pattern_holds(moved, 10 * PAGE_BYTES, 2, 512));
    EXPECT_TRUE(test::pattern_holds(behind, 10 * PAGE_BYTES, 3, 512));
    hak_free(moved);
    for (char *other : others) hak_free(other);
}

TEST_F(Large, FreedNeighboursServeALongerRun)
{
    hak_stats before, after;
    std::vector<char *> runs;
    for (int i = 0; i < 64; i++) runs.push_back(run_alloc(PAGE_BYTES));
    test::Rng().shuffle(runs);
    for (char *run : runs) hak_free(run);
    hak_stats_get(&before);
    char *first = run_alloc(RUN_BYTES_MAX), *second = run_alloc(RUN_BYTES_MAX);
    hak_stats_get(&after);
    EXPECT_EQ(after.reserved_bytes, before.reserved_bytes);
    hak_free(first);
    hak_free(second);
}

TEST_F(Large, ThreadsFreeEachOthersRuns)
{
    static std::atomic<char *> slots[32];
    static std::atomic<int> wrong;
    wrong = 0;
    test::in_threads(4, [](int thread) {
        test::Rng rng((uint64_t)thread);
        for (int i = 0; i < test::rounds(4000); i++) {
            size_t size = rng.between(SMALL_BYTES_MAX + 1, RUN_BYTES_MAX / 4);
            char *run = run_alloc(size);
            if (rng.below(4) == 0) run = static_cast<char *>(hak_realloc(run, size / 2 + 40000));
            size_t usable = hak_malloc_usable_size(run);
            *reinterpret_cast<size_t *>(run) = usable;
            *reinterpret_cast<size_t *>(run + usable - 8) = usable;
            run = slots[rng.below(32)].exchange(run);
            if (run == nullptr) continue;
            usable = hak_malloc_usable_size(run);
            if (*reinterpret_cast<size_t *>(run) != usable || *reinterpret_cast<size_t *>(run + usable - 8) != usable)
                wrong++;
            hak_free(run);
        }
    });
    EXPECT_EQ(wrong, 0);
    for (auto &slot : slots) hak_free(slot.exchange(nullptr));
}

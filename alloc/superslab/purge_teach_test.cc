// purge_teach_test.cc: how much the use of slabs and runs teaches the limit on free pages that keep their memory.
#include "superslab/purge_test_support.h"

namespace test::purge {

class PurgeTeach : public Purge {};

TEST_F(PurgeTeach, SlabsTeachAsMuchAsTheyAreUsed)
{
    big_swing();
    big_swing();
    size_t after_runs = pool_figures().dirty_pages;
    pool_purge_all();
    big_swing_of_slabs();
    big_swing_of_slabs();
    size_t after_slabs = pool_figures().dirty_pages;
    EXPECT_LT(after_slabs, after_runs / 2);
    EXPECT_GT(after_slabs, (size_t)DIRTY_PAGES_MIN / 2) << "it does not learn";
    pool_purge_all();
    big_swing_of_half_full_slabs();
    big_swing_of_half_full_slabs();
    EXPECT_GT(pool_figures().dirty_pages, 2 * after_slabs);
    EXPECT_LT(pool_figures().dirty_pages, after_runs / 2);
    pool_purge_all();
    big_swing_of_slabs();
    big_swing_of_slabs();
    int rounds = 2;
    while (purge_calls_of(big_swing_of_slabs) > 0) ASSERT_LT(++rounds, 100) << "it does not learn";
    pool_purge_all();
    int full_rounds = 0;
    while (purge_calls_of(big_swing_of_full_slabs) > 0) ASSERT_LT(++full_rounds, 20) << "it does not learn";
    EXPECT_LT(2 * full_rounds, rounds);
}

// The same where a heap of the program's own is destroyed: its slabs count as far as they were used.
TEST_F(PurgeTeach, SlabsOfDestroyedHeapsTeachByTheirFill)
{
    if (VALIDATE) GTEST_SKIP() << "the debug-validation build keeps the pages of destroyed heaps";
    const auto swings = [](int blocks) {
        pool_purge_all();
        for (int i = 0; i < 2; i++) {
            std::vector<hak_heap *> heaps(128);
            for (hak_heap *&heap : heaps) {
                heap = hak_heap_new();
                for (int block = 0; block < blocks; block++) hak_heap_malloc(heap, SMALL_BYTES_MAX);
            }
            for (hak_heap *heap : heaps) hak_heap_destroy(heap);
        }
        return purge_keep_pages();
    };
    const size_t little = swings(1), half = swings(8), full = swings(16);
    EXPECT_GT(half, 3 * little);
    EXPECT_GT(full, half + half / 2);
}

void pass_two_windows()
{
    for (int i = 0; i < 2 * WINDOW_DELAYS; i++) tick();
}

// Slabs teach no more than the most pages that were in use in this window or the one before. Those before do not count, whether
// time or an explicit purge ended them.
TEST_F(PurgeTeach, SlabsTeachUpToThePeakOfTheirWindow)
{
    for (bool by_time : {true, false}) {
        swing(128, true); // the peak of before
        by_time ? pass_two_windows() : (void)pool_purge_all();
        const size_t peak = pool_figures().claimed_pages + 64 * RUN_PAGES;
        for (int i = 0; i < 10; i++) big_swing_of_full_slabs();
        EXPECT_EQ(purge_keep_pages(), peak + DIRTY_PAGES_MIN) << "by time: " << by_time;
        pool_purge_all();
    }
}

// Runs teach no more than twice the most pages that were in runs then.
TEST_F(PurgeTeach, RunsTeachUpToTwiceThePeakOfTheirWindow)
{
    for (bool by_time : {true, false}) {
        swing(128, true); // the peak of before
        by_time ? pass_two_windows() : (void)pool_purge_all();
        for (int i = 0; i < 3; i++) big_swing_of_slabs();
        std::vector<page_range> slabs, runs;
        while (purge_dirty_pages() > 0) slabs.push_back(pool_claim(RUN_PAGES, 1, false));
        const size_t keep = purge_keep_pages();
        ASSERT_GT(keep, 4u * RUN_PAGES + DIRTY_PAGES_MIN);
        for (size_t peak = RUN_PAGES; 2 * peak + DIRTY_PAGES_MIN <= keep; peak += RUN_PAGES) {
            runs.push_back(pool_claim(RUN_PAGES, 1, true));
            ASSERT_EQ(purge_keep_pages(), keep) << peak << " pages, by time: " << by_time;
        }
        for (int i = 0; i < 2; i++) runs.push_back(pool_claim(RUN_PAGES, 1, true));
        EXPECT_GT(purge_keep_pages(), keep);
        for (const page_range &each : slabs) pool_free(each.superslab, each.first, RUN_PAGES, 1);
        for (const page_range &each : runs) pool_free(each.superslab, each.first, RUN_PAGES, 0);
        pool_purge_all();
    }
}

// After an explicit purge, slabs count as hardly used until some were freed, as at the start.
TEST_F(PurgeTeach, AnExplicitPurgeForgetsHowFullSlabsWere)
{
    big_swing_of_full_slabs();
    pool_purge_all();
    big_swing(); // runs: of these, most go back
    std::vector<page_range> slabs;
    for (int i = 0; i < 40; i++) slabs.push_back(pool_claim(RUN_PAGES, 1, false));
    EXPECT_GT(purge_keep_pages(), 30u * RUN_PAGES / 8);
    EXPECT_LE(purge_keep_pages(), 40u * RUN_PAGES / 8);
    for (const page_range &each : slabs) pool_free(each.superslab, each.first, RUN_PAGES, 8);
}

} // namespace test::purge

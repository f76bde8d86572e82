// purge_test.cc: the limit in number on free pages that keep their memory, and what it learns.
#include "base/test_support.h"

#include <vector>

extern "C" {
#include "os/os.h"
#include "superslab/pool.h"
}

namespace {

const uint32_t RUN_PAGES = 16;

// Claims `runs` runs, touches them, frees them: a swing of that many dirty pages.
void swing(int runs, bool from_top, uint32_t slab_eighths = 0)
{
    std::vector<page_range> ranges;
    for (int i = 0; i < runs; i++) {
        ranges.push_back(pool_claim(RUN_PAGES, 1, from_top));
        ASSERT_NE(ranges.back().superslab, nullptr);
        *superslab_page_start(ranges.back().superslab, &ranges.back().superslab->slabs[ranges.back().first]) = 1;
    }
    for (const page_range &each : ranges) pool_free(each.superslab, each.first, RUN_PAGES, slab_eighths);
}

size_t purge_calls_of(void (*work)())
{
    static size_t calls;
    static os_ops counting;
    counting = *os;
    static const os_ops *inner;
    inner = os;
    calls = 0;
    counting.purge = [](void *start, size_t size_bytes) {
        calls++;
        return inner->purge(start, size_bytes);
    };
    os = &counting;
    work();
    os = inner;
    return calls;
}

class Purge : public testing::Test {
  protected:
    void SetUp() override
    {
        pool_set_purge_delay_ms(PURGE_DELAY_MS);
        pool_tick(os_now_ms()); // no tick of the wall clock's from here on
        pool_purge_all();
    }
    void TearDown() override { pool_purge_all(); }
};

void big_swing() { swing(64, true); } // 1024 pages, sixteen times what may always be kept
void big_swing_of_slabs() { swing(64, false, 1); } // little used
void big_swing_of_full_slabs() { swing(64, false, 8); }

} // namespace

TEST_F(Purge, AFirstSwingIsNotKept)
{
    big_swing();
    EXPECT_LE(pool_figures().dirty_pages, (size_t)DIRTY_PAGES_MIN);
}

TEST_F(Purge, SwingsThatComeAgainAreKept)
{
    EXPECT_GT(purge_calls_of(big_swing), 0u);
    int rounds = 1;
    while (purge_calls_of(big_swing) > 0) ASSERT_LT(++rounds, 20) << "it does not learn";
    for (int i = 0; i < 100; i++) ASSERT_EQ(purge_calls_of(big_swing), 0u) << i;
    EXPECT_GE(pool_figures().dirty_pages, 64u * RUN_PAGES / 2);
}

TEST_F(Purge, SlabsTeachAsMuchAsTheyAreUsed)
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
    int rounds = 2;
    while (purge_calls_of(big_swing_of_slabs) > 0) ASSERT_LT(++rounds, 100) << "it does not learn";
    pool_purge_all();
    int full_rounds = 0;
    while (purge_calls_of(big_swing_of_full_slabs) > 0) ASSERT_LT(++full_rounds, 20) << "it does not learn";
    EXPECT_LT(2 * full_rounds, rounds);
}

TEST_F(Purge, WhatWasLearnedIsForgottenWithoutSwings)
{
    for (int i = 0; i < 20; i++) big_swing();
    ASSERT_EQ(purge_calls_of(big_swing), 0u);
    uint64_t now_ms = os_now_ms();
    for (int i = 1; i <= 60; i++) pool_tick(now_ms + (uint64_t)i * PURGE_DELAY_MS);
    EXPECT_EQ(pool_figures().dirty_pages, 0u) << "idle memory goes back in time";
    EXPECT_GT(purge_calls_of(big_swing), 0u) << "and the limit is the old one";
    EXPECT_LE(pool_figures().dirty_pages, (size_t)DIRTY_PAGES_MIN);
}

TEST_F(Purge, AnExplicitPurgeForgets)
{
    for (int i = 0; i < 20; i++) big_swing();
    pool_purge_all();
    EXPECT_GT(purge_calls_of(big_swing), 0u);
}

TEST_F(Purge, CountsBalance)
{
    size_t claimed = pool_figures().claimed_pages;
    page_range range = pool_claim(RUN_PAGES, 1, true);
    EXPECT_EQ(pool_figures().claimed_pages, claimed + RUN_PAGES);
    EXPECT_EQ(pool_figures().dirty_pages, 0u);
    pool_free(range.superslab, range.first, RUN_PAGES, 0);
    EXPECT_EQ(pool_figures().claimed_pages, claimed);
    EXPECT_EQ(pool_figures().dirty_pages, RUN_PAGES);
}

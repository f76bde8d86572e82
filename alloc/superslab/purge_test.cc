// purge_test.cc: the limit on the number of free pages that keep their memory, what it learns and forgets.
#include "superslab/pool_test_support.h"
#include "superslab/purge_test_support.h"

extern "C" {
#include "superslab/limit.h"
#include "superslab/round.h"
}

namespace test::purge {

TEST_F(Purge, SwingsThatComeAgainAreKept)
{
    EXPECT_GT(purge_calls_of(big_swing), 0u);
    int rounds = 1;
    while (purge_calls_of(big_swing) > 0) ASSERT_LT(++rounds, 20) << "it does not learn";
    for (int i = 0; i < 100; i++) ASSERT_EQ(purge_calls_of(big_swing), 0u) << i;
    EXPECT_GE(pool_figures().dirty_pages, 64u * RUN_PAGES / 2);
}

void swings_of_many_lengths()
{
    for (int runs : {64, 32, 32, 32}) {
        swing(runs);
        tick();
    }
}

// Pages that were idle for one interval are cold, and yet the next swing wants them.
TEST_F(Purge, ATickLeavesWhatIsKept)
{
    for (int i = 0; i < 20; i++) big_swing();
    for (int i = 0; i < 100; i++) ASSERT_EQ(purge_calls_of(swings_of_many_lengths), 0u) << i;
}

// Runs that leave gaps into which the next, longer runs do not fit: more memory is free than was ever in use.
class Gaps {
  public:
    Gaps()
    {
        for (int i = 0; i < 64; i++) {
            fences_.push_back(pool_claim(1, 1, true));
            gaps_.push_back(pool_claim(8, 1, true));
        }
        free_gaps();
    }
    ~Gaps()
    {
        for (const page_range &each : fences_) pool_free(each.superslab, each.first, 1, 0);
    }
    void free_gaps()
    {
        for (const page_range &each : gaps_) pool_free(each.superslab, each.first, 8, 0);
        gaps_.clear();
    }
    void claim_gaps()
    {
        for (int i = 0; i < 64; i++) gaps_.push_back(pool_claim(8, 1, true));
    }

  private:
    std::vector<page_range> fences_, gaps_;
};

Gaps *gaps;

void swings_beside_gaps()
{
    gaps->claim_gaps();
    gaps->free_gaps();
    swing(32);
}

// A suite of its own runs in a process of its own: in superslabs of other tests the runs would lie elsewhere.
class PurgeBesideGaps : public Purge {};

TEST_F(PurgeBesideGaps, WhatRunsOfManyLengthsLeaveBetweenThemIsKept)
{
    Gaps between_fences;
    gaps = &between_fences;
    int rounds = 1;
    while (purge_calls_of(swings_beside_gaps) > 0) ASSERT_LT(++rounds, 20) << "it does not learn";
    for (int i = 0; i < 20; i++) ASSERT_EQ(purge_calls_of(swings_beside_gaps), 0u) << i;
}

// Claims `pages` pages, holds them, frees them, and rests: a swing of `delays` delays. Slow paths come all the time, or none comes
// while nothing changes.
void slow_swing(double delays, double held_share, bool of_runs, bool is_busy)
{
    const auto pass = [&](double part) {
        uint64_t ms = (uint64_t)(delays * part * (double)PURGE_DELAY_MS);
        uint64_t step = is_busy ? PURGE_DELAY_MS / 8 : ms;
        for (uint64_t passed = 0; passed < ms; passed += step) pool_tick(clock_ms += step);
    };
    std::vector<page_range> ranges;
    for (int i = 0; i < 64; i++) ranges.push_back(pool_claim(RUN_PAGES, 1, of_runs));
    for (const page_range &each : ranges) ASSERT_NE(each.superslab, nullptr);
    pass(held_share);
    for (const page_range &each : ranges) pool_free(each.superslab, each.first, RUN_PAGES, of_runs ? 0 : 8);
    pass(1 - held_share);
}

// The law of swings: memory that is wanted again within WINDOW_DELAYS is kept in time, whatever the period, how much of it the
// memory is in use, and whether slow paths come meanwhile. When the swings end, it goes back in time.
TEST_F(Purge, SwingsOfEachPeriodAreKeptUntilTheyEnd)
{
    for (double delays : {0.1, 0.3, 0.6, 1.0, 1.4, 1.7, 1.9})
        for (double held_share : {0.1, 0.5, 0.9})
            for (bool of_runs : {true, false})
                for (bool is_busy : {true, false}) {
                    SCOPED_TRACE(testing::Message() << delays << " delays, held " << held_share << ", runs " << of_runs
                                                    << ", busy " << is_busy);
                    pool_purge_all();
                    for (int i = 0; i < 20; i++) slow_swing(delays, held_share, of_runs, is_busy);
                    const size_t before = purge_purged_pages();
                    for (int i = 0; i < 20; i++) slow_swing(delays, held_share, of_runs, is_busy);
                    ASSERT_EQ(purge_purged_pages() - before, 0u);
                    ASSERT_GE(purge_dirty_pages(), 64u * RUN_PAGES);
                    for (int i = 0; i < 2 * WINDOW_DELAYS + 8; i++) tick();
                    ASSERT_EQ(purge_dirty_pages(), 0u);
                }
}

// Pages that have rested go back, down to those that are kept. No free does it here.
TEST_F(Purge, ATickGivesBackWhatIsNotKept)
{
    for (int i = 0; i < 20; i++) big_swing();
    const size_t learned = purge_keep_pages();
    EXPECT_GT(pool_figures().dirty_pages, 8u * DIRTY_PAGES_MIN);
    for (int i = 0; i < 2 * WINDOW_DELAYS; i++) tick(); // until then a swing may come again
    tick(); // less than all is kept from now on, and what is idle is marked
    for (int i = 0; i < 3; i++) {
        tick();
        EXPECT_LE(pool_figures().dirty_pages, purge_keep_pages()) << i;
    }
    EXPECT_LT(purge_keep_pages(), learned / 4) << "half of it fades in each delay without use";
}

// A round that takes several steps, of a few calls each, purges all that was idle when the round before looked, and nothing that
// became idle since.
TEST_F(Purge, ARoundInStepsTakesWhatWasIdleBefore)
{
    std::vector<page_range> pages;
    for (int i = 0; i < 60; i++) {
        pages.push_back(pool_claim(1, 1, true));
        *superslab_page_start(pages.back().superslab, &pages.back().superslab->slabs[pages.back().first]) = 1;
    }
    const auto free_each = [&](size_t from) { // so that each is a row of its own
        for (size_t i = from; i < pages.size(); i += 4) pool_free(pages[i].superslab, pages[i].first, 1, 0);
    };
    free_each(0);
    tick(); // sees them
    ASSERT_EQ(purge_dirty_pages(), 15u);
    clock_ms += PURGE_DELAY_MS;
    round_call_begins();
    pool_tick(clock_ms);
    round_call_ends();
    const size_t left = purge_dirty_pages();
    ASSERT_GT(left, 0u) << "one step was enough";
    ASSERT_LT(left, 15u);
    free_each(2); // within the round
    for (int step = 0; step < 30; step++) {
        round_call_begins();
        pool_tick(clock_ms + 1);
        round_call_ends();
    }
    EXPECT_EQ(purge_dirty_pages(), 15u) << "those that were freed within the round";
    tick();
    tick();
    EXPECT_EQ(purge_dirty_pages(), 0u);
    for (size_t from : {1u, 3u}) free_each(from);
}

TEST_F(Purge, WhatWasLearnedIsForgottenWithoutSwings)
{
    for (int i = 0; i < 20; i++) big_swing();
    ASSERT_EQ(purge_calls_of(big_swing), 0u);
    for (int i = 0; i < 60; i++) tick();
    EXPECT_EQ(pool_figures().dirty_pages, 0u) << "idle memory goes back in time";
    EXPECT_GT(purge_calls_of(big_swing), 0u) << "and the limit is the old one";
    EXPECT_LE(pool_figures().dirty_pages, (size_t)DIRTY_PAGES_MIN);
}

// A program at rest that does a little work now and then. Its purges must not count as use.
TEST_F(Purge, WhatRestsIsGivenBackFiveDelaysAfterTwoWindows)
{
    for (int i = 0; i < 20; i++) big_swing();
    ASSERT_GT(pool_figures().dirty_pages, 8u * DIRTY_PAGES_MIN);
    for (int i = 0; i < 2 * WINDOW_DELAYS + 5; i++) {
        page_range one = pool_claim(1, 1, false);
        pool_free(one.superslab, one.first, 1, 8);
        tick();
    }
    EXPECT_LE(pool_figures().dirty_pages, (size_t)DIRTY_PAGES_MIN);
}

// Locked memory cannot be purged. One round shows it; then frees do not try again until a delay has passed, or an explicit
// purge asks.
TEST_F(Purge, WhatIsRefusedIsNotTriedAtEachFree)
{
    static size_t refused;
    refused = 0;
    os_ops refusing = *os;
    const os_ops *inner = os;
    refusing.purge = [](void *, size_t) {
        refused++;
        return EINVAL;
    };
    pool_set_purge_delay_ms(60'000);
    os = &refusing;
    big_swing();
    os = inner;
    EXPECT_GT(refused, 0u);
    EXPECT_LE(refused, 64u) << "of one round, at most each run";
    EXPECT_EQ(purge_calls_of(big_swing), 0u) << "not yet";
    pool_purge_all();
    EXPECT_GT(purge_calls_of(big_swing), 0u);
    pool_set_purge_delay_ms(PURGE_DELAY_MS);
}

// Beside locked memory a round misses its goal, and yet the next free purges what it can.
TEST_F(Purge, BesideLockedMemoryTheRestGoesBack)
{
    static const char *locked;
    static const os_ops *inner;
    inner = os;
    os_ops refusing = *os;
    refusing.purge = [](void *start, size_t size_bytes) {
        const char *at = static_cast<const char *>(start);
        return at >= locked && at < locked + SUPERSLAB_BYTES ? EINVAL : inner->purge(start, size_bytes);
    };
    pool_set_purge_delay_ms(60'000);
    page_range whole = pool_claim(SUPERSLAB_PAGES, 1, true);
    ASSERT_NE(whole.superslab, nullptr);
    locked = superslab_base(whole.superslab);
    os = &refusing;
    pool_free(whole.superslab, 0, SUPERSLAB_PAGES, 0);
    swing(16);
    EXPECT_LE(pool_figures().dirty_pages, (size_t)SUPERSLAB_PAGES);
    os = inner;
    pool_set_purge_delay_ms(PURGE_DELAY_MS);
}

// With a delay of 0 a free tries what is free in its own superslab, and no others.
TEST_F(Purge, WithoutADelayAFreePurgesItsSuperslabAlone)
{
    os_ops refusing = *os;
    const os_ops *inner = os;
    refusing.purge = [](void *, size_t) { return EINVAL; };
    pool_set_purge_delay_ms(0);
    os = &refusing;
    big_swing();
    ASSERT_GT(pool_figures().dirty_pages, 8u * DIRTY_PAGES_MIN);
    EXPECT_EQ(purge_calls_of([] { swing(1); }), 1u);
    os = inner;
    pool_set_purge_delay_ms(PURGE_DELAY_MS);
}

// The limit allows what fits once all free pages have given their memory back, to the byte, and nothing more.
TEST_F(Purge, TheLimitAllowsWhatFitsWithoutFreePages)
{
    EXPECT_TRUE(test::in_child([] {
        const page_range held = pool_claim(RUN_PAGES, 1, true);
        for (size_t short_bytes : {(size_t)1, (size_t)100, (size_t)PAGE_BYTES - 1, (size_t)PAGE_BYTES,
                                   (size_t)PAGE_BYTES + 1, 3 * (size_t)RUN_PAGES * PAGE_BYTES - 1,
                                   3 * (size_t)RUN_PAGES * PAGE_BYTES, 3 * (size_t)RUN_PAGES * PAGE_BYTES + 1}) {
            limit_set(SIZE_MAX);
            pool_purge_all();
            swing(3);
            const size_t committed_bytes = limit_committed_bytes(), dirty_bytes = purge_dirty_pages() * PAGE_BYTES;
            ASSERT_EQ(dirty_bytes, 3 * (size_t)RUN_PAGES * PAGE_BYTES);
            limit_set(committed_bytes + PAGE_BYTES - short_bytes);
            EXPECT_EQ(limit_allows(PAGE_BYTES), short_bytes <= dirty_bytes) << short_bytes;
        }
        limit_set(SIZE_MAX);
        pool_free(held.superslab, held.first, RUN_PAGES, 0);
    }));
}

// Nobody was on a slow path for four delays: the next one gives back what is idle, without a round to mark it first.
TEST_F(Purge, AfterAPauseWhatIsIdleGoesBackAtOnce)
{
    tick();
    swing(3);
    tick();
    EXPECT_EQ(pool_figures().dirty_pages, 3u * RUN_PAGES) << "only marked";
    pool_purge_all();
    for (uint64_t delays : {3, 4}) {
        swing(3);
        ASSERT_TRUE(pool_tick(clock_ms += delays * PURGE_DELAY_MS));
        EXPECT_EQ(pool_figures().dirty_pages, delays < 4 ? 3u * RUN_PAGES : 0u) << delays;
        pool_purge_all();
    }
}

// A program that works in bursts, with pauses between them, does not fault its pages in again for each.
TEST_F(Purge, BurstsAfterPausesAreKept)
{
    const auto burst = [] {
        clock_ms += 40 * PURGE_DELAY_MS;
        pool_tick(clock_ms);
        swing(3); // as many as may stay in any case
    };
    int bursts = 0;
    while (purge_calls_of(burst) > 0 || bursts == 0) ASSERT_LT(++bursts, 10) << "it does not learn";
    for (int i = 0; i < 100; i++) ASSERT_EQ(purge_calls_of(burst), 0u) << i;
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

TEST_F(Purge, AClaimSaysWhichOfItsPagesAreDirty)
{
    Claimed all = claim(8);
    free_run(all);
    pool_purge_all();
    Claimed one = claim(1);
    free_run(one);
    Claimed three = claim(3);
    ASSERT_EQ(start_of(three.range) + 2 * PAGE_BYTES, start_of(one.range));
    EXPECT_EQ(three.range.dirty, 4u) << "its last page is dirty, the others read as zero";
    free_run(three);
}

} // namespace test::purge

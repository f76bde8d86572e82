// purge_law_test.cc: the law of what the limit on free pages learns and forgets: after each step of random histories it is what
// purge.h says of the pages that were claimed, freed and purged in this window and the one before.
#include "superslab/purge_test_support.h"

extern "C" {
#include "superslab/round.h"
}

namespace test::purge {

// What purge.h says. Pages in eighths are those that the limit has learned to keep.
class Said {
  public:
    size_t keep_eighths = 0;

    void forgets_all()
    {
        keep_eighths = 0;
        fullness_ = 64;
        before_ = {};
        swung_before_ = false;
        begin_window();
    }

    // Pages without memory were wanted again: as many were purged too early, and the oldest of those are accounted for first.
    void claimed(size_t pages, size_t with_memory, bool of_run)
    {
        level_changes();
        now_.claimed = std::max(now_.claimed, purge_claimed_pages());
        now_.in_runs = std::max(now_.in_runs, purge_run_pages());
        const size_t early = std::min(pages - with_memory, early_before_ + early_now_);
        const size_t of_before = std::min(early, early_before_);
        early_before_ -= of_before;
        early_now_ -= early - of_before;
        const size_t peak =
            of_run ? 2 * std::max(now_.in_runs, before_.in_runs) : std::max(now_.claimed, before_.claimed);
        const size_t keep =
            std::min(keep_eighths + early * (of_run ? 12 : fullness_ / 64), 8 * (peak + DIRTY_PAGES_MIN));
        if (early > 0) keep_eighths = std::max(keep_eighths, keep);
    }

    void freed(size_t slab_eighths)
    {
        level_changes();
        if (slab_eighths != 0) fullness_ = fullness_ - fullness_ / 8 + slab_eighths * 8;
    }

    // A purge is no use: it lowers all levels of this window.
    void purged(size_t pages)
    {
        early_now_ += pages;
        low_ -= std::min(low_, pages);
        high_ -= std::min(high_, pages);
    }

    void round_begins(uint64_t now_ms)
    {
        fade();
        if (now_ms < window_end_ms_) return;
        const bool two_have_passed = now_ms >= window_end_ms_ + WINDOW_DELAYS * PURGE_DELAY_MS;
        for (int i = 0; i <= two_have_passed; i++) {
            before_ = now_;
            swung_before_ = swings();
            high_before_ = high_;
            early_before_ = early_now_;
            early_now_ = 0;
            begin_window_levels();
        }
        window_end_ms_ = now_ms + WINDOW_DELAYS * PURGE_DELAY_MS;
    }

    void window_ends_at(uint64_t ms) { window_end_ms_ = ms; }

    size_t limit() const { return std::max({purge_claimed_pages() / 4, (size_t)DIRTY_PAGES_MIN, keep_eighths / 8}); }
    // A free that exceeds the limit purges down to this.
    size_t goal() const { return limit() - limit() / (keep_eighths / 8 == limit() ? 8 : 2); }

  private:
    struct Peaks {
        size_t claimed = 0, in_runs = 0;
    };
    Peaks now_, before_;
    size_t high_ = 0, low_ = 0, high_before_ = 0; // of free pages with memory
    bool swung_before_ = false;
    size_t early_now_ = 0, early_before_ = 0; // purged in this window and the one before, and not wanted again yet
    size_t fullness_ = 64;
    uint64_t window_end_ms_ = 0;

    bool swings() const { return high_ > low_ && high_ - low_ >= high_ / 8; }

    void level_changes()
    {
        high_ = std::max(high_, purge_dirty_pages());
        low_ = std::min(low_, purge_dirty_pages());
    }

    void begin_window_levels()
    {
        high_ = low_ = purge_dirty_pages();
        now_ = {purge_claimed_pages(), purge_run_pages()};
    }

    void begin_window()
    {
        early_now_ = early_before_ = high_before_ = 0;
        begin_window_levels();
    }

    // While it is used, a sixty-fourth goes, and no more than leaves one and a half times what was free at most; else half.
    void fade()
    {
        const bool in_use = swings() || swung_before_;
        const size_t floor = in_use ? 12 * std::max(high_, high_before_) : 0, part = in_use ? 64 : 2;
        if (keep_eighths < floor) return;
        keep_eighths = std::max(floor, keep_eighths - (keep_eighths + part - 1) / part);
    }
};

class PurgeLaw : public Purge {
  protected:
    struct Held {
        page_range range;
        uint32_t pages, eighths; // 0: a run
    };
    Said said_;
    std::vector<Held> held_;
    Rng rng_{1};

    void SetUp() override
    {
        Purge::SetUp();
        clock_ms += 100 * PURGE_DELAY_MS; // so that a window begins now
        ASSERT_TRUE(pool_tick(clock_ms));
        pool_purge_all();
        said_.window_ends_at(clock_ms + WINDOW_DELAYS * PURGE_DELAY_MS);
        said_.forgets_all();
    }
    void TearDown() override
    {
        for (const Held &each : held_) pool_free(each.range.superslab, each.range.first, each.pages, each.eighths);
        Purge::TearDown();
    }

    void claim(uint32_t pages, uint32_t eighths)
    {
        const page_range range = pool_claim(pages, 1, eighths == 0);
        ASSERT_NE(range.superslab, nullptr);
        held_.push_back({range, pages, eighths});
        said_.claimed(pages, (size_t)__builtin_popcountll(range.dirty), eighths == 0);
    }

    // In one go, or in the steps of a malloc or free, which are bounded.
    void free_one(size_t at, bool in_steps)
    {
        std::swap(held_[at], held_.back());
        const Held each = held_.back();
        held_.pop_back();
        const size_t before = purge_purged_pages();
        if (in_steps) round_call_begins();
        pool_free_kept(each.range.superslab, each.range.first, each.pages, each.eighths);
        said_.freed(each.eighths);
        const size_t limit = said_.limit();
        const bool exceeds = purge_dirty_pages() > limit;
        purge_after_free(each.range.superslab);
        while (purge_is_owed()) round_call_begins(), purge_after_keep();
        round_call_ends();
        said_.purged(purge_purged_pages() - before);
        ASSERT_EQ(purge_purged_pages() != before, exceeds);
        if (!exceeds) return;
        ASSERT_LE(purge_dirty_pages(), said_.goal());
        ASSERT_GT(purge_dirty_pages() + SUPERSLAB_PAGES, said_.goal()) << "it purges superslab by superslab";
    }

    void tick_after(uint64_t ms)
    {
        const size_t before = purge_purged_pages();
        clock_ms += ms;
        said_.round_begins(clock_ms);
        ASSERT_TRUE(pool_tick(clock_ms));
        said_.purged(purge_purged_pages() - before);
    }

    // A loop's swing, or part of one; a rest, or a long one.
    void step()
    {
        const uint64_t what = rng_.below(16);
        const uint32_t pages = 1 + (uint32_t)rng_.below(RUN_PAGES_MAX);
        const uint32_t eighths = rng_.below(2) == 0 ? 0 : 1 + (uint32_t)rng_.below(8);
        const bool in_steps = rng_.below(2) == 0;
        if (what < 6)
            for (uint64_t i = rng_.below(48); i > 0 && held_.size() < 128; i--) claim(pages, eighths);
        else if (what < 11)
            for (size_t left = held_.size() / (1 + rng_.below(3)); left > 0; left--)
                free_one(rng_.below(held_.size()), in_steps);
        else if (what < 15) tick_after(PURGE_DELAY_MS + rng_.below(PURGE_DELAY_MS));
        else if (rng_.below(4) == 0) pool_purge_all(), said_.forgets_all();
        else tick_after(PURGE_DELAY_MS * rng_.between(2, 8));
    }
};

TEST_F(PurgeLaw, WhatIsLearnedIsWhatWasPurgedTooEarly)
{
    size_t most = 0;
    for (int i = 0; i < 4000; i++) {
        step();
        ASSERT_EQ(purge_keep_pages(), said_.keep_eighths / 8) << "after step " << i;
        if (HasFatalFailure()) FAIL() << "at step " << i;
        most = std::max(most, purge_keep_pages());
    }
    EXPECT_GT(most, 4u * DIRTY_PAGES_MIN) << "it has learned nothing to speak of";
}

// Slabs of a heap of the program's own that is destroyed count as far as they were used.
TEST_F(PurgeLaw, SlabsOfDestroyedHeapsTeachByTheirFill)
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

} // namespace test::purge

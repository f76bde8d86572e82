// huge_law_test.cc: the law of the cache of mappings: in random histories of blocks, of other memory and of time, what it learns is
// what huge_cache.h says, and what it gives back is what it must, and no mapping more. Its mappings here have no memory.
#include "heap/heap_test_support.h"

#include <deque>

extern "C" {
#include "heap/huge.h"
#include "heap/huge_cache.h"
#include "os/os.h"
#include "superslab/limit.h"
}

namespace {

using test::MIB;

// What huge_cache.h says of the bytes to keep.
class Said {
  public:
    size_t keep = 0, keep_live = SIZE_MAX; // with fewer bytes in use nothing is kept
    size_t peak() const { return std::max(live_peak_, live_peak_before_); }
    size_t learned() const { return std::min(keep, most_ + most_ / 2); }
    size_t may_keep(size_t live) const
    {
        if (live < keep_live) return 0;
        return live == 0 ? std::min(keep, max_) : keep;
    }
    void begin(uint64_t now_ms, size_t max)
    {
        const size_t most = most_;
        *this = Said();
        most_ = most;
        max_ = max;
        swung_before_ = true; // with nothing to keep, anything is an eighth of it
        due_ms_ = now_ms + PURGE_DELAY_MS - PURGE_DELAY_MS / 8;
    }

    void took_back(size_t bytes, size_t live)
    {
        early_ += bytes;
        early_longest_ = std::max(early_longest_, bytes);
        early_live_ = std::min(early_live_, live);
    }

    // At the limit in bytes it stops once.
    void missed(size_t bytes)
    {
        if (bytes > early_longest_) return;
        const size_t learned = std::min(bytes, early_), more = keep + learned + learned / 2;
        keep_live = std::min(keep_live, early_live_ / 2);
        if (keep < max_ && more >= max_) {
            keep = max_;
            return forget_early();
        }
        keep = std::max(keep, std::min({more, 2 * live_peak_ + max_, HUGE_KEEP_FACTOR * max_}));
        early_ -= learned;
        if (early_ == 0) forget_early();
    }

    void changed(size_t live, size_t cached)
    {
        is_used_ = true;
        low_ = std::min(low_, cached);
        high_ = std::max(high_, cached);
        most_ = std::max(most_, cached);
        live_peak_ = std::max(live_peak_, live);
    }

    // Ticks that come late count for each delay that has passed. False: it is too early for one.
    bool ticked(uint64_t now_ms, size_t live, size_t cached)
    {
        if (now_ms < due_ms_) return false;
        const uint64_t delays = 1 + (now_ms - due_ms_) / PURGE_DELAY_MS;
        due_ms_ = now_ms + PURGE_DELAY_MS - PURGE_DELAY_MS / 8;
        if (is_used_) fade();
        for (uint64_t i = 0; i < delays; i++) {
            unused_ = i == 0 && is_used_ ? 0 : unused_ + 1;
            live_peak_before_ = live_peak_;
            live_peak_ = live;
            if (unused_ >= WINDOW_DELAYS) forget();
        }
        is_used_ = false;
        if ((window_ += delays) < WINDOW_DELAYS) return true;
        swung_before_ = swings();
        high_before_ = high_;
        low_ = high_ = cached;
        early_ /= 2;
        window_ = 0;
        return true;
    }

    void forget()
    {
        keep = 0;
        keep_live = SIZE_MAX;
        forget_early();
    }

  private:
    size_t max_ = 0, most_ = 0; // its limit; the most that it ever held
    size_t early_ = 0, early_longest_ = 0, early_live_ = SIZE_MAX; // taken back, and not wanted again yet
    size_t live_peak_ = 0, live_peak_before_ = 0; // of this delay, and of the one before
    size_t low_ = 0, high_ = 0, high_before_ = 0; // what it held in this window, and at most in the one before
    bool is_used_ = false, swung_before_ = false;
    uint64_t unused_ = 0, window_ = 0, due_ms_ = 0; // delays

    void forget_early() { early_ = early_longest_ = 0, early_live_ = SIZE_MAX; }
    bool swings() const { return high_ - low_ >= keep / 8; }
    void fade()
    {
        const bool in_use = swings() || swung_before_;
        const size_t high = std::max(high_, high_before_), floor = in_use ? high + high / 2 : 0;
        if (keep > floor) keep = std::max(keep - keep / (in_use ? 64 : 8), floor);
    }
};

class HugeLaw : public test::HeapTest {
  protected:
    static inline uint64_t now = 0; // it only grows
    Said said_;
    std::deque<huge> descriptors_;
    std::vector<huge *> live_, cached_, unmapped_;
    size_t limit_ = 0, committed_peak_ = 0, other_bytes_ = 0;
    test::Rng rng_;

    static size_t live() { return huge_cache_figures().live_bytes; }
    static size_t cached() { return huge_cache_figures().cached_bytes; }
    static size_t slack() { return huge_cache_figures().slack_bytes; }

    void begin(size_t limit)
    {
        huge_cache_set_bytes(limit_ = limit);
        now = std::max(now, os_now_ms() + 7200 * 1000);
        for (int i = 0; i < 3; i++)
            huge_cache_tick(now += 100 * PURGE_DELAY_MS, PURGE_DELAY_MS); // it has learned nothing
        said_.begin(now, limit);
        committed_peak_ = limit_committed_bytes();
    }
    // Also after a failure: no mapping of this test may stay.
    void TearDown() override
    {
        end();
        HeapTest::TearDown();
    }
    void end()
    {
        for (huge *each : live_) huge_cache_put(each, now, 0);
        huge_cache_drop(); // what those took back was cached, so it is in the list below
        for (std::vector<huge *> *each : {&live_, &cached_}) {
            for (huge *mapping : *each) limit_count_huge(-mapping->mapped_bytes);
            each->clear();
        }
        limit_count_huge(-std::exchange(other_bytes_, 0));
        huge_cache_set_bytes(HUGE_CACHE_BYTES_MAX);
    }

    // The mappings of a list that the cache gives up. Returns the length of the last one; 0: there is none.
    size_t given_up(huge *list)
    {
        const size_t last = list != nullptr ? list->mapped_bytes : 0;
        uint64_t newest_ms = 0;
        for (; list != nullptr; list = list->next) {
            limit_count_huge(-list->mapped_bytes);
            said_.took_back(list->mapped_bytes, live());
            if (std::erase(cached_, list) != 0) newest_ms = std::max(newest_ms, list->cached_ms);
            unmapped_.push_back(list);
        }
        for (const huge *each : cached_) EXPECT_GE(each->cached_ms, newest_ms) << "an older one stays";
        return last;
    }

    // Takes the shortest one that fits, or maps. Then what is cached goes back as far as it is too much.
    void want(size_t bytes)
    {
        size_t best = SIZE_MAX;
        for (const huge *each : cached_) {
            if (each->mapped_bytes < bytes) continue;
            const size_t spare = each->mapped_bytes - bytes;
            if (spare <= bytes / 8 || slack() + spare <= said_.may_keep(live()))
                best = std::min(best, each->mapped_bytes);
        }
        huge *block = huge_cache_take(PAGE_BYTES, bytes);
        ASSERT_EQ(block != nullptr ? block->mapped_bytes : SIZE_MAX, best);
        if (block != nullptr) {
            std::erase(cached_, block);
            live_.push_back(block);
            return said_.changed(live(), cached());
        }
        if (unmapped_.empty()) unmapped_.push_back(&descriptors_.emplace_back());
        block = unmapped_.back();
        unmapped_.pop_back();
        block->mapped_bytes = bytes, block->slack_bytes = 0;
        live_.push_back(block);
        limit_count_huge(bytes);
        const size_t before = cached();
        huge *list = huge_cache_count_live(1, bytes);
        said_.missed(bytes);
        said_.changed(live(), before);
        const size_t last = given_up(list), all = live() + cached(), may = said_.may_keep(live());
        EXPECT_TRUE(all <= said_.peak() || cached() <= may) << "too much stays";
        if (last != 0) EXPECT_TRUE(all + last > said_.peak() && cached() + last > may) << "a mapping too many goes";
        committed_peak_ = std::max(committed_peak_, limit_committed_bytes());
    }

    // One mapping may fill half of the cache, or all of it if it has learned. The oldest ones make room.
    void put(size_t at)
    {
        huge *block = live_[at];
        live_.erase(live_.begin() + (long)at);
        huge *list = huge_cache_put(block, now, PURGE_DELAY_MS);
        committed_peak_ = std::max(committed_peak_, limit_committed_bytes());
        const size_t may = said_.may_keep(live()), most = std::max(may, limit_);
        const size_t entries = may > 0 ? HUGE_KEEP_ENTRIES : HUGE_CACHE_ENTRIES;
        const bool is_cached = block->mapped_bytes <= (may > 0 ? most : most / 2);
        ASSERT_EQ(list != block, is_cached);
        if (is_cached) cached_.push_back(block);
        else list = std::exchange(block->next, nullptr);
        const size_t last = given_up(list);
        if (!is_cached) given_up(block);
        EXPECT_TRUE(cached_.size() <= entries && cached() <= most) << "too much stays";
        if (last != 0) EXPECT_TRUE(cached_.size() + 1 > entries || cached() + last > most) << "a mapping too many goes";
        said_.changed(live(), cached());
    }

    void tick_after(uint64_t ms)
    {
        now += ms;
        if (said_.ticked(now, live(), cached())) committed_peak_ = limit_committed_bytes();
        huge_cache_tick(now, PURGE_DELAY_MS);
        const uint64_t before = now - rng_.below(4) * PURGE_DELAY_MS;
        while (huge *old = huge_cache_take_old(before)) {
            EXPECT_LT(old->cached_ms, before);
            old->next = nullptr;
            const size_t last = given_up(old);
            EXPECT_GT(cached() + last, said_.may_keep(live())) << "a mapping too many goes";
        }
        for (const huge *each : cached_) EXPECT_TRUE(each->cached_ms >= before || cached() <= said_.may_keep(live()));
    }

    // Other memory grows or falls: beyond the peak, what is cached goes back as far as it is in the way.
    void others(size_t bytes)
    {
        limit_count_huge(bytes - other_bytes_);
        other_bytes_ = bytes;
        ASSERT_EQ(huge_cache_is_in_the_way(), !cached_.empty() && limit_committed_bytes() > committed_peak_);
        const size_t last = given_up(huge_cache_make_way()), may = said_.may_keep(live());
        EXPECT_TRUE(limit_committed_bytes() <= committed_peak_ || cached() <= may) << "too much stays";
        if (last != 0)
            EXPECT_TRUE(limit_committed_bytes() + last > committed_peak_ && cached() + last > may)
                << "a mapping too many goes";
        committed_peak_ = std::max(committed_peak_, limit_committed_bytes());
    }

    // A block that has this length of its mapping: what is to spare of all blocks fits the bytes to keep.
    void resize(huge *block, size_t bytes)
    {
        const size_t spare = block->mapped_bytes - bytes, others_spare = slack() - block->slack_bytes;
        const bool fits = bytes <= block->mapped_bytes &&
                          (spare <= block->slack_bytes || others_spare + spare <= said_.may_keep(live()));
        ASSERT_EQ(huge_cache_resize(block, bytes), fits);
        ASSERT_EQ(slack(), others_spare + (fits ? spare : block->slack_bytes));
    }

    void step(size_t longest)
    {
        const auto length = [&] { return rng_.between(RUN_PAGES_MAX + 1, longest / PAGE_BYTES) * PAGE_BYTES; };
        const size_t what = rng_.below(20);
        if (what < 6)
            for (size_t i = rng_.below(8); i > 0 && live_.size() < 100; i--) want(length());
        else if (what < 12)
            for (size_t i = rng_.below(2) == 0 ? live_.size() : rng_.below(8); i > 0 && !live_.empty(); i--)
                put(rng_.below(live_.size()));
        else if (what < 16) tick_after(PURGE_DELAY_MS / 8 * rng_.between(6, 9));
        else if (what == 16) tick_after(PURGE_DELAY_MS * rng_.between(1, 5));
        else if (what < 19) others(rng_.below(20) * 8 * MIB);
        else
            for (size_t i = 8; i > 0 && !live_.empty(); i--) resize(live_[rng_.below(live_.size())], length());
    }
};

} // namespace

TEST_F(HugeLaw, WhatIsLearnedAndWhatGoesBack)
{
    if (HAK_SANITIZE_ADDRESS) GTEST_SKIP() << "AddressSanitizer marks the bytes of mappings, and these have none";
    size_t most = 0;
    for (size_t limit : {8 * MIB, 64 * MIB})
        for (size_t longest : {3 * MIB, 40 * MIB}) {
            begin(limit);
            for (int i = 0; i < 2000; i++) {
                step(longest);
                ASSERT_EQ(huge_keep_bytes, said_.keep) << "after step " << i;
                ASSERT_EQ(huge_keep_live_bytes, said_.keep_live) << "after step " << i;
                ASSERT_EQ(huge_cache_learned_bytes(), said_.learned()) << "after step " << i;
                if (HasFailure())
                    FAIL() << "at step " << i << ", limit " << limit / MIB << ", longest " << longest / MIB;
                most = std::max(most, said_.keep / limit);
            }
            end();
        }
    EXPECT_GE(most, 4u) << "it has learned nothing to speak of";
}

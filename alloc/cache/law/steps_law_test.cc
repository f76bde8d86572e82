// steps_law_test.cc: the law of steps: in random heaps each step of a trim, of what a heap owes, and of a round over superslabs does
// no more than its part, and all steps together do all of it. Steps are counted by slabs, blocks and calls, not by time.
#include "cache/law/steps_test_support.h"

#include <map>

extern "C" {
#include "cache/owed.h"
#include "slab/slab.h"
#include "slab/trim.h"
#include "superslab/purge.h"
#include "superslab/round.h"
}

namespace {

class StepLaw : public test::StepsTest {
  protected:
    test::Rng rng_;
    std::vector<void *> held_;

    void SetUp() override
    {
        StepsTest::SetUp();
        hak_free(hak_malloc(16)); // the thread has a heap
    }
    void TearDown() override
    {
        free_if([](size_t) { return true; });
        StepsTest::TearDown();
    }

    template <class Which> void free_if(Which which)
    {
        std::vector<void *> kept;
        for (size_t i = 0; i < held_.size(); i++) which(i) ? hak_free(held_[i]) : kept.push_back(held_[i]);
        held_ = kept;
    }
    // Slabs of some classes, of which this thread or another one has freed most blocks, or few, or long rows.
    void fill()
    {
        for (int kinds = 0; kinds < 3; kinds++) {
            const size_t size = size_t{16} << rng_.below(8), bytes = rng_.between(1, 4) * test::MIB;
            for (size_t i = 0; i < bytes / size; i++) held_.push_back(hak_malloc(size));
        }
        thin_out();
        tcache_flush(self());
    }
    void thin_out()
    {
        const size_t row = 1 + rng_.below(400), left = rng_.between(1, 4);
        const auto goes = [=](size_t i) { return i / row % left != 0 || i % 64 == 1; };
        if (rng_.below(2) == 0) free_if(goes);
        else test::in_thread([&] { free_if(goes); });
    }

    // --- where a trim has come to ---

    // The slabs in the order of a trim, and behind those of each class a nullptr.
    static std::vector<slab *> way()
    {
        std::vector<slab *> all;
        for (uint32_t c = 1; c < CLASS_COUNT; c++) {
            slab *first = own().slabs[c], *each = first;
            if (first != nullptr) do
                    all.push_back(each), each = each->next;
                while (each != first);
            all.push_back(nullptr);
        }
        return all;
    }
    static size_t place(const std::vector<slab *> &way)
    {
        if (own().trim_class == 0) return way.size();
        uint32_t class_index = 1;
        size_t at = 0;
        for (; class_index < own().trim_class; at++) class_index += way[at] == nullptr;
        while (way[at] != own().trim_at) at++;
        return at;
    }
    // How many blocks a look at the slab counts as, at least.
    static size_t price(const slab *slab)
    {
        if (slab == nullptr || slab->trimmed) return 0;
        const size_t free_bytes = (size_t)(slab->carved_count - slab->used_count) * sizeclass_bytes(slab->class_index);
        return free_bytes < os_page_bytes() ? 0 : 8 + slab->linked_count;
    }
    static size_t used_blocks()
    {
        size_t blocks = 0;
        for (uint32_t c = 1; c < CLASS_COUNT; c++) blocks += owner_used_blocks(&own(), c);
        return blocks;
    }
};

} // namespace

TEST_F(StepLaw, ATrimLooksAtNoMoreThanItsPart)
{
    for (int round = 0; round < 4; round++) {
        SCOPED_TRACE(round);
        fill();
        if (rng_.below(2) == 0) slab_trim_all(&own()); // most slabs have nothing new
        thin_out();
        tcache_flush(self());
        const std::vector<slab *> all = way();
        slab_trim_begin(&own());
        size_t walked = 0, last = 0; // blocks of all slabs that were looked at, and of the last one
        for (size_t steps = 1; slab_trim_is_due(&own()); steps++) {
            std::map<const slab *, size_t> prices;
            const size_t before = place(all), ahead = own().trim_ahead;
            for (size_t i = before; i < std::min(before + 2 * TRIM_STEP_SLABS, all.size()); i++)
                prices[all[i]] = price(all[i]);
            calls_ = 0;
            slab_trim_step(&own());
            const size_t after = place(all);
            size_t blocks = 0;
            for (size_t i = before; i < after; i++) blocks += last = prices[all[i]];
            ASSERT_LE(calls_, (size_t)TRIM_STEP_CALLS);
            ASSERT_LE(after - before, (size_t)TRIM_STEP_SLABS) << "slabs, in step " << steps;
            if (after > before) ASSERT_LT(blocks - last, (size_t)TRIM_STEP_BLOCKS) << "blocks, in step " << steps;
            walked += blocks;
            ASSERT_LE(walked - last, steps * TRIM_STEP_BLOCKS) << "blocks, in all steps up to " << steps;
            ASSERT_TRUE(after > before || calls_ > 0 || own().trim_ahead < ahead) << "no progress in step " << steps;
        }
        EXPECT_EQ(own().idle_bytes_kept, owner_idle_bytes(&own()));
        EXPECT_EQ(slab_trim_all(&own()), 0u) << "something was left";
        test::inspected();
        free_if([&](size_t) { return round % 3 == 2; });
    }
}

// While lists are to go back, no slab is trimmed.
TEST_F(StepLaw, ASlowPathPaysOnePart)
{
    size_t both = 0;
    for (int round = 0; round < 6; round++) {
        SCOPED_TRACE(round);
        fill();
        for (size_t size : {16u, 64u, 100u, 512u, 3000u}) {
            const size_t count = 600 + rng_.below(600), from = held_.size();
            for (size_t i = 0; i < count; i++) held_.push_back(hak_malloc(size));
            free_if([&](size_t i) { return i >= from; });
        }
        size_t longest = 0;
        tcache_flush_begin(self());
        for (uint32_t c = 1; c < CLASS_COUNT; c++)
            for (block *list = self()->heap->parking[c].magazines; list != nullptr;
                 list = link_get(&list->next_magazine)) {
                size_t length = 0;
                for (block *each = list; each != nullptr; each = link_get(&each->next)) length++;
                longest = std::max(longest, length);
            }
        slab_trim_begin(&own());
        for (size_t steps = 0; heap_owes(self()->heap); steps++) {
            const bool flushes = self()->heap->flush_class != 0;
            const size_t used = used_blocks();
            const uint64_t trims = own().events[OWNER_EVENT_trims];
            const uint8_t trim_class = own().trim_class;
            calls_ = 0;
            round_call_begins();
            tcache_pay(self());
            round_call_ends();
            ASSERT_LE(calls_, (size_t)PURGE_CALLS_MAX);
            ASSERT_LT(used - used_blocks(), FLUSH_STEP_BLOCKS + longest) << "blocks, in step " << steps;
            if (!flushes) ASSERT_EQ(used_blocks(), used) << "in step " << steps;
            if (flushes) ASSERT_EQ(own().events[OWNER_EVENT_trims], trims) << "in step " << steps;
            if (flushes) ASSERT_EQ(own().trim_class, trim_class) << "in step " << steps;
            both += flushes;
            ASSERT_LT(steps, 100000u);
        }
        for (uint32_t c = 1; c < CLASS_COUNT; c++) ASSERT_EQ(self()->heap->parking[c].count, 0) << c;
        free_if([&](size_t) { return round % 3 == 2; });
    }
    EXPECT_GT(both, 20u);
}

// Superslabs in use that have nothing to give count too.
TEST_F(StepLaw, ARoundLooksAtNoMoreThanItsPart)
{
    SKIP_UNDER_SANITIZER("superslabs that have memory of its own");
    struct Run {
        page_range range;
        uint32_t pages;
    };
    constexpr size_t SUPERSLABS = 300;
    std::vector<Run> runs;
    const auto give = [&](size_t at) {
        std::swap(runs[at], runs.back());
        pool_free_kept(runs.back().range.superslab, runs.back().range.first, runs.back().pages, 0);
        runs.pop_back();
    };
    for (size_t superslabs = 0; superslabs < SUPERSLABS; superslabs++)
        for (int i = 0; i < 2; i++) {
            runs.push_back({pool_claim(RUN_PAGES_MAX, 1, true), RUN_PAGES_MAX});
            ASSERT_NE(runs.back().range.superslab, nullptr);
        }
    const uint32_t made = pool_figures().superslab_count; // those that a round releases are holes, and no work
    for (int i = 0; i < 20; i++) {
        for (uint64_t frees = rng_.below(6); frees > 0; frees--) give(rng_.below(runs.size()));
        struct round round;
        round_begin(&round, ROUND_ALL, 0);
        uint32_t steps = 0;
        for (; !round_is_over(&round); steps++) {
            const uint32_t before = std::min(round.end.load(), made);
            calls_ = 0;
            round_call_begins();
            round_step(&round, 0, 0);
            round_call_ends();
            ASSERT_LE(calls_, (size_t)PURGE_CALLS_MAX);
            if (!round_is_over(&round) && steps > 0)
                ASSERT_LE(before - round.end, PURGE_STEP_SUPERSLABS + made - pool_figures().superslab_count)
                    << "superslabs, in step " << steps;
            ASSERT_LT(steps, 1000u);
        }
        EXPECT_GE(steps, pool_figures().superslab_count / PURGE_STEP_SUPERSLABS + 1u)
            << "it has looked at all of them at once";
        ASSERT_EQ(purge_dirty_pages(), 0u) << "something was left";
    }
    while (!runs.empty()) give(0);
}

// own_law_test.cc: the law of heaps of the program's own: in random histories of blocks, moves between heaps, limits and purges each
// heap has in use what the program holds, keeps its limit, and takes back what lies free when hakmem.h says so.
#include "heap/own_test_support.h"

extern "C" {
#include "os/os.h"
#include "slab/slab.h"
#include "slab/trim.h"
}

namespace {

using test::MIB;
using test::own_figures_of;
using test::OwnHeld;

class OwnLaw : public test::OwnTest {
  protected:
    struct Said {
        hak_heap *heap = hak_heap_new();
        size_t limit = SIZE_MAX, peak = 0;
        size_t left = 0; // free when a whole trim made no room, or less if less lay free at the limit since
        std::vector<OwnHeld> held;

        size_t resident() const { return own_figures_of(heap).resident_bytes; }
        size_t free_bytes() const { return own_binned_bytes(heap) + owner_idle_bytes(&heap->owner); }
        bool has_room(size_t bytes) const { return resident() <= limit && bytes <= limit - resident(); }
        // Whether it takes back what lies free for a block that has no room.
        bool takes_back()
        {
            if (slab_trim_is_due(&heap->owner)) return true;
            left = std::min(left, free_bytes());
            return free_bytes() != 0 && (left == 0 || free_bytes() - left >= limit / 16);
        }
    };
    test::Rng rng_;
    std::vector<Said> heaps_;
    size_t took_back_ = 0, took_some_ = 0, refused_ = 0, moved_ = 0;

    void SetUp() override
    {
        OwnTest::SetUp();
        heaps_.resize(2);
    }
    void TearDown() override
    {
        for (Said &each : heaps_) hak_heap_destroy(each.heap);
        OwnTest::TearDown();
    }

    size_t draw_size()
    {
        static constexpr size_t kSizes[] = {40, 48, 500, 512, 3000, 20000};
        if (rng_.below(60) == 0) return rng_.between(RUN_BYTES_MAX + 1, RUN_BYTES_MAX + MIB);
        if (rng_.below(10) == 0) return rng_.between(SMALL_BYTES_MAX + 1, 6 * PAGE_BYTES);
        return kSizes[rng_.below(std::size(kSizes))];
    }
    void keep(Said &at, void *block, size_t size)
    {
        at.held.push_back({block, size, rng_.next()});
        at.held.back().fill();
    }

    static size_t longest_slab(const Said &at)
    {
        size_t pages = 0;
        for (uint32_t c = 1; c < CLASS_COUNT; c++)
            if (at.heap->owner.slabs[c] != nullptr) pages = std::max<size_t>(pages, sizeclass_slab_pages(c));
        return pages * PAGE_BYTES;
    }
    // The heap trimmed slabs for a block that had no room: until there was enough, or all of them.
    void took_back(Said &at, const void *block, size_t longest)
    {
        took_back_++;
        if (block != nullptr) {
            took_some_ += slab_trim_is_due(&at.heap->owner);
            ASSERT_LE(at.limit - std::min(at.limit, at.resident()), longest) << "more went back than was wanted";
            return;
        }
        ASSERT_EQ(own_binned_bytes(at.heap), 0u);
        for (const slab *first : at.heap->owner.slabs)
            ASSERT_TRUE(first == nullptr || first->prev->used_count > 0) << "an empty slab stays";
        at.left = owner_idle_bytes(&at.heap->owner);
        ASSERT_EQ(slab_trim_all(&at.heap->owner), 0u) << "NULL, though a page can go";
    }
    // What a large block costs is known beforehand, so all that the limit does is.
    void alloc_large(Said &at, size_t size)
    {
        const size_t bytes = (size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        const bool fits = at.has_room(bytes), takes = !fits && at.takes_back();
        const uint64_t trims = at.heap->owner.events[OWNER_EVENT_trims];
        const size_t longest = longest_slab(at);
        void *block = hak_heap_malloc(at.heap, size);
        if (takes && (block == nullptr || at.heap->owner.events[OWNER_EVENT_trims] > trims))
            took_back(at, block, longest);
        const size_t before = at.resident() - (block != nullptr ? hak_malloc_usable_size(block) : 0);
        const bool fits_then = before <= at.limit && bytes <= at.limit - before;
        ASSERT_EQ(block != nullptr, fits || (takes && fits_then)) << size << " bytes";
        ASSERT_EQ(at.heap->kept_bytes, at.left) << size << " bytes";
        if (block != nullptr) keep(at, block, size);
    }
    void alloc_small(Said &at, size_t size)
    {
        const bool takes = Said(at).takes_back();
        const uint64_t trims = at.heap->owner.events[OWNER_EVENT_trims];
        const size_t longest = longest_slab(at);
        const size_t before = at.resident();
        void *block = rng_.below(4) == 0 ? hak_heap_calloc(at.heap, 1, size) : hak_heap_malloc(at.heap, size);
        refused_ += block == nullptr;
        if (at.heap->owner.events[OWNER_EVENT_trims] == trims) ASSERT_LE(at.resident(), std::max(at.limit, before));
        at.left = at.heap->kept_bytes;
        const size_t block_bytes = sizeclass_bytes(sizeclass_of(size)),
                     part_bytes = std::max<size_t>(os_page_bytes(), CARVE_BYTES);
        const size_t carved_bytes = block_bytes >= part_bytes ? block_bytes : part_bytes + block_bytes;
        if (takes && (block == nullptr || at.heap->owner.events[OWNER_EVENT_trims] > trims))
            took_back(at, block, longest);
        if (block != nullptr) return keep(at, block, size);
        ASSERT_LE(at.left, at.free_bytes());
        ASSERT_FALSE(at.has_room(carved_bytes)) << size << " bytes have room";
    }
    void alloc(Said &at)
    {
        const size_t size = draw_size();
        size > SMALL_BYTES_MAX ? alloc_large(at, size) : alloc_small(at, size);
    }
    void fill(Said &at) // one class, mostly up to the limit
    {
        const size_t size = 16 * rng_.between(20, 80), blocks = 6 * MIB / size;
        const size_t before = refused_;
        for (size_t i = 0; i < blocks && refused_ == before && !HasFatalFailure(); i++) alloc_small(at, size);
    }
    // A full heap frees rows of blocks, so that pages of most slabs can go, and then wants another class.
    void exchange(Said &at)
    {
        end(at, false);
        hak_heap_limit_set(at.heap, at.limit = rng_.between(1, 4) * MIB / 2);
        fill(at);
        std::vector<OwnHeld> rest;
        for (size_t i = 0; i < at.held.size(); i++)
            if (i / 256 % 4 != 0) rest.push_back(at.held[i]);
            else hak_free(at.held[i].block);
        at.held = std::move(rest);
        const size_t size = draw_size();
        for (size_t left = rng_.below(100); left > 0 && !HasFatalFailure(); left--)
            size > SMALL_BYTES_MAX ? alloc_large(at, size) : alloc_small(at, size);
    }
    void free_one(Said &at)
    {
        std::swap(at.held[rng_.below(at.held.size())], at.held.back());
        const OwnHeld held = at.held.back();
        at.held.pop_back();
        ASSERT_TRUE(held.holds()) << held.size;
        const uint64_t trims = at.heap->owner.events[OWNER_EVENT_trims];
        hak_free(held.block);
        ASSERT_LE(at.heap->owner.events[OWNER_EVENT_trims] - trims, (uint64_t)TRIM_STEP_CALLS) << "one free";
    }
    // The block stays as it is if there is no room in its new heap.
    void resize(Said &from, Said &to)
    {
        std::swap(from.held[rng_.below(from.held.size())], from.held.back());
        const OwnHeld before = from.held.back();
        const size_t size = draw_size();
        void *block = hak_heap_realloc(to.heap, before.block, size);
        to.left = to.heap->kept_bytes;
        if (block == nullptr) {
            ASSERT_TRUE(before.holds());
            ASSERT_EQ(own_of(before.block), from.heap);
            ASSERT_TRUE(size > before.size || &from != &to);
            return;
        }
        from.held.pop_back();
        ASSERT_EQ(own_of(block), to.heap);
        OwnHeld short_one = {block, std::min(size, before.size), before.stamp};
        const size_t whole =
            short_one.size - short_one.size % before.step(); // the last byte of the shorter one has no pattern
        ASSERT_TRUE(whole == 0 || test::pattern_holds(block, whole - before.step() + 1, before.stamp, before.step()));
        moved_ += &from != &to;
        keep(to, block, size);
    }
    // A new heap whose slab is not carved to its end when it is trimmed, with blocks in use here and there.
    void begin_small(Said &at)
    {
        end(at, true);
        const size_t size = 16 * rng_.between(1, 20), blocks = rng_.between(50, 600);
        for (size_t i = 0; i < blocks; i++) alloc_small(at, size);
        for (size_t left = blocks / rng_.between(2, 8); at.held.size() > left && !HasFatalFailure();) free_one(at);
        hak_purge_all();
        limit(at);
    }
    void end(Said &at, bool is_destroyed)
    {
        at.held.clear();
        if (!is_destroyed) return hak_heap_free_all(at.heap);
        hak_heap_destroy(at.heap);
        at = Said();
    }
    void limit(Said &at)
    {
        at.limit = rng_.below(3) == 0 ? SIZE_MAX : rng_.between(1, 16) * MIB / 2 + rng_.below(PAGE_BYTES);
        hak_heap_limit_set(at.heap, at.limit);
    }
    void step()
    {
        Said &at = heaps_[rng_.below(2)], &other = heaps_[rng_.below(2)];
        const size_t what = rng_.below(200);
        if (what == 0) end(at, rng_.below(2) == 0);
        else if (what < 3) limit(at);
        else if (what == 3) fill(at), hak_purge_all();
        else if (what < 9) begin_small(at);
        else if (what == 9) own_purge_idle();
        else if (what == 10) fill(at);
        else if (what < 13) exchange(at);
        else if (what < 16) // most of what it has
            for (size_t left = at.held.size() / 8; at.held.size() > left && !HasFatalFailure();) free_one(at);
        else if (what < 40)
            for (size_t left = rng_.below(20); left > 0 && !at.held.empty() && !HasFatalFailure(); left--) free_one(at);
        else if (what < 70 && !at.held.empty()) resize(at, other);
        else
            for (size_t left = rng_.below(60); left > 0 && !HasFatalFailure(); left--) alloc(at);
    }
    // Slabs with a free block come first, so that a heap at its limit looks at one. Only one without a block in use is behind them.
    static void check_order(const hak_heap *heap)
    {
        for (const slab *first : heap->owner.slabs) {
            bool has_free = true;
            const slab *each = first;
            if (each != nullptr) do {
                    ASSERT_TRUE(has_free || !slab_has_free(each) || each->used_count == 0);
                    has_free = slab_has_free(each), each = each->next;
                } while (each != first);
        }
    }
    // A trim counts what was never carved on pages that stay: less than a page of each slab.
    void check(Said &at, size_t before, uint64_t trims)
    {
        const hak_heap_figures figures = own_figures_of(at.heap);
        size_t used = 0;
        for (const OwnHeld &each : at.held) used += hak_malloc_usable_size(each.block);
        ASSERT_EQ(figures.used_bytes, used);
        ASSERT_GE(figures.resident_bytes, used);
        ASSERT_GE(figures.committed_bytes, figures.resident_bytes);
        ASSERT_EQ(figures.limit_bytes, at.limit == SIZE_MAX ? 0 : at.limit);
        const size_t counted = (at.heap->owner.events[OWNER_EVENT_trims] - trims) * os_page_bytes();
        if (at.limit != SIZE_MAX) ASSERT_LE(figures.resident_bytes, std::max(at.limit, before) + counted);
        ASSERT_GE(figures.resident_peak_bytes, std::max<size_t>(at.peak, figures.resident_bytes));
        at.peak = figures.resident_peak_bytes;
        check_order(at.heap);
    }
};

} // namespace

TEST_F(OwnLaw, WhatTheProgramHoldsAndWhatTheLimitTakesBack)
{
    if (HAK_SANITIZE_ADDRESS) GTEST_SKIP() << "AddressSanitizer's blocks have bytes around them";
    for (int i = 0; i < 1500; i++) {
        size_t before[2];
        uint64_t trims[2];
        for (size_t each = 0; each < 2; each++) {
            before[each] = heaps_[each].resident();
            trims[each] = heaps_[each].heap->owner.events[OWNER_EVENT_trims];
        }
        step();
        for (size_t each = 0; each < 2 && !HasFatalFailure(); each++) check(heaps_[each], before[each], trims[each]);
        if (i % 100 == 0) test::inspected();
        if (HasFailure()) FAIL() << "at step " << i;
    }
    EXPECT_GT(took_back_, 5u);
    EXPECT_GT(took_some_, 0u);
    EXPECT_GT(refused_, 100u);
    EXPECT_GT(moved_, 50u);
}

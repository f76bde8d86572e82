// pages_litmus_test.cc: the pairs of superslab/ and os/lock.c, one hand-over each.
#include "litmus/litmus_test_support.h"

#include <memory>
#include <set>

extern "C" {
#include "base/bits.h"
#include "hakmem/hakmem.h"
#include "os/lock.h"
#include "os/os.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"
#include "superslab/superslab.h"
}

namespace {

class LitmusPages : public testing::Test {
  protected:
    void SetUp() override
    {
        s.base = static_cast<char *>(os->reserve(nullptr, SUPERSLAB_BYTES, SUPERSLAB_BYTES));
        ASSERT_NE(superslab_base(&s), nullptr);
        ASSERT_EQ(os->commit(superslab_base(&s), SUPERSLAB_BYTES), 0);
    }
    void TearDown() override { EXPECT_EQ(os->release(superslab_base(&s), SUPERSLAB_BYTES), 0); }

    char *page(uint32_t index) { return superslab_base(&s) + (size_t)index * PAGE_BYTES; }

    // One thread writes and frees page 3; the next claims and reads it.
    void hand_over(const std::function<bool()> &claim)
    {
        bool claimed = false, whole = false;
        uint32_t class_index = 0;
        litmus::in_order({
            [&] {
                litmus::write_plainly(page(3), 256, 5);
                s.slabs[3].class_index = 9;
                superslab_free(&s, 3, 1, true);
            },
            [&] {
                claimed = claim();
                whole = litmus::read_plainly(page(3), 256, 5);
                class_index = s.slabs[3].class_index;
            },
        });
        EXPECT_TRUE(claimed && whole);
        EXPECT_EQ(class_index, 9u);
        EXPECT_EQ(s.free_pages.load(), 0u);
    }

    std::unique_ptr<superslab> memory = std::make_unique<superslab>();
    superslab &s = *memory; // every page is claimed
};

} // namespace

// superslab_free (release) and superslab_claim (acquire of the word of free pages).
TEST_F(LitmusPages, FreedAndClaimed)
{
    hand_over([this] {
        bool contended = false;
        page_need one{.pages = 1,
                      .align_pages = 1,
                      .room_pages = 0,
                      .from_top = false,
                      .at_limit = false,
                      .dirty_only = false,
                      .block_bytes = 0};
        return superslab_claim(&s, &one, &contended) == 3 && (s.dirty_pages >> 3 & 1) != 0;
    });
}

TEST_F(LitmusPages, FreedAndClaimedThere)
{
    hand_over([this] { return superslab_claim_at(&s, 3, 1); });
}

// pagemap_descriptor_set (release) and pagemap_descriptor (acquire): the descriptor of a huge block.
TEST_F(LitmusPages, ADescriptorIsWhole)
{
    hak_free(hak_malloc(1)); // the heap has started
    constexpr size_t SIZE_BYTES = 3 << 20;
    litmus::Hand<void *> block;
    size_t usable_bytes = 0;
    litmus::in_order({
        [&] { block.give(hak_malloc(SIZE_BYTES)); },
        [&] { usable_bytes = hak_malloc_usable_size(block.take()); },
    });
    EXPECT_EQ(usable_bytes, SIZE_BYTES);
    hak_free(block.take());
}

// Another thread uses the chunk that chunk_make published. ThreadSanitizer cannot see this pair: a chunk is fresh
// memory of the system, and everything written to it later has pairs of its own.
TEST_F(LitmusPages, AChunkServesAnotherThread)
{
    hak_free(hak_malloc(1));
    constexpr uint32_t SUPERSLABS = 65; // more than fit one chunk
    std::vector<page_range> held;
    page_range taken = {};
    litmus::in_order({
        [&] {
            for (uint32_t i = 0; i < SUPERSLABS; i++) held.push_back(pool_claim(SUPERSLAB_PAGES, 1, true));
            pool_free(held.back().superslab, 0, 1, 0);
        },
        [&] { taken = pool_claim(1, 1, false); },
    });
    ASSERT_NE(taken.superslab, nullptr);
    pool_free(taken.superslab, taken.first, 1, 8);
    pool_free(held.back().superslab, 1, SUPERSLAB_PAGES - 1, 0);
    held.pop_back();
    for (const page_range &range : held) pool_free(range.superslab, range.first, SUPERSLAB_PAGES, 0);
}

// superslab_make (release of the bit in `present`) and the walks over all superslabs (acquire): the descriptor. The
// member that the walks read is written only once for each descriptor, so each walk needs superslabs that no other test
// has used.
void walk_over_new(size_t superslabs, void (*walk)(std::set<uint32_t> *seen))
{
    hak_free(hak_malloc(1)); // the heap has started
    std::vector<page_range> held;
    std::set<uint32_t> seen;
    litmus::in_order({
        [&] {
            while (held.size() < superslabs) held.push_back(pool_claim(SUPERSLAB_PAGES, 1, true));
        },
        [&] { walk(&seen); },
    });
    for (const page_range &range : held) {
        EXPECT_EQ(seen.count(range.superslab->index), 1u);
        pool_free(range.superslab, range.first, SUPERSLAB_PAGES, 0);
    }
}

TEST_F(LitmusPages, AWalkFindsNewSuperslabsWhole)
{
    walk_over_new(70, [](std::set<uint32_t> *seen) {
        auto note = [](superslab *each, void *to) { static_cast<std::set<uint32_t> *>(to)->insert(each->index); };
        pool_for_each(note, seen);
    });
}

TEST_F(LitmusPages, AWalkFromTheTopFindsNewSuperslabsWhole)
{
    walk_over_new(140, [](std::set<uint32_t> *seen) {
        auto note = [](superslab *each, void *to) {
            static_cast<std::set<uint32_t> *>(to)->insert(each->index);
            return true;
        };
        pool_for_each_below(POOL_TOP, note, seen);
    });
}

// lock_release (release) and lock_acquire (acquire): without waiting, and by a thread that slept.
TEST(LitmusLock, WhatItProtects)
{
    int shared = 0;
    auto add = [&] {
        lock_acquire(LOCK_POOL);
        shared++;
        lock_release(LOCK_POOL);
    };
    litmus::in_order({add, add, add});
    EXPECT_EQ(shared, 3);
}

TEST(LitmusLock, WhatASleeperSees)
{
    for (int round = 0; round < 5; round++) {
        litmus::Hand<bool> held;
        int shared = 0;
        test::in_threads(2, [&](int thread) {
            if (thread == 0) {
                lock_acquire(LOCK_POOL);
                held.give(true);
                usleep(20000); // the other thread tries, gives up and sleeps; if it is late, it does not sleep
                shared++;
                lock_release(LOCK_POOL);
            } else {
                while (!held.take()) sched_yield();
                lock_acquire(LOCK_POOL);
                shared++;
                lock_release(LOCK_POOL);
            }
        });
        EXPECT_EQ(shared, 2);
    }
}

// steps_test.cc: one malloc or free does a bounded part of what a heap owes, whatever the heap's size; and all of it is done
// in the end.
#include "cache/law/steps_test_support.h"

#include <algorithm>
#include <string>
#include <utility>

extern "C" {
#include "base/sync_point.h"
#include "cache/owed.h"
#include "cache/visit.h"
#include "os/lock.h"
#include "slab/slab.h"
#include "slab/trim.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
#include "superslab/round.h"
}

namespace {

constexpr size_t CALLS_MAX = PURGE_CALLS_MAX; // to the system, in one malloc or free

class Steps : public test::StepsTest {
  protected:
    void TearDown() override
    {
        hak_clock_hook = nullptr;
        StepsTest::TearDown();
    }

    // The most calls to the system that one call of `work` made.
    template <class Work> static void call(Work work)
    {
        calls_ = 0;
        work();
        worst_ = std::max(worst_, calls_);
    }
    static std::vector<void *> fill(size_t size, size_t bytes)
    {
        std::vector<void *> blocks(bytes / size);
        for (void *&block : blocks) block = hak_malloc(size);
        return blocks;
    }
    static void free_all(std::vector<void *> &blocks)
    {
        for (void *block : blocks) hak_free(block);
        blocks.clear();
    }
    static void one_slow_path() { hak_free(hak_malloc(100000)); }

    // Slow paths until the heap owes nothing. Returns how many it took.
    static size_t pay_all()
    {
        size_t paths = 0;
        for (; heap_owes(self()->heap) && paths < 100000; paths++) call(one_slow_path);
        EXPECT_FALSE(heap_owes(self()->heap));
        return paths;
    }
    static inline size_t worst_;
    static inline uint64_t now_;
};

} // namespace

// The heap falls below a quarter of its peak: no free empties all caches and trims all slabs. What is left to do then, later
// calls do.
TEST_F(Steps, AHeapThatShrinksPaysInParts)
{
    SKIP_UNDER_SANITIZER("its own memory hides what goes back");
    for (size_t mib : {16, 128}) {
        for (size_t size : {64, 512, 1000}) { // no slab comes to be empty
            hak_purge(); // nothing that was trimmed before is wanted again
            std::vector<void *> blocks = fill(size, mib << 20), kept;
            worst_ = 0;
            for (size_t i = 0; i < blocks.size(); i++) {
                if (i % 40 == 0) kept.push_back(blocks[i]);
                else call([&] { hak_free(blocks[i]); });
            }
            pay_all();
            EXPECT_LE(worst_, CALLS_MAX) << mib << " MiB of " << size;
            EXPECT_LE(slab_trim_all(&own()), own().used_bytes_peak) << "only what was freed since the last shrink";
            free_all(kept);
            pay_all();
        }
    }
}

// The dearest malloc or free makes PURGE_CALLS_MAX calls, whatever the heap's size: slabs empty one here, one there, so their
// pages lie in many rows, each of which takes a call. The last frees leave little more memory than the limit in number allows. If
// a large heap falls fast, or its blocks are large, one call may free more pages than that number of calls gives back, and makes up to
// three times as many.
TEST_F(Steps, NoCallOfAHeapOfAnySizeMakesManyCalls)
{
    SKIP_UNDER_SANITIZER("its own memory hides what goes back");
    enum order { IN_ORDER, BACKWARDS, SHUFFLED, ODD_FIRST, BY_ANOTHER_THREAD };
    test::Rng rng;
    for (size_t count : {1000, 8000, 64000, 160000}) {
        for (size_t size : {256, 1024, 4000, 30000}) {
            if (size * count > 1u << 28) continue;
            for (int order = IN_ORDER; order <= BY_ANOTHER_THREAD; order++) {
                SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(size) + ", order " +
                             std::to_string(order));
                std::vector<void *> blocks = fill(size, count * size);
                if (order == BACKWARDS) std::reverse(blocks.begin(), blocks.end());
                if (order == SHUFFLED)
                    for (size_t i = blocks.size(); i > 1; i--) std::swap(blocks[i - 1], blocks[rng.below(i)]);
                if (order == ODD_FIRST)
                    std::partition(blocks.begin(), blocks.end(),
                                   [](void *block) { return ((uintptr_t)block / PAGE_BYTES & 1) != 0; });
                worst_ = 0;
                if (order == BY_ANOTHER_THREAD) {
                    std::thread([&] { free_all(blocks); }).join();
                    for (size_t i = 0; i < count; i++) call([&] { blocks.push_back(hak_malloc(size)); });
                }
                for (void *block : blocks) call([&] { hak_free(block); });
                EXPECT_LE(worst_, size > 4000 || count > 64000 ? 3 * CALLS_MAX : CALLS_MAX);
                worst_ = 0;
                const size_t may_stay = std::max<size_t>(DIRTY_PAGES_MIN, purge_keep_pages());
                EXPECT_LE(pool_figures().dirty_pages, may_stay + PURGE_DEBT_PAGES_MAX) << "the last frees leave much";
                for (int i = 0; i < 200; i++) {
                    void *block = nullptr;
                    call([&] { block = hak_malloc(100000); });
                    call([&] { hak_free(block); });
                }
                EXPECT_FALSE(purge_is_owed());
                EXPECT_LE(worst_, CALLS_MAX);
                EXPECT_LE(pool_figures().dirty_pages, may_stay);
                hak_purge();
            }
        }
    }
}

// After a pause.
TEST_F(Steps, AThreadThatComesBackPaysInParts)
{
    SKIP_WITHOUT_VALIDATE(); // only that build lets a test move the clock
    now_ = os_now_ms();
    hak_clock_hook = []() -> unsigned long long { return now_; };
    size_t paths[2];
    for (int larger = 0; larger < 2; larger++) {
        std::vector<void *> blocks = fill(512, (larger ? 64u : 8u) << 20);
        for (size_t i = 0; i < blocks.size(); i++) // not most of the peak, so the heap has not shrunk
            if (i % 64 >= 24) hak_free(std::exchange(blocks[i], nullptr));
        one_slow_path();
        const size_t idle = owner_idle_bytes(&own());
        worst_ = 0;
        now_ += PAUSE_DELAYS * PURGE_DELAY_MS;
        call(one_slow_path);
        EXPECT_TRUE(heap_owes(self()->heap)) << "it has done all at once";
        paths[larger] = pay_all();
        EXPECT_LE(worst_, CALLS_MAX);
        EXPECT_LE(owner_idle_bytes(&own()), idle * 3 / 4) << "rows of 20 KiB have no block in use";
        test::inspected();
        free_all(blocks);
        hak_purge();
    }
    EXPECT_GT(paths[1], 4 * paths[0]);
}

// A trim leaves alone a slab that gave nothing and to which no block came back since. Its free list is cut short here, which a
// look would find.
TEST_F(Steps, ASlabThatGaveNothingIsNotLookedAtAgain)
{
    std::vector<void *> blocks = fill(64, 2 << 20);
    for (size_t i = 1; i < blocks.size(); i += 2) hak_free(std::exchange(blocks[i], nullptr));
    tcache_flush(self());
    slab_trim_all(&own());
    slab *freed_in = slab_of(blocks[0]);
    const uint32_t class_index = freed_in->class_index;
    const uint64_t trims = own().events[OWNER_EVENT_trims];
    size_t slabs = 0;
    slab *first = own().slabs[class_index], *each = first;
    ASSERT_NE(first, nullptr);
    std::vector<std::pair<slab *, uint64_t>> cut;
    do {
        EXPECT_TRUE(each->trimmed || each->carved_count - each->used_count < 64) << "it has too little to be looked at";
        if (each->trimmed) {
            cut.emplace_back(each, std::exchange(*slab_marks(each), ~0ull)); // a trim would purge what is in use
            slabs++;
        }
        each = each->next;
    } while (each != first);
    EXPECT_GT(slabs, 20u);
    EXPECT_EQ(slab_trim_all(&own()), 0u);
    for (const auto &[at, marks] : cut) *slab_marks(at) = marks;
    EXPECT_EQ(own().events[OWNER_EVENT_trims], trims);
    test::empty_bin(class_index);
    hak_free(std::exchange(blocks[0], nullptr));
    test::empty_bin(class_index);
    EXPECT_FALSE(freed_in->trimmed) << "a block came back";
    for (void *block : blocks) hak_free(block);
}

// A visitor lets go of the heap after each step.
TEST_F(Steps, AVisitorHoldsAHeapForAPart)
{
    SKIP_WITHOUT_VALIDATE(); // a hook sees the lock of visits
    std::vector<void *> blocks;
    std::thread sleeper;
    std::atomic<bool> is_asleep = false, is_over = false;
    sleeper = std::thread([&] {
        blocks = fill(512, 16 << 20);
        for (size_t i = 0; i < blocks.size(); i++)
            if (i % 64 >= 24) hak_free(std::exchange(blocks[i], nullptr));
        is_asleep = true;
        while (!is_over) std::this_thread::yield();
    });
    while (!is_asleep) std::this_thread::yield();
    worst_ = calls_ = 0;
    static size_t visits;
    visits = 0;
    sync_lock_hook = [](unsigned rank, bool gives_back) {
        if (rank != LOCK_VISIT || gives_back) return;
        worst_ = std::max(worst_, calls_);
        calls_ = 0;
        visits++;
    };
    EXPECT_GT(visit_all(), 2u << 20);
    sync_lock_hook = nullptr;
    EXPECT_LE(std::max(worst_, calls_), CALLS_MAX);
    EXPECT_GT(visits, 50u);
    is_over = true;
    sleeper.join();
    free_all(blocks);
}

// A trim that is under way passes on where its slab goes: to the next, to the end of the class, or to the next class.
TEST_F(Steps, ATrimOutlivesTheSlabThatItHasComeTo)
{
    test::Rng rng;
    for (int round = 0; round < test::rounds(30); round++) {
        std::vector<void *> blocks = fill(1024, 8 << 20);
        for (size_t i = 0; i < blocks.size(); i++)
            if (i % 24 >= 12) hak_free(std::exchange(blocks[i], nullptr));
        tcache_flush(self());
        slab_trim_begin(&own());
        for (int i = 0; i < 20; i++) slab_trim_step(&own());
        ASSERT_TRUE(slab_trim_is_due(&own()));
        for (int step = 0; slab_trim_is_due(&own()); step++) {
            if (own().trim_at != nullptr && step % 3 == 0) { // the slab empties, or gives all that it has
                const slab *at = own().trim_at;
                const bool fills = rng.below(2) == 0;
                for (void *&block : blocks)
                    if (!fills && block != nullptr && slab_of(block) == at) hak_free(std::exchange(block, nullptr));
                tcache_flush(self());
                if (fills && own().trim_at != nullptr)
                    for (int i = 0; i < 64; i++) blocks.push_back(hak_malloc(1024));
            }
            slab_trim_step(&own());
            ASSERT_TRUE(own().trim_at == nullptr || !own().trim_at->full);
            ASSERT_LT(step, 10000);
        }
        test::inspected();
        free_all(blocks);
        hak_purge();
    }
}

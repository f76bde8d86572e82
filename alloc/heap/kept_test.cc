// kept_test.cc: the run that a thread freed last.
#include "heap/heap_test_support.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

extern "C" {
#include "heap/large.h"
#include "superslab/kept.h"
#include "superslab/limit.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
}

namespace {

using test::MIB;

// The run that a thread freed last is given again, and is free memory to all others.
class Kept : public test::HeapTest {
  protected:
    static void free_run_of(size_t size) { hak_free(hak_malloc(size)); }
};

} // namespace

// For every length: the same memory is given again, and counts as free in between.
TEST_F(Kept, TheSameLengthGetsItBack)
{
    for (uint32_t pages = 1; pages <= RUN_PAGES_MAX; pages++) {
        const size_t size = pages * (size_t)PAGE_BYTES - (VALIDATE ? 256 : 0); // frames take some of a block
        hak_purge();
        const size_t claimed = purge_claimed_pages(), runs = purge_run_pages();
        void *block = hak_malloc(size);
        memset(block, 1, size);
        EXPECT_EQ(purge_claimed_pages(), claimed + pages);
        hak_free(block);
        if (VALIDATE && kept_pages() == 0) continue; // it is in the quarantine
        EXPECT_EQ(kept_pages(), pages);
        EXPECT_GE(kept_pages_bound(), pages);
        EXPECT_EQ(purge_claimed_pages(), claimed);
        EXPECT_EQ(purge_run_pages(), runs);
        EXPECT_EQ(purge_dirty_pages(), pages);
        test::inspected();
        free_run_of(size);
        void *again = hak_malloc(size);
        EXPECT_EQ(again, block);
        EXPECT_EQ(purge_dirty_pages(), 0u);
        hak_free(again);
        hak_purge();
        EXPECT_EQ(kept_pages_bound(), 0u);
        EXPECT_EQ(kept_pages(), 0u);
    }
}

// A lane's bound is the longest run that it has had since the last purge, and counts once.
TEST_F(Kept, TheBoundIsOfTheLongest)
{
    if (VALIDATE) GTEST_SKIP() << "a freed block is in the quarantine";
    hak_purge();
    size_t longest = 0;
    for (size_t pages : {1, 5, 3, 7}) {
        free_run_of(pages * PAGE_BYTES);
        longest = std::max(longest, pages);
        EXPECT_EQ(kept_pages(), pages);
        EXPECT_EQ(kept_pages_bound(), longest);
    }
    hak_purge();
    EXPECT_EQ(kept_pages_bound(), 0u);
}

// What calloc may take for zero behind a block is right also if the run served other lengths in between.
TEST_F(Kept, CallocAfterIt)
{
    test::Rng rng;
    for (int i = 0; i < 500; i++) {
        const size_t size = rng.between(SMALL_BYTES_MAX + 1, 4 * PAGE_BYTES);
        char *block = static_cast<char *>(hak_malloc(size));
        memset(block, 0xff, size);
        if (rng.below(4) == 0) memset(block, 0xff, hak_malloc_usable_size(block));
        hak_free(block);
        if (rng.below(2) == 0) continue;
        const size_t cleared = rng.between(SMALL_BYTES_MAX + 1, 4 * PAGE_BYTES);
        block = static_cast<char *>(hak_calloc(1, cleared));
        const size_t usable = hak_malloc_usable_size(block);
        for (size_t at = 0; at < usable; at++) ASSERT_EQ(block[at], 0) << at << " of " << cleared;
        memset(block, 0xff, usable);
        hak_free(block);
    }
}

// Each of these leaves no run aside, or takes it.
TEST_F(Kept, WhoNeedsMemoryGetsIt)
{
    hak_purge();
    limit_set(limit_committed_bytes() + 4 * MIB);
    free_run_of(MIB);
    EXPECT_EQ(kept_pages(), 0u) << "under a limit";
    limit_set(SIZE_MAX);
    pool_set_purge_delay_ms(0);
    free_run_of(MIB);
    EXPECT_EQ(kept_pages(), 0u) << "without a delay";
    pool_set_purge_delay_ms(PURGE_DELAY_MS);
    limit_soft_set(0);
    free_run_of(MIB);
    EXPECT_EQ(kept_pages(), 0u) << "beyond the soft limit";
    limit_soft_set(SIZE_MAX);
    free_run_of(2 * MIB - PAGE_BYTES);
    limit_set(limit_committed_bytes());
    void *block = hak_malloc(MIB); // of other pages than the kept ones, which it must purge
    EXPECT_NE(block, nullptr) << "a limit that comes later";
    limit_set(SIZE_MAX);
    hak_free(block);
}

// A round of the tick makes free pages of it, which the next one may purge.
TEST_F(Kept, TheNextRoundEndsIt)
{
    if (VALIDATE) GTEST_SKIP() << "a freed block is in the quarantine";
    hak_purge();
    pool_tick(UINT32_MAX);
    free_run_of(MIB);
    ASSERT_GT(kept_pages(), 0u);
    pool_tick(UINT32_MAX + 2 * (uint64_t)PURGE_DELAY_MS);
    EXPECT_EQ(kept_pages(), 0u);
    EXPECT_GT(purge_dirty_pages(), 0u);
    pool_tick(UINT32_MAX + 4 * (uint64_t)PURGE_DELAY_MS);
    EXPECT_EQ(purge_dirty_pages(), 0u);
}

// A loop that takes nothing but kept runs sees the rounds of the tick, so that what others left idle is given back.
TEST_F(Kept, ALoopOverOneRunTicks)
{
    free_run_of(64); // a thread without a heap posts nothing
    free_run_of(MIB);
    pool_tick_force();
    ASSERT_NE(tcache_self()->tick_rounds, pool_tick_rounds());
    for (int i = 0; i < KEPT_TICK_PERIOD; i++) free_run_of(MIB);
    EXPECT_EQ(tcache_self()->tick_rounds, pool_tick_rounds());
}

// The bound of what is kept stays high when a run is taken. Memory is given back for what is free, not for that.
TEST_F(Kept, ABoundThatIsTooHighPurgesNothing)
{
    if (VALIDATE) GTEST_SKIP() << "a freed block is in the quarantine";
    hak_purge();
    std::vector<void *> blocks;
    for (uint32_t i = 0; i < DIRTY_PAGES_MIN - 10; i++) blocks.push_back(hak_malloc(PAGE_BYTES));
    void *longest = hak_malloc(RUN_BYTES_MAX);
    hak_free(longest);
    ASSERT_EQ(hak_malloc(RUN_BYTES_MAX), longest);
    ASSERT_EQ(kept_pages_bound(), (size_t)RUN_PAGES_MAX);
    const size_t purged = purge_purged_pages();
    for (void *block : blocks) hak_free(block);
    EXPECT_EQ(purge_purged_pages(), purged);
    EXPECT_LT(kept_pages_bound(), (size_t)RUN_PAGES_MAX) << "the bound was not lowered";
    hak_free(longest);
    hak_purge();
}

// Threads that each free one long run and then sleep keep no more than the limit in number.
TEST_F(Kept, AllLanesAreUnderTheLimit)
{
    if (VALIDATE) GTEST_SKIP() << "a freed block is in the quarantine";
    hak_purge_all();
    static std::atomic<int> begun, ended;
    begun = ended = 0;
    test::in_threads(KEPT_LANES, [](int thread) {
        free_run_of(64); // it has a heap from now on, and so a lane
        void *run = hak_malloc(RUN_BYTES_MAX);
        begun++;
        while (begun < KEPT_LANES || ended < thread) std::this_thread::yield();
        hak_free(run);
        ended++;
        while (ended < KEPT_LANES) std::this_thread::yield();
        // The limit is a quarter of what is in use, which may be some pages more than its minimum.
        EXPECT_LT(purge_dirty_pages(), 2 * (size_t)DIRTY_PAGES_MIN);
    });
}

// Threads that take large blocks only hold no heap. Together they keep more than one run.
TEST_F(Kept, ThreadsWithoutAHeapHaveLanesOfTheirOwn)
{
    if (VALIDATE) GTEST_SKIP() << "a freed block is in the quarantine";
    hak_purge_all();
    static std::atomic<int> freed;
    freed = 0;
    test::in_threads(KEPT_LANES, [](int) {
        free_run_of(MIB / 8);
        freed++;
        while (freed < KEPT_LANES) std::this_thread::yield();
    });
    EXPECT_GE(std::ranges::count_if(kept_lanes, [](const kept_lane &lane) { return lane.run != 0; }), KEPT_LANES / 2);
}

// A child is forked while another thread is between a lane's run and its bound, or between that and the sum of all bounds.
TEST_F(Kept, AForkedChildMendsTheBounds)
{
    if (VALIDATE) GTEST_SKIP() << "a freed block is in the quarantine";
    hak_purge();
    free_run_of(MIB);
    for (auto &lane : kept_lanes) {
        if (lane.run != 0) lane.pages_max = 0;
    }
    kept_after_fork();
    EXPECT_EQ(kept_pages_bound(), kept_pages());
    kept_lanes[1].pages_max = kept_lanes[1].pages_max + 7;
    kept_after_fork();
    EXPECT_EQ(kept_pages_bound(), kept_pages() + 7);
    kept_give_back();
    EXPECT_EQ(kept_pages(), 0u);
    EXPECT_EQ(kept_pages_bound(), 0u);
}

// A new superslab is made only when the kept runs do not serve either.
TEST_F(Kept, NoSuperslabIsMadeBesideThem)
{
    if (VALIDATE) GTEST_SKIP() << "a freed block is in the quarantine";
    const size_t page = PAGE_BYTES - 64;
    std::vector<void *> all;
    const size_t made = pool_figures().made_count;
    while (pool_figures().made_count == made) all.push_back(hak_malloc(page));
    for (uint32_t i = 1; i < SUPERSLAB_PAGES; i++) all.push_back(hak_malloc(page)); // not a page is free
    ASSERT_EQ(pool_figures().made_count, made + 1);
    hak_free(all.back());
    ASSERT_EQ(kept_pages(), 1u);
    all.back() = hak_calloc(1, page);
    EXPECT_EQ(pool_figures().made_count, made + 1);
    for (void *block : all) hak_free(block);
}

// Threads put, take and give back at once: no run is handed out twice, and none is lost.
TEST_F(Kept, ManyThreads)
{
    std::atomic<bool> stop{false};
    std::thread purger([&] {
        while (!stop) hak_purge();
    });
    test::in_threads(2 * KEPT_LANES, [](int thread) {
        test::Rng rng((uint64_t)thread);
        for (int i = 0; i < test::rounds(300); i++) {
            const size_t size = rng.between(1, 3) * PAGE_BYTES - 512;
            auto *block = static_cast<uint64_t *>(hak_malloc(size));
            block[0] = block[size / 8 - 1] = (uint64_t)thread;
            if (rng.below(8) == 0) std::this_thread::yield();
            ASSERT_EQ(block[0], (uint64_t)thread);
            ASSERT_EQ(block[size / 8 - 1], (uint64_t)thread);
            hak_free(block);
        }
    });
    stop = true;
    purger.join();
    test::inspected();
}

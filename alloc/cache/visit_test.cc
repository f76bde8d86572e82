// visit_test.cc: other threads' caches are taken back while they sleep, run, end, and are forked. More than 400 lines: all
// tests share threads that wait with full caches, or a clock that they move.
#include "heap/heap_test_support.h"

#include <semaphore>
#include <utility>

extern "C" {
#include "base/sync_point.h"
#include "cache/owed.h"
#include "cache/visit.h"
#include "os/os.h"
#include "superslab/purge.h"
}

namespace {

// A thread that does its work, then sleeps until the test is over.
class Sleeper {
  public:
    explicit Sleeper(const std::function<void()> &work)
        : thread_([this, work] {
              work();
              asleep_.release();
              over_.acquire();
          })
    {
        asleep_.acquire();
    }
    ~Sleeper() { end(); }
    void end()
    {
        if (!thread_.joinable()) return;
        over_.release();
        thread_.join();
    }

  private:
    std::binary_semaphore asleep_{0}, over_{0};
    std::thread thread_;
};

class Visit : public test::HeapTest {
  protected:
    static inline std::atomic<uint64_t> now; // of the tests that move the clock; it only grows
    static void clock_take()
    {
        now = std::max(now.load(), os_now_ms());
        hak_clock_hook = []() -> unsigned long long { return now.load(); };
    }
    static void round()
    {
        now += 2 * PURGE_DELAY_MS;
        EXPECT_TRUE(pool_tick(now));
    }

    static hak_stats get()
    {
        hak_stats stats;
        hak_stats_get(&stats);
        return stats;
    }

    static void fill_and_free(size_t size, size_t bytes)
    {
        std::vector<void *> blocks(bytes / size);
        for (void *&block : blocks) block = hak_malloc(size);
        for (void *block : blocks) hak_free(block);
    }
};

} // namespace

TEST_F(Visit, TakesWhatASleepingThreadHasParked)
{
    Sleeper sleeper([] {
        for (size_t size : {64u, 512u, 2048u}) fill_and_free(size, 1 << 20);
    });
    EXPECT_GE(get().small_bytes, 300u << 10) << "the lists that are parked";
    EXPECT_GT(hak_purge_all(), 0u);
    EXPECT_LE(get().small_bytes, 3u * CREDIT_LEAST_BYTES) << "a short list of each class";
    EXPECT_EQ(get().dirty_bytes, 0u);
    test::inspected();
}

TEST_F(Visit, TheThreadContinuesWithItsHeap)
{
    std::binary_semaphore ready{0}, go{0};
    std::vector<void *> kept;
    std::thread thread([&] {
        for (size_t size : {48u, 1024u}) fill_and_free(size, 2 << 20);
        for (size_t i = 0; i < 100; i++) {
            kept.push_back(hak_malloc(1000));
            test::pattern_fill(kept.back(), 1000, i);
        }
        ready.release();
        go.acquire();
        for (size_t i = 0; i < 100; i++) EXPECT_TRUE(test::pattern_holds(kept[i], 1000, i));
        for (size_t size : {48u, 1024u}) fill_and_free(size, 2 << 20);
        for (void *block : kept) hak_free(block);
    });
    ready.acquire();
    hak_purge_all();
    go.release();
    thread.join();
}

TEST_F(Visit, DrainsWhatOthersFreedForASleepingThread)
{
    std::vector<void *> blocks;
    Sleeper sleeper([&] {
        for (int i = 0; i < 4096; i++) blocks.push_back(hak_malloc(512));
    });
    test::in_thread([&] {
        for (void *block : blocks) hak_free(block);
    });
    EXPECT_GE(get().small_bytes, 2u << 20) << "posted, and not drained";
    hak_purge_all();
    EXPECT_LE(get().small_bytes, (size_t)CARVE_BYTES) << "what the thread carved beyond";
    EXPECT_EQ(test::inspected().empty_slab_count, 0u) << "the drain has emptied them";
}

// Staged frees stay with their thread until it is on a slow path in a later round of the tick.
TEST_F(Visit, WhatIsStagedIsPostedInTheNextRound)
{
    std::vector<void *> blocks;
    for (int i = 0; i < 10; i++) blocks.push_back(hak_malloc(512)); // too few to be posted by themselves
    owner *own = &tcache_self()->heap->owner;
    std::binary_semaphore done{0}, next{0};
    const uint32_t rounds = pool_tick_rounds();
    std::thread thread([&] {
        for (size_t size : {100u, 150u}) hak_free(hak_malloc(size)); // it takes a heap, and sees this round
        for (void *block : blocks) hak_free(block);
        for (size_t size : {200u, 300u, 400u}) { // each a slow path
            done.release();
            next.acquire();
            hak_free(hak_malloc(size));
        }
        done.release();
    });
    done.acquire();
    EXPECT_FALSE(remote_is_pending(own)) << "staged";
    next.release();
    done.acquire();
    if (rounds == pool_tick_rounds()) EXPECT_FALSE(remote_is_pending(own)) << "a slow path in the same round";
    pool_tick_force();
    next.release();
    done.acquire();
    EXPECT_TRUE(remote_is_pending(own)) << "a slow path in the next round";
    next.release();
    thread.join();
}

TEST_F(Visit, EachIdleHeapIsVisited)
{
    SKIP_WITHOUT_VALIDATE(); // only that build lets a test move the clock
    clock_take();
    constexpr size_t BYTES = 1 << 20;
    const size_t before = get().small_bytes;
    {
        Sleeper first([] { fill_and_free(512, BYTES); }), second([] { fill_and_free(512, BYTES); }),
            third([] { fill_and_free(512, BYTES); });
        for (int i = 0; i < 3; i++) round();
        EXPECT_GE(visit_idle().given_back, 3u);
        EXPECT_LT(get().small_bytes, before + BYTES / 4);
    }
    hak_clock_hook = nullptr;
}

// A heap is visited once its thread has been on no slow path for more than VISIT_ROUNDS rounds, and in none before.
TEST_F(Visit, AHeapIsIdleAfterVisitRounds)
{
    SKIP_WITHOUT_VALIDATE(); // only that build lets a test move the clock
    clock_take();
    for (bool is_heir : {false, true}) { // of the heap, whose thread before has been visited
        static const heap *theirs;
        Sleeper sleeper([] {
            fill_and_free(512, 1 << 20);
            theirs = tcache_self()->heap;
        });
        ASSERT_GT(theirs->parked, 0u);
        for (int rounds = 0; rounds <= VISIT_ROUNDS + 2; rounds++) {
            EXPECT_EQ(visit_idle().given_back > 0 || theirs->parked == 0, rounds > VISIT_ROUNDS)
                << rounds << " rounds, heir: " << is_heir;
            round();
        }
        sleeper.end();
    }
    hak_clock_hook = nullptr;
}

// The parked lists of each class go back, from the first class to the last.
TEST_F(Visit, TakesTheListsOfEachClass)
{
    hak_free(hak_malloc(64 * test::MIB)); // a new peak would empty the caches
    static const heap *theirs;
    Sleeper sleeper([] {
        for (uint32_t c = 1; c < CLASS_COUNT; c++) {
            const bool is_aligned = c >= CLASS_ALIGNED_FIRST; // for blocks that each begin at a multiple of 128
            hak_free(is_aligned ? hak_aligned_alloc(128, sizeclass_bytes(c)) : hak_malloc(sizeclass_bytes(c)));
        }
        theirs = tcache_self()->heap;
        tcache_park_all(tcache_self());
    });
    ASSERT_GE(theirs->parked, CLASS_COUNT - 8u); // frames make some of another class
    ASSERT_NE(parking_count(&theirs->parking[CLASS_COUNT - 1]), 0);
    visit_all_caches();
    for (uint32_t c = 1; c < CLASS_COUNT; c++) EXPECT_EQ(parking_count(&theirs->parking[c]), 0u) << c;
    EXPECT_EQ(theirs->parked, 0u);
}

TEST_F(Visit, IdleHeapsAreVisitedOnceUntilTheyAreUsedAgain)
{
    SKIP_WITHOUT_VALIDATE(); // only that build lets a test move the clock
    clock_take();
    std::binary_semaphore go{0}, done{0};
    std::thread thread([&] {
        for (int i = 0; i < 2; i++) {
            fill_and_free(512, 1 << 20);
            done.release();
            go.acquire();
        }
    });
    done.acquire();
    EXPECT_EQ(visit_idle().given_back, 0u) << "it was on a slow path just now";
    EXPECT_GE(visit_idle().active, 1u);
    for (int i = 0; i < 3; i++) round();
    size_t before = get().small_bytes;
    EXPECT_GE(visit_idle().given_back, 1u);
    EXPECT_LT(get().small_bytes, before / 4);
    EXPECT_EQ(visit_idle().given_back, 0u) << "nothing has changed";
    go.release();
    done.acquire();
    for (int i = 0; i < 3; i++) round();
    EXPECT_GE(visit_idle().given_back, 1u) << "used again";
    go.release();
    thread.join();
    hak_free(hak_malloc(700)); // this thread is on a slow path
    uint32_t active = visit_idle().active;
    test::in_thread([] { hak_free(hak_malloc(700)); });
    EXPECT_EQ(visit_idle().active, active) << "a heap that no thread holds is not active";
    for (int i = 0; i < 3; i++) round();
    active = visit_idle().active;
    Sleeper heir([] { hak_free(hak_malloc(700)); });
    EXPECT_EQ(visit_idle().active, active + 1) << "a thread that has just taken such a heap is";
    hak_clock_hook = nullptr;
}

// A thread that comes to a slow path during a visit to its heap works when the visit has ended, and sleeps again: it is
// visited again.
TEST_F(Visit, WhatAThreadDoesRightBehindAVisitCallsForAnother)
{
    SKIP_WITHOUT_VALIDATE(); // only that build lets a test move the clock, and stop the visitor
    clock_take();
    static std::binary_semaphore go{0}, done{0};
    static const heap *theirs;
    std::thread thread([] {
        for (int i = 0; i < 2; i++) {
            fill_and_free(512, 1 << 20);
            theirs = tcache_self()->heap;
            done.release();
            go.acquire();
        }
    });
    done.acquire();
    for (int i = 0; i < 3; i++) round();
    static bool has_woken;
    has_woken = false;
    hak_sync_point_hook = [](const char *step) {
        if (has_woken || theirs->parked != 0 || strcmp(step, "lock_release") != 0) return;
        has_woken = true;
        go.release();
        done.acquire();
    };
    EXPECT_GE(visit_idle().given_back, 1u);
    hak_sync_point_hook = nullptr;
    EXPECT_TRUE(has_woken);
    if (!has_woken) go.release(), done.acquire();
    EXPECT_GT(theirs->parked, 0u);
    for (int i = 0; i < 3; i++) round();
    visit_idle();
    EXPECT_EQ(theirs->parked, 0u) << "it sleeps with full caches";
    go.release();
    thread.join();
    hak_clock_hook = nullptr;
}

// A thread that waits for its heap ends a visit at the visitor's next step, whichever that is. If it sleeps again and frees
// nothing, the rest of its caches is for the next visit.
TEST_F(Visit, OneThatEndedEarlyIsMadeAgain)
{
    SKIP_WITHOUT_VALIDATE(); // only that build lets a test move the clock, and count the visitor's steps
    clock_take();
    static tcache *theirs;
    static uint64_t seen, wanted;
    for (wanted = 1;; wanted += 1 + wanted / 4) {
        Sleeper sleeper([] {
            for (size_t size : {64u, 512u, 5000u}) fill_and_free(size, 1 << 18);
            theirs = tcache_self();
        });
        const heap *visited = theirs->heap;
        ASSERT_GT(visited->parked, 0u);
        for (int i = 0; i < 3; i++) round();
        seen = 0;
        hak_sync_point_hook = [](const char *) {
            if (theirs->busy == BUSY_VISITED && ++seen == wanted) theirs->busy = BUSY_VISITED | BUSY_WAITED_FOR;
        };
        visit_idle();
        hak_sync_point_hook = nullptr;
        const bool ended_early = visited->parked != 0;
        EXPECT_TRUE(ended_early || seen < wanted || wanted > 3) << "the visit has not ended at step " << wanted;
        visit_idle();
        EXPECT_EQ(visited->parked, 0u) << "it sleeps with full caches, since a visit ended at step " << wanted;
        if (seen < wanted) break;
    }
    EXPECT_GT(wanted, 3u);
    hak_clock_hook = nullptr;
}

TEST_F(Visit, WhatLiesFreeInSlabsOfAnIdleHeapGoesBack)
{
    SKIP_WITHOUT_VALIDATE(); // only that build lets a test move the clock
    clock_take();
    auto idle_bytes = [] {
        hak_figures figures;
        hak_figures_get(&figures, sizeof figures);
        return figures.idle_bytes;
    };
    std::vector<void *> blocks((4 << 20) / 512);
    {
        Sleeper sleeper([&] {
            for (void *&block : blocks) block = hak_malloc(512);
            for (size_t i = 0; i < blocks.size() / 2; i++) // half of it, so that the thread does not trim by itself
                if (i % 128 != 0) hak_free(std::exchange(blocks[i], nullptr));
        });
        for (int i = 0; i < 3; i++) round();
        EXPECT_GE(visit_idle().given_back, 1u);
        EXPECT_LT(idle_bytes(), 256u << 10) << "of 2 MiB";
        const owner *visited = slab_of(blocks[0])->owner;
        EXPECT_EQ(visited->idle_bytes_kept, owner_idle_bytes(visited)) << "and what stays is no reason to trim again";
        test::inspected();
    }
    for (void *block : blocks) hak_free(block);
    hak_clock_hook = nullptr;
}

// Of every class: those of blocks that are aligned to more than a cache line are the last.
TEST_F(Visit, AlignedBlocksOfASleepingThreadAreTrimmed)
{
    for (size_t size : {128u, 512u}) {
        std::vector<void *> blocks((2 << 20) / size);
        Sleeper sleeper([&] {
            for (void *&block : blocks) block = hak_aligned_alloc(COLOURED_STEP_BYTES, size);
            for (size_t i = 0; i < blocks.size() / 2; i++) // half of it, so that the thread does not trim by itself
                if (i % (PAGE_BYTES / size) != 0) hak_free(std::exchange(blocks[i], nullptr));
        });
        ASSERT_GE(slab_of(blocks.back())->class_index, (uint32_t)CLASS_ALIGNED_FIRST);
        EXPECT_GE(visit_all(), 512u << 10) << size << ": of 1 MiB";
        for (void *block : blocks) hak_free(block);
    }
}

// All of it at once: threads allocate, free, and end, while others visit them.
TEST_F(Visit, WhileThreadsRunAndEnd)
{
    static std::atomic<bool> done;
    static std::atomic<uint64_t> visits;
    done = false;
    visits = 0;
    std::vector<std::thread> visitors;
    for (int i = 0; i < 2; i++)
        visitors.emplace_back([i] {
            while (!done) {
                if (i == 0) hak_purge_all();
                visit_all();
                visits++;
            }
        });
    for (int round = 0; round < test::rounds(8); round++) {
        std::atomic<void *> handed[64] = {};
        test::in_threads(3, [&](int thread) {
            test::Rng rng((uint64_t)(round * 3 + thread));
            struct Held {
                void *block = nullptr;
                size_t size = 0;
                uint64_t stamp = 0;
            };
            std::vector<Held> held(500);
            for (int op = 0; op < 5000; op++) {
                Held &slot = held[rng.below(held.size())];
                if (slot.block != nullptr) {
                    EXPECT_TRUE(test::pattern_holds(slot.block, slot.size, slot.stamp));
                    hak_free(slot.block);
                }
                slot = {nullptr, rng.below(16) == 0 ? rng.between(16, 8192) : rng.between(16, 512), rng.next()};
                slot.block = hak_malloc(slot.size);
                test::pattern_fill(slot.block, slot.size, slot.stamp);
                if (op % 4 == 0) hak_free(handed[rng.below(64)].exchange(hak_malloc(rng.between(16, 300))));
            }
            for (Held &each : held) hak_free(each.block);
        });
        for (auto &each : handed) hak_free(each.load());
    }
    done = true;
    for (std::thread &each : visitors) each.join();
    EXPECT_GT(visits, 10u);
}

// The child does not use a heap that was being visited, its own included, and works with another.
TEST_F(Visit, AChildForkedDuringVisits)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    static std::atomic<bool> done;
    done = false;
    Sleeper sleeper([] { fill_and_free(512, 1 << 20); });
    std::thread visitor([] {
        while (!done) visit_all();
    });
    for (int i = 0; i < test::rounds(60); i++) {
        fill_and_free(64, 64 << 10);
        ASSERT_TRUE(test::in_child(
            [] {
                for (size_t size : {16u, 64u, 512u, 4000u}) fill_and_free(size, 256 << 10);
                test::in_thread([] { fill_and_free(512, 256 << 10); });
                hak_purge_all();
            },
            30))
            << "fork number " << i;
    }
    done = true;
    visitor.join();
}

// A fork at the very moment of a visit to the forking thread's own heap, also while its blocks are sampled.
TEST_F(Visit, TheChildLeavesAHeapThatWasHalfVisited)
{
    for (size_t mean_bytes : {0u, 1000u}) {
        EXPECT_TRUE(test::in_child([mean_bytes] {
            if (mean_bytes != 0 && hak_profile_start(mean_bytes) != 0) return; // this build has no profile
            fill_and_free(512, 1 << 20);
            struct tcache *self = tcache_self();
            struct heap *before = self->heap;
            self->busy = BUSY_VISITED; // as the visitor, which the child does not have, left it
            EXPECT_TRUE(test::in_child([before] {
                EXPECT_EQ(tcache_self()->heap, nullptr);
                fill_and_free(512, 1 << 20);
                EXPECT_NE(tcache_self()->heap, nullptr);
                EXPECT_NE(tcache_self()->heap, before);
            })) << mean_bytes;
            self->busy = 0;
        }));
    }
}

namespace {

class Pause : public Visit {
  protected:
    void SetUp() override
    {
        SKIP_WITHOUT_VALIDATE(); // only that build lets a test move the clock
        Visit::SetUp();
        now = os_now_ms();
        hak_clock_hook = []() -> unsigned long long { return now.load(); };
        hak_purge_all();
    }
    void TearDown() override
    {
        for (void *block : blocks) hak_free(block);
        hak_clock_hook = nullptr;
    }
    // Frees up to half of the peak, so that the heap has not shrunk.
    void free_part()
    {
        for (size_t i = 0; i < blocks.size(); i++)
            if (i % 64 >= 24) hak_free(std::exchange(blocks[i], nullptr));
    }
    static void one_slow_path() { hak_free(hak_malloc(100000)); }
    static void slow_paths() // until the heap owes nothing
    {
        do one_slow_path();
        while (heap_owes(tcache_self()->heap));
    }
    static size_t idle() { return owner_idle_bytes(&tcache_self()->heap->owner); }
    size_t pause_after_frees_by_others() // returns what idles then
    {
        for (void *&block : blocks) block = hak_malloc(512);
        one_slow_path();
        EXPECT_FALSE(tcache_self()->watches_idle);
        test::in_thread([this] { free_part(); });
        hak_free(hak_malloc(3000)); // drains a part
        while (tcache_self()->heap->owner.owes_drain) one_slow_path();
        EXPECT_TRUE(tcache_self()->watches_idle);
        EXPECT_GE(idle(), 16u << 20);
        now += PAUSE_DELAYS * PURGE_DELAY_MS;
        return idle();
    }
    static inline std::atomic<uint64_t> now;
    std::vector<void *> blocks = std::vector<void *>(16 * 4096);
};

} // namespace

// A thread that comes back from a pause gives back what has idled meanwhile.
TEST_F(Pause, AfterItTheThreadTrimsItself)
{
    for (void *&block : blocks) block = hak_malloc(512);
    free_part();
    one_slow_path();
    size_t before = idle();
    EXPECT_GE(before, 16u << 20);
    now += PAUSE_DELAYS * PURGE_DELAY_MS;
    slow_paths();
    EXPECT_LE(idle(), before * 3 / 4) << "rows of 20 KiB have no block in use";
    test::inspected();
}

// So does one whose blocks others freed.
TEST_F(Pause, WhatOthersFreedCounts)
{
    const size_t before = pause_after_frees_by_others();
    slow_paths();
    EXPECT_LE(idle(), before * 3 / 4);
}

// Also where a slow path takes back what others freed in the pause itself, before it reads the clock.
TEST_F(Pause, WhatOthersFreeInItIsTakenBackFirst)
{
    void *mine = hak_malloc(3000), *other = hak_malloc(3000);
    const size_t before = pause_after_frees_by_others();
    test::in_thread([&] { hak_free(other); });
    tcache_self()->credits[sizeclass_of(3000)] = 0;
    hak_free(mine); // parks
    EXPECT_FALSE(remote_is_pending(&tcache_self()->heap->owner));
    EXPECT_TRUE(heap_owes(tcache_self()->heap));
    slow_paths();
    EXPECT_LE(idle(), before * 3 / 4);
}

// A thread that was on slow paths all the time, and had no reason to read the clock there, has made no pause.
TEST_F(Pause, ABusyThreadMakesNone)
{
    for (void *&block : blocks) {
        block = hak_malloc(512);
        now += 1;
    }
    ASSERT_EQ(purge_dirty_pages(), 0u);
    uint64_t trims = tcache_self()->heap->owner.events[OWNER_EVENT_trims];
    free_part();
    EXPECT_GE(idle(), 16u << 20);
    one_slow_path();
    EXPECT_EQ(tcache_self()->heap->owner.events[OWNER_EVENT_trims], trims);
    // While much is idle, each slow path counts.
    for (uint32_t i = 0; i < 4 * PAUSE_DELAYS; i++) {
        now += PURGE_DELAY_MS / 2;
        one_slow_path();
    }
    EXPECT_EQ(tcache_self()->heap->owner.events[OWNER_EVENT_trims], trims);
}

// succession_test.cc: which thread takes the heap of a thread that has ended. More than 400 lines: all of it is about that.
#include "heap/heap_test_support.h"

#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

extern "C" {
#include "cache/thread.h"
#include "slab/owner.h"
#include "slab/remote.h"
#include "superslab/pagemap.h"
}

namespace {

class Succession : public test::HeapTest {};

} // namespace

namespace {

// A thread that allocates, frees and ends. Returns the blocks that it kept; *small counts the small ones.
std::vector<void *> live_and_die(size_t rounds, uint64_t *small)
{
    std::vector<void *> kept;
    test::in_thread([&] {
        for (size_t round = 0; round < rounds; round++)
            for (size_t size : test::all_kinds_of_sizes()) {
                void *block = hak_malloc(size);
                if (round == 0) kept.push_back(block);
                else hak_free(block);
            }
    });
    *small = 0;
    for (void *block : kept)
        if (hak_malloc_usable_size(block) <= SMALL_BYTES_MAX) ++*small;
    return kept;
}

} // namespace

TEST_F(Succession, WhatTheDeadHadCachedWaitsForTheNextOne)
{
    void *cached = nullptr, *parked = nullptr;
    test::in_thread([&] {
        cached = hak_malloc(100);
        hak_free(cached);
        std::vector<void *> blocks;
        for (int i = 0; i < 600; i++) blocks.push_back(hak_malloc(200));
        for (void *block : blocks) hak_free(block);
        ASSERT_GT(parking_count(&tcache_self()->heap->parking[sizeclass_of(200)]), 0);
        parked = tcache_self()->heap->parking[sizeclass_of(200)].magazines;
    });
    test::in_thread([&] {
        void *block = hak_malloc(100);
        EXPECT_EQ(block, cached);
        hak_free(block);
        EXPECT_EQ(tcache_self()->heap->parking[sizeclass_of(200)].magazines, parked);
    });
}

// In every class, from the first to the last: the heir begins with the list that was the dead thread's.
TEST_F(Succession, TheHeirBeginsWithEachList)
{
    struct block *lists[CLASS_COUNT] = {};
    hak_free(hak_malloc(64 * test::MIB)); // a new peak would empty the caches
    test::in_thread([&] {
        for (uint32_t c = 1; c < CLASS_COUNT; c++) {
            const bool is_aligned = c >= CLASS_ALIGNED_FIRST; // for blocks that each begin at a multiple of 128
            hak_free(is_aligned ? hak_aligned_alloc(128, sizeclass_bytes(c)) : hak_malloc(sizeclass_bytes(c)));
            lists[c] = tcache_self()->heads[c];
            ASSERT_NE(lists[c], nullptr) << c;
        }
    });
    test::in_thread([&] {
        hak_free(hak_malloc(RUN_BYTES_MAX)); // not a small block, yet the thread takes a heap
        hak_free(hak_malloc(16));
        for (uint32_t c = 1; c < CLASS_COUNT; c++) EXPECT_EQ(tcache_self()->heads[c], lists[c]) << c;
    });
}

// What the bins have learned stays with the heap, in every class, and is gone once the heap has idled.
TEST_F(Succession, TheHeirHasTheCreditsThatTheHeapHasLearned)
{
    auto credit = [](size_t size) { return tcache_self()->credits[sizeclass_of(size)]; };
    auto learned = [](heap *of, size_t size) { return (uint32_t)of->parking[sizeclass_of(size)].credit; };
    const size_t size = 512;
    const uint32_t first = sizeclass_credit(sizeclass_of(size)), most = sizeclass_credit_grown(sizeclass_of(size));
    ASSERT_LT(first, most);
    heap *grown = nullptr;
    test::in_thread([&] {
        for (int round = 0; round < 40; round++) {
            std::vector<void *> blocks;
            for (uint32_t i = 0; i < 4 * most; i++) blocks.push_back(hak_malloc(size));
            for (void *block : blocks) hak_free(block);
        }
        grown = tcache_self()->heap;
        EXPECT_EQ(learned(grown, size), most);
    });
    test::in_thread([&] {
        hak_free(hak_malloc(16));
        ASSERT_EQ(tcache_self()->heap, grown);
        EXPECT_EQ(learned(grown, size), most);
        EXPECT_EQ(credit(size), most);
        EXPECT_EQ(credit(208), sizeclass_credit(sizeclass_of(208))) << "it has learned nothing of this class";
    });
    thread_tick_whole();
    thread_tick_whole();
    EXPECT_EQ(learned(grown, size), first) << "nobody came for two rounds";
    test::in_thread([&] {
        hak_free(hak_malloc(16));
        ASSERT_EQ(tcache_self()->heap, grown);
        EXPECT_EQ(credit(size), first);
    });
}

TEST_F(Succession, WhereNobodyComesTheTickGivesItBack)
{
    uint64_t small;
    std::vector<void *> kept = live_and_die(40, &small);
    EXPECT_GT(test::inspected().used_blocks, small) << "nothing was cached";
    thread_tick_whole();
    EXPECT_GT(test::inspected().used_blocks, small) << "not before a round has gone by";
    thread_tick_whole();
    EXPECT_EQ(test::inspected().used_blocks, small);
    EXPECT_EQ(test::inspected().empty_slab_count, 0u);
    EXPECT_FALSE(thread_any_warm());
    thread_tick_whole();
    for (void *block : kept) hak_free(block);
}

// Of all of the dead, in one round.
TEST_F(Succession, TheTickGivesBackWhatEachOfThemHad)
{
    std::atomic<int> ready{0};
    test::in_threads(3, [&](int) { // each has a heap of its own
        hak_free(hak_malloc(300));
        ready++;
        while (ready < 3) std::this_thread::yield();
    });
    ASSERT_GE(thread_warm_count(), 2u);
    for (int i = 0; i < 2; i++) thread_tick_whole();
    EXPECT_FALSE(thread_any_warm());
}

// The statistics hold an orphan while they count its blocks. A purge waits for them.
TEST_F(Succession, AFlushWaitsForWhoLooksAtAHeap)
{
    uint64_t small;
    std::vector<void *> kept = live_and_die(40, &small);
    owner *looked_at = nullptr;
    for (owner *each = nullptr; (each = owner_next(each)) != nullptr && looked_at == nullptr;)
        if (owner_is_orphan(each) && ((heap *)each)->rest != REST_EMPTY) looked_at = each;
    ASSERT_NE(looked_at, nullptr);
    std::atomic<bool> looks{false};
    std::thread looker([&] {
        looks = owner_adopt_this(looked_at);
        usleep(4000);
        remote_abandon(looked_at);
    });
    while (!looks) std::this_thread::yield();
    thread_flush_orphans();
    EXPECT_EQ(thread_count_warm(), 0u);
    EXPECT_EQ(test::inspected().used_blocks, small);
    looker.join();
    for (void *block : kept) hak_free(block);
}

TEST_F(Succession, AForkedChildGivesItBackToo)
{
    uint64_t small;
    std::vector<void *> kept = live_and_die(40, &small);
    EXPECT_TRUE(test::in_child([&] {
        EXPECT_TRUE(thread_any_warm());
        thread_tick_whole();
        thread_tick_whole();
        EXPECT_FALSE(thread_any_warm());
        EXPECT_EQ(test::inspected().used_blocks, small);
    }));
    for (void *block : kept) hak_free(block);
}

// A thread that is forked away may have ended the rest of a heap and not counted that yet, or have taken a heap whose
// rest it had yet to end: nobody holds that one in the child, and nobody will take it.
TEST_F(Succession, AForkedChildCountsWhatRestsItself)
{
    uint64_t small;
    std::vector<void *> kept = live_and_die(1, &small);
    ASSERT_TRUE(thread_any_warm());
    heap *warm = nullptr;
    for (uint32_t id = 1; id <= owner_count(); id++) {
        auto *each = reinterpret_cast<heap *>(owner_with_id(id));
        if (owner_is_orphan(&each->owner) && each->rest != REST_EMPTY) warm = each;
    }
    ASSERT_NE(warm, nullptr);
    EXPECT_TRUE(test::in_child([] { EXPECT_TRUE(thread_any_warm()); }));
    const uint32_t rest = warm->rest.exchange(REST_EMPTY);
    EXPECT_TRUE(test::in_child([] { EXPECT_FALSE(thread_any_warm()); }));
    warm->rest = rest;
    ASSERT_TRUE(owner_adopt_this(&warm->owner));
    EXPECT_TRUE(test::in_child([] { EXPECT_FALSE(thread_any_warm()); }));
    remote_abandon(&warm->owner);
    for (void *block : kept) hak_free(block);
}

TEST_F(Succession, CachesThatHoldMuchAreNotKept)
{
    std::vector<void *> kept;
    test::in_thread([&] {
        std::vector<void *> blocks;
        for (size_t bytes = 0; bytes < 2 * (size_t)ORPHAN_USED_BYTES_MAX; bytes += 1024) {
            kept.push_back(hak_malloc(1024));
            blocks.push_back(hak_malloc(64));
        }
        for (void *block : blocks) hak_free(block);
    });
    EXPECT_EQ(test::inspected().used_blocks, kept.size());
    for (void *block : kept) hak_free(block);
}

// A heap keeps what its thread had cached with up to ORPHAN_USED_BYTES_MAX in use.
TEST_F(Succession, CachesAreKeptUpToTheBound)
{
    hak_limit_set((size_t)1 << 40); // so that each refill carves CARVE_BYTES
    for (size_t bound = ORPHAN_USED_BYTES_MAX; size_t used_bytes : {bound - CARVE_BYTES, bound, bound + CARVE_BYTES}) {
        std::vector<void *> blocks;
        size_t given_bytes = 0;
        test::in_thread([&] {
            do blocks.push_back(hak_malloc(1024));
            while ((given_bytes = owner_used_bytes(&tcache_self()->heap->owner)) < used_bytes);
        });
        size_t cached = given_bytes / 1024 - blocks.size();
        EXPECT_GT(cached, 0u) << "the last refill, but for the first block, which was handed out";
        EXPECT_EQ(test::inspected().used_blocks, blocks.size() + (given_bytes <= bound ? cached : 0)) << given_bytes;
        for (void *block : blocks) hak_free(block);
        hak_purge();
    }
    hak_limit_set(SIZE_MAX);
}

// However many live, and whichever of them ends.
TEST_F(Succession, TheNextThreadHasTheHeapOfTheLastThatEnded)
{
    thread_flush_orphans();
    constexpr int THREADS = 24;
    std::array<std::atomic<int>, THREADS> at{};
    std::array<void *, THREADS> cached{};
    std::vector<std::thread> all;
    for (int i = 0; i < THREADS; i++) {
        all.emplace_back([&, i] {
            hak_free(cached[i] = hak_malloc(300));
            at[i] = 1;
            while (at[i] != 2) std::this_thread::yield();
        });
    }
    for (std::atomic<int> &each : at)
        while (each != 1) std::this_thread::yield();
    for (int i = 0; i < THREADS; i++) { // from the first to the last
        at[i] = 2;
        all[i].join();
        test::in_thread([&] {
            void *block = hak_malloc(300);
            EXPECT_EQ(block, cached[i]) << i;
            hak_free(block);
            thread_flush_orphans();
        });
        thread_flush_orphans();
    }
}

// Of many that end, each keeps what it had until two rounds have gone by. One call flushes one.
TEST_F(Succession, OfManyEachIsFlushedByACallOfItsOwn)
{
    thread_flush_orphans();
    constexpr uint32_t THREADS = 48; // all live at once, so each has a heap of its own
    std::atomic<uint32_t> ready{0};
    std::vector<void *> kept;
    std::mutex guard;
    test::in_threads(THREADS, [&](int i) {
        std::vector<void *> blocks;
        for (int n = 0; n < i * 20; n++) blocks.push_back(hak_malloc(4096));
        hak_free(hak_malloc(300));
        ready++;
        while (ready < THREADS) std::this_thread::yield();
        std::lock_guard<std::mutex> guarded(guard);
        kept.insert(kept.end(), blocks.begin(), blocks.end());
    });
    EXPECT_EQ(thread_count_warm(), THREADS);
    thread_tick_whole();
    EXPECT_EQ(thread_count_warm(), THREADS) << "marked";
    for (uint32_t calls = 1; calls <= THREADS; calls++) {
        EXPECT_EQ(thread_tick(calls == 1 || calls == 7), calls < THREADS)
            << "whether another round is said to begin or not";
        EXPECT_EQ(thread_count_warm(), THREADS - calls);
    }
    EXPECT_EQ(test::inspected().used_blocks, kept.size());
    for (void *block : kept) hak_free(block);
}

namespace {

std::vector<void *> take(size_t size, size_t count)
{
    std::vector<void *> blocks;
    for (size_t i = 0; i < count; i++) blocks.push_back(hak_malloc(size));
    return blocks;
}

uint32_t owner_of(const void *block)
{
    return pagemap_tag(block) >> TAG_OWNER_SHIFT;
}

} // namespace

TEST_F(Succession, ASuccessorThatFreesFirstTakesThatHeap)
{
    // There are two orphans, and the blocks belong to the one with the higher id.
    std::vector<void *> blocks;
    test::in_thread([&] {
        hak_free(hak_malloc(10));
        test::in_thread([&] { blocks = take(500, 100); });
    });
    test::in_thread([&] {
        uint32_t predecessor = owner_of(blocks[1]);
        hak_free(blocks[0]);
        void *block = hak_malloc(500);
        EXPECT_EQ(tcache_self()->heap->owner.id, predecessor);
        hak_free(block);
        for (size_t i = 1; i < blocks.size(); i++) hak_free(blocks[i]);
        EXPECT_FALSE(tcache_self()->heap->staging.held_count != 0) << "the blocks were not local";
    });
}

// A thread that already has a heap frees the blocks of a dead thread, and allocates too if `allocates`.
void follow(bool allocates)
{
    std::vector<void *> blocks;
    std::atomic<int> step{0};
    std::thread predecessor([&] {
        blocks = take(500, 4000);
        step = 1;
        while (step < 2) std::this_thread::yield();
    });
    std::thread successor([&] {
        while (step < 1) std::this_thread::yield();
        std::vector<void *> own = take(100, 50);
        uint32_t young = tcache_self()->heap->owner.id, old = owner_of(blocks[0]);
        EXPECT_NE(young, old);
        for (int i = 0; i < 100; i++) hak_free(blocks[(size_t)i]);
        EXPECT_EQ(tcache_self()->heap->owner.id, young) << "the other thread is alive";
        step = 2;
        predecessor.join();
        for (int i = 100; i < 100 + 2 * SUCCESSION_FREES; i++) {
            hak_free(blocks[(size_t)i]);
            if (allocates) own.push_back(hak_malloc(100));
        }
        EXPECT_EQ(tcache_self()->heap->owner.id, allocates ? old : young);
        EXPECT_EQ(owner_of(own[0]), young);
        EXPECT_TRUE(owner_is_orphan(owner_with_id(allocates ? young : old)));
        for (void *block : own) hak_free(block);
        for (size_t i = 100 + 2 * SUCCESSION_FREES; i < blocks.size(); i++) hak_free(blocks[i]);
    });
    successor.join();
}

TEST_F(Succession, ASuccessorThatCameTooEarlyChangesHeaps)
{
    follow(true);
}

TEST_F(Succession, AThreadThatOnlyFreesTakesNobodysHeap)
{
    follow(false);
}

// It is asked again after as many frees, and for what was allocated meanwhile.
TEST_F(Succession, AThreadThatAllocatesLaterChangesHeapsThen)
{
    std::vector<void *> blocks, own;
    std::atomic<int> step{0};
    std::thread predecessor([&] {
        blocks = take(500, 1000);
        step = 1;
        while (step < 2) std::this_thread::yield();
    });
    test::in_thread([&] {
        while (step < 1) std::this_thread::yield();
        own = take(100, 50);
        uint32_t young = tcache_self()->heap->owner.id, old = owner_of(blocks[0]);
        step = 2;
        predecessor.join();
        size_t i = 0;
        while (i <= 2 * SUCCESSION_FREES) hak_free(blocks[i++]);
        EXPECT_EQ(tcache_self()->heap->owner.id, young) << "it has allocated nothing";
        while (i < 3 * SUCCESSION_FREES) {
            hak_free(blocks[i++]);
            own.push_back(hak_malloc(100));
        }
        EXPECT_EQ(tcache_self()->heap->owner.id, young) << "one free too early";
        hak_free(blocks[i++]);
        EXPECT_EQ(tcache_self()->heap->owner.id, old);
        EXPECT_FALSE(remote_is_pending(&tcache_self()->heap->owner)) << "what it had staged for the heap";
        while (i < blocks.size()) hak_free(blocks[i++]);
        for (void *block : own) hak_free(block);
    });
}

TEST_F(Succession, NoMajorityNoSuccession)
{
    // Frees blocks of four dead threads in turn, so that none of them is the predecessor.
    std::vector<std::vector<void *>> blocks(4);
    std::atomic<int> ready{0};
    test::in_threads(4, [&](int which) {
        blocks[(size_t)which] = take(300, 1000);
        ready++;
        while (ready < 4) std::this_thread::yield();
    });
    test::in_thread([&] {
        void *own = hak_malloc(300);
        uint32_t id = tcache_self()->heap->owner.id;
        for (size_t i = 0; i < 1000; i++)
            for (const std::vector<void *> &each : blocks) hak_free(each[i]);
        EXPECT_EQ(tcache_self()->heap->owner.id, id);
        hak_free(own);
    });
}

TEST_F(Succession, AFewFreesAfterManyOfAnothersAreNoMajority)
{
    std::vector<void *> many, few;
    std::atomic<int> ready{0};
    std::atomic<bool> is_over{false};
    auto predecessor = [&](std::vector<void *> *blocks) {
        *blocks = take(300, 1000);
        ready++;
        while (!is_over) std::this_thread::yield();
    };
    std::thread first(predecessor, &many), second(predecessor, &few);
    while (ready < 2) std::this_thread::yield();
    test::in_thread([&] {
        std::vector<void *> own = take(300, 50);
        uint32_t id = tcache_self()->heap->owner.id;
        is_over = true;
        first.join();
        second.join();
        for (size_t i = 0; i < SUCCESSION_FREES - 10; i++) hak_free(many[i]);
        for (size_t i = 0; i < 50; i++) {
            hak_free(few[i]);
            for (int j = 0; j < 10; j++) own.push_back(hak_malloc(300));
        }
        EXPECT_EQ(tcache_self()->heap->owner.id, id);
        for (void *block : own) hak_free(block);
    });
    for (size_t i = SUCCESSION_FREES - 10; i < many.size(); i++) hak_free(many[i]);
    for (size_t i = 50; i < few.size(); i++) hak_free(few[i]);
}

TEST_F(Succession, WhoHasMoreOfItsOwnKeepsItsHeap)
{
    std::vector<void *> theirs;
    std::vector<void *> own = take(1000, 5000);
    test::in_thread([&] { theirs = take(1000, 1000); });
    uint32_t id = tcache_self()->heap->owner.id;
    // A thread that allocates nothing is not asked.
    for (void *block : theirs) hak_free(block), own.push_back(hak_malloc(1000));
    EXPECT_EQ(tcache_self()->heap->owner.id, id);
    for (void *block : own) hak_free(block);
}

// thread_test.cc: how a thread starts and ends, and what it may still do after the key's destructor.
#include "heap/heap_test_support.h"

#include <pthread.h>

extern "C" {
#include "base/sync_point.h"
#include "cache/thread.h"
#include "slab/owner.h"
#include "slab/slab.h"
}

namespace {

class Thread : public test::HeapTest {};

uint32_t my_owner()
{
    tcache *self = tcache_self();
    return self->heap != nullptr ? self->heap->owner.id : 0;
}

// The value of a key: what its destructor does, and for how many rounds.
struct Late {
    pthread_key_t key;
    int rounds;
    void (*act)(Late *);
    void *block;
    int runs;
};

void late_destructor(void *value)
{
    auto *late = static_cast<Late *>(value);
    late->runs++;
    late->act(late);
    if (--late->rounds > 0) pthread_setspecific(late->key, late);
}

} // namespace

TEST_F(Thread, TheNextThreadAdoptsTheHeap)
{
    hak_free(hak_malloc(1));
    uint32_t first = 0, second = 0;
    test::in_thread([&] {
        EXPECT_EQ(my_owner(), 0u) << "a thread starts at its first call";
        hak_free(hak_malloc(1));
        first = my_owner();
    });
    EXPECT_NE(first, 0u);
    EXPECT_NE(first, my_owner());
    EXPECT_TRUE(owner_is_orphan(owner_with_id(first)));
    EXPECT_EQ(((struct heap *)owner_with_id(first))->tcache.load(), nullptr);
    hak_purge(); // the orphan keeps nothing, not even an empty slab
    EXPECT_FALSE(owner_with_id(first)->keeps_empty);
    test::in_thread([&] {
        hak_free(hak_malloc(1));
        second = my_owner();
        EXPECT_TRUE(tcache_self()->heap->owner.keeps_empty);
    });
    EXPECT_EQ(second, first);
}

// A dead thread's empty bins are no reason to keep the slab that others empty later.
TEST_F(Thread, WhereNothingWasCachedTheTickGivesEmptySlabsBack)
{
    void *block = nullptr;
    test::in_thread([&] {
        block = hak_malloc(CARVE_BYTES); // a refill carves just one
        EXPECT_EQ(tcache_self()->heads[sizeclass_of(CARVE_BYTES)], nullptr);
    });
    test::in_thread([&] { hak_free(block); });
    EXPECT_EQ(test::inspected().empty_slab_count, 1u);
    thread_tick_whole();
    thread_tick_whole();
    EXPECT_EQ(test::inspected().empty_slab_count, 0u);
}

TEST_F(Thread, ASuccessorFindsThePredecessorsBlocksLocal)
{
    void *block = nullptr;
    test::in_thread([&] { block = hak_malloc(100); });
    test::in_thread([&] {
        void *own = hak_malloc(100);
        hak_free(block);
        EXPECT_EQ((void *)tcache_self()->heads[sizeclass_of(100)], block);
        hak_free(own);
    });
}

TEST_F(Thread, AFreeIsAThreadsOnlyCall)
{
    for (size_t size : test::all_kinds_of_sizes()) {
        void *block = hak_malloc(size);
        test::in_thread([&] { hak_free(block); });
    }
    test::in_thread([] {
        hak_free(nullptr);
        EXPECT_EQ(my_owner(), 0u) << "free(NULL) starts nothing";
    });
}

TEST_F(Thread, AHugeMallocIsAThreadsOnlyCall)
{
    for (size_t size : {(size_t)PAGE_BYTES, (size_t)SUPERSLAB_BYTES * 2}) {
        void *block = nullptr;
        test::in_thread([&] { block = hak_malloc(size); });
        ASSERT_NE(block, nullptr);
        memset(block, 1, size);
        hak_free(block);
    }
}

TEST_F(Thread, OtherCallsAreAThreadsFirst)
{
    void *block = hak_malloc(100);
    test::in_thread([&] { EXPECT_EQ(hak_malloc_usable_size(block), 112u); });
    test::in_thread([&] { block = hak_realloc(block, 5000); });
    test::in_thread([&] { hak_purge(); });
    test::in_thread([&] { hak_free(hak_calloc(3, 5)); });
    test::in_thread([&] { hak_free(hak_aligned_alloc(4096, 1)); });
    test::in_thread([&] { hak_free(block); });
}

TEST_F(Thread, HeapsAreAsManyAsThreadsAtOnce)
{
    uint32_t before = owner_count();
    for (int i = 0; i < test::rounds(2000); i++)
        test::in_thread([i] {
            void *block = hak_malloc((size_t)i % 3000);
            hak_free(block);
        });
    EXPECT_LE(owner_count(), before + 1);
    constexpr int AT_ONCE = 8;
    for (int round = 0; round < 20; round++) {
        std::atomic<int> ready = 0;
        test::in_threads(AT_ONCE, [&](int) {
            void *block = hak_malloc(10);
            ready++;
            while (ready < AT_ONCE) std::this_thread::yield();
            hak_free(block);
        });
    }
    EXPECT_LE(owner_count(), before + AT_ONCE);
}

TEST_F(Thread, ThreadLocalObjectsAllocateAndFree)
{
    struct Holder {
        void *block = hak_malloc(40);
        ~Holder()
        {
            hak_free(block);
            void *large = hak_malloc(100000);
            block = hak_malloc(70);
            hak_free(large);
            hak_free(block);
        }
    };
    for (int i = 0; i < 50; i++)
        test::in_thread([] {
            thread_local Holder holder;
            memset(holder.block, 1, 40);
        });
}

TEST_F(Thread, DestructorsThatRunAfterOurs)
{
    hak_free(hak_malloc(1)); // makes the allocator's key, so that the keys below come after it
    static pthread_key_t key;
    ASSERT_EQ(pthread_key_create(&key, late_destructor), 0);
    static const std::vector<void (*)(Late *)> acts = {
        [](Late *late) { // free what the thread made when it was alive
            hak_free(late->block);
            late->block = nullptr;
        },
        [](Late *late) { // everything, several times
            hak_free(late->block);
            for (size_t size : test::all_kinds_of_sizes()) {
                void *block = hak_malloc(size);
                EXPECT_NE(block, nullptr);
                test::pattern_fill(block, size, size, 64);
                block = hak_realloc(block, size / 2 + 100);
                EXPECT_TRUE(test::pattern_holds(block, size / 2 + 1, size, 64) || size < 128);
                hak_free(block);
            }
            void *many[300];
            for (void *&block : many) block = hak_malloc(48);
            for (void *block : many) hak_free(block);
            // The allocator's destructor has run, so the thread only borrows a heap. A thread that had none, because it
            // only allocated a run, starts here, and its destructor runs later.
            EXPECT_NE(tcache_self()->state, THREAD_NEW);
            if (tcache_self()->state == THREAD_ENDED) EXPECT_EQ(tcache_self()->heap, nullptr);
            late->block = hak_calloc(1, 1000);
            if (late->rounds == 1) {
                hak_free(late->block);
                late->block = nullptr;
            }
        },
        [](Late *late) { // only the last round frees
            if (late->rounds > 1) return;
            hak_free(late->block);
            late->block = nullptr;
        },
    };
    uint32_t before = owner_count();
    for (auto act : acts)
        for (int rounds = 1; rounds <= 3; rounds++)
            for (size_t size : {40u, 3000u, 100000u, 5000000u}) {
                Late late = {key, rounds, act, nullptr, 0};
                test::in_thread([&] {
                    late.block = hak_malloc(size);
                    pthread_setspecific(key, &late);
                });
                EXPECT_EQ(late.runs, rounds);
                if (late.block != nullptr) hak_free(late.block);
            }
    EXPECT_LE(owner_count(), before + 1);
    pthread_key_delete(key);
}

TEST_F(Thread, FirstUseIsInADestructor)
{
    hak_free(hak_malloc(1));
    static pthread_key_t key;
    ASSERT_EQ(pthread_key_create(&key, late_destructor), 0);
    uint32_t before = owner_count();
    // For a thread that starts in the round before the last, the destructor runs in the last round, which is too late
    // for ThreadSanitizer.
    const int rounds = PTHREAD_DESTRUCTOR_ITERATIONS - (test::under_thread_sanitizer() ? 2 : 1);
    for (int round = 1; round <= rounds; round++)
        for (int i = 0; i < 5; i++) {
            Late late = {key, round,
                         [](Late *l) {
                             if (l->rounds == 1) l->block = hak_malloc(77);
                         },
                         nullptr, 0};
            test::in_thread([&] { pthread_setspecific(key, &late); });
            ASSERT_NE(late.block, nullptr);
            memset(late.block, 1, 77);
            hak_free(late.block);
        }
    EXPECT_LE(owner_count(), before + 1);
    pthread_key_delete(key);
}

TEST_F(Thread, FirstUseIsInTheLastRoundOfDestructors)
{
    if (test::under_thread_sanitizer())
        GTEST_SKIP() << "ThreadSanitizer leaves a thread at the begin of its last round";
    // No destructor will run for such a thread any more; its heap must not be lost.
    hak_free(hak_malloc(1));
    static pthread_key_t key;
    ASSERT_EQ(pthread_key_create(&key, late_destructor), 0);
    uint32_t before = owner_count();
    for (int i = 0; i < 5; i++) {
        void *block = hak_malloc(77);
        Late late = {key, PTHREAD_DESTRUCTOR_ITERATIONS,
                     [](Late *l) {
                         if (l->rounds > 1) return;
                         hak_free(l->block);
                         l->block = nullptr;
                     },
                     block, 0};
        test::in_thread([&] { pthread_setspecific(key, &late); });
        EXPECT_EQ(late.block, nullptr);
    }
    EXPECT_LE(owner_count(), before + 1) << "a heap was lost with each thread";
    pthread_key_delete(key);
}

TEST_F(Thread, BlocksWanderThroughThreads)
{
    // Each of four threads frees its neighbour's blocks, while all allocate more.
    constexpr int COUNT = 4, SLOTS = 256;
    static std::atomic<void *> slots[SLOTS];
    static std::atomic<int> wrong;
    wrong = 0;
    test::in_threads(COUNT, [](int thread) {
        test::Rng rng((uint64_t)thread);
        for (int i = 0; i < test::rounds(50000); i++) {
            size_t size = rng.below(rng.below(64) == 0 ? 200000 : 2000) + sizeof(size_t);
            auto *block = static_cast<size_t *>(hak_malloc(size));
            *block = size;
            auto *last = reinterpret_cast<unsigned char *>(block) + size - 1;
            if (size > sizeof(size_t)) *last = (unsigned char)size;
            auto *old = static_cast<size_t *>(slots[rng.below(SLOTS)].exchange(block));
            if (old == nullptr) continue;
            size_t old_size = *old;
            auto *old_last = reinterpret_cast<unsigned char *>(old) + old_size - 1;
            if (old_size > sizeof(size_t) && *old_last != (unsigned char)old_size) wrong++;
            if (hak_malloc_usable_size(old) < old_size) wrong++;
            hak_free(old);
        }
    });
    EXPECT_EQ(wrong, 0);
    for (auto &slot : slots) hak_free(slot.exchange(nullptr));
}

TEST_F(Thread, PurgeReachesTheHeapsOfTheDead)
{
    std::vector<void *> blocks;
    test::in_thread([&] {
        for (int i = 0; i < 5000; i++) blocks.push_back(hak_malloc(200));
    });
    for (void *block : blocks) hak_free(block);
    hak_purge();
    hak_stats stats;
    hak_stats_get(&stats);
    EXPECT_EQ(stats.slab_bytes, 0u);
    EXPECT_EQ(stats.dirty_bytes, 0u);
    EXPECT_EQ(thread_flush_orphans(), owner_orphan_count());
}

// Blocks that are freed for an orphan while a thread looks at it, and leaves it, are drained, and it is an orphan again.
TEST_F(Thread, AnOrphanThatIsNotTakenIsDrained)
{
    SKIP_WITHOUT_VALIDATE();
    std::vector<void *> own, theirs;
    for (int i = 0; i < 500; i++) own.push_back(hak_malloc(1000));
    test::in_thread([&] {
        for (int i = 0; i < 100; i++) theirs.push_back(hak_malloc(1000));
    });
    owner *orphan = slab_of(theirs[0])->owner;
    ASSERT_TRUE(owner_is_orphan(orphan));
    static void *late;
    late = theirs.back();
    theirs.pop_back();
    hak_sync_point_hook = [](const char *step) {
        if (late == nullptr || strcmp(step, "owner_abandon") != 0) return;
        test::in_thread([block = std::exchange(late, nullptr)] { hak_free(block); });
    };
    thread_succeed(tcache_self(), orphan);
    hak_sync_point_hook = nullptr;
    EXPECT_EQ(late, nullptr) << "the step was not met";
    EXPECT_NE(my_owner(), orphan->id);
    EXPECT_TRUE(owner_is_orphan(orphan)) << "nobody can take it any more";
    EXPECT_FALSE(remote_is_pending(orphan));
    for (void *block : own) hak_free(block);
    for (void *block : theirs) hak_free(block);
}

// A thread that has ended takes one block at a time. The rest of a list stays parked in the heap that it borrows, however much
// is in use there, so that the next call need not carve or flush.
TEST_F(Thread, OneThatHasEndedBorrowsOneBlockAtATime)
{
    test::in_thread([] {
        std::vector<void *> blocks;
        for (size_t bytes = 0; bytes < 8 * test::MIB; bytes += 1000) blocks.push_back(hak_malloc(1000));
        thread_end(nullptr);
        std::vector<void *> late{hak_malloc(64)};
        owner *lender = slab_of(late[0])->owner;
        const uint32_t parked = ((heap *)lender)->parked;
        for (int i = 0; i < 30; i++) late.push_back(hak_malloc(64));
        for (void *block : late) EXPECT_EQ(slab_of(block)->owner, lender);
        EXPECT_TRUE(parked > 0 && ((heap *)lender)->parked == parked) << "the list that was there";
        for (void *block : late) hak_free(block);
        for (void *block : blocks) hak_free(block);
    });
}

// What a thread had in use earlier does not count: with less at its end, what it has cached waits for the next thread.
TEST_F(Thread, ThePeakOfTheDeadDoesNotCount)
{
    std::vector<void *> blocks;
    test::in_thread([&] {
        for (size_t bytes = 0; bytes <= ORPHAN_USED_BYTES_MAX; bytes += 16384) blocks.push_back(hak_malloc(16384));
        const owner &own = tcache_self()->heap->owner;
        EXPECT_GT(owner_used_bytes(&own), (size_t)ORPHAN_USED_BYTES_MAX);
        for (size_t i = 0; i < blocks.size() / 2; i++) hak_free(std::exchange(blocks[i], nullptr));
        EXPECT_LE(owner_used_bytes(&own), (size_t)ORPHAN_USED_BYTES_MAX);
        EXPECT_FALSE(owner_has_shrunk(&own));
    });
    EXPECT_TRUE(thread_any_warm());
    for (void *block : blocks) hak_free(block);
}

// A purge resets the credits of every orphan.
TEST_F(Thread, PurgeResetsTheCreditsOfTheDead)
{
    const uint32_t c = sizeclass_of(512);
    heap *grown = nullptr;
    test::in_thread([&] {
        for (int round = 0; round < 10; round++) {
            std::vector<void *> blocks;
            for (uint32_t i = 0; i < 2 * sizeclass_credit_grown(c); i++) blocks.push_back(hak_malloc(512));
            for (void *block : blocks) hak_free(block);
        }
        grown = tcache_self()->heap;
    });
    EXPECT_GT(parking_credit(&grown->parking[c]), sizeclass_credit(c));
    hak_purge();
    EXPECT_EQ(parking_credit(&grown->parking[c]), sizeclass_credit(c));
}

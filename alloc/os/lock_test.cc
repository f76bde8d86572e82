// lock_test.cc: mutual exclusion, waiting, ranks, fork.
#include "base/test_support.h"

#include <chrono>

extern "C" {
#include "base/policy.h"
#include "os/lock.h"
}

namespace {

void pause_ms(int ms)
{
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

} // namespace

TEST(Lock, ExcludesEachOther)
{
    for (int rank = 0; rank < LOCK_COUNT; rank++) {
        static uint64_t plain;
        plain = 0;
        const int turns = test::rounds(20000);
        test::in_threads(4, [&](int) {
            for (int i = 0; i < turns; i++) {
                lock_acquire((lock_rank)rank);
                plain = plain + 1;
                lock_release((lock_rank)rank);
            }
        });
        EXPECT_EQ(plain, 4u * (unsigned)turns);
    }
}

TEST(Lock, WaitsAndIsWoken)
{
    static std::atomic<int> inside;
    inside = 0;
    lock_acquire(LOCK_POOL);
    std::vector<std::thread> waiters;
    for (int i = 0; i < 3; i++)
        waiters.emplace_back([] {
            lock_acquire(LOCK_POOL);
            inside++;
            pause_ms(2); // the others sleep on
            lock_release(LOCK_POOL);
        });
    pause_ms(20);
    EXPECT_EQ(inside, 0);
    lock_release(LOCK_POOL);
    for (std::thread &waiter : waiters) waiter.join();
    EXPECT_EQ(inside, 3);
}

TEST(Lock, LocksAreApart)
{
    lock_acquire(LOCK_HEAPS);
    test::in_thread([] {
        lock_acquire(LOCK_POOL);
        lock_release(LOCK_POOL);
    });
    lock_release(LOCK_HEAPS);
}

TEST(Lock, RisingOrderIsAllowed)
{
    for (int rank = 0; rank < LOCK_COUNT; rank++) lock_acquire((lock_rank)rank);
    for (int rank = 0; rank < LOCK_COUNT; rank++) lock_release((lock_rank)rank);
}

TEST(Lock, KeepsErrno)
{
    errno = 4711;
    lock_acquire(LOCK_META);
    std::thread waiter([] {
        errno = 4712;
        lock_acquire(LOCK_META);
        lock_release(LOCK_META);
        EXPECT_EQ(errno, 4712);
    });
    pause_ms(5);
    errno = 4711;
    lock_release(LOCK_META);
    EXPECT_EQ(errno, 4711);
    waiter.join();
}

TEST(Lock, FallingOrderDies)
{
    SKIP_WITHOUT_VALIDATE();
    EXPECT_DEATH(
        {
            lock_acquire(LOCK_POOL);
            lock_acquire(LOCK_HUGE);
        },
        "hakmem: failfast: lock_rank: a lock was taken out of order");
}

TEST(Lock, TakingOneTwiceDies)
{
    SKIP_WITHOUT_VALIDATE();
    EXPECT_DEATH(
        {
            lock_acquire(LOCK_META);
            lock_acquire(LOCK_META);
        },
        "hakmem: failfast: lock_rank");
}

TEST(Lock, ReleasingOneThatIsNotHeldDies)
{
    SKIP_WITHOUT_VALIDATE();
    static lock_word word;
    lock_acquire(LOCK_POOL);
    EXPECT_DEATH(lock_release(LOCK_META), "hakmem: failfast: lock_rank: a lock was released that is not held");
    lock_release(LOCK_POOL);
    EXPECT_DEATH(lock_release(LOCK_POOL), "hakmem: failfast: lock_rank");
    EXPECT_DEATH(lock_word_release(&word, LOCK_POOL), "hakmem: failfast: lock_rank");
}

TEST(Lock, WaitsForThoseOfAHigherRank)
{
    EXPECT_TRUE(lock_above_were_free(LOCK_DUMP, 0));
    for (int rank = 0; rank < LOCK_COUNT; rank++) {
        lock_acquire((lock_rank)rank);
        EXPECT_EQ(lock_above_were_free(LOCK_DUMP, 2), rank <= LOCK_DUMP) << rank;
        bool were_free = rank <= LOCK_DUMP;
        std::thread waiter([&] { were_free = lock_above_were_free(LOCK_DUMP, 60000); });
        pause_ms(5);
        lock_release((lock_rank)rank);
        waiter.join();
        EXPECT_TRUE(were_free) << rank;
    }
}

TEST(Lock, TheChildIsToldOnceOfALockThatAnotherThreadHeld)
{
    for (int waiters : {0, 1}) {
        std::atomic<int> stage = 0;
        std::thread holder([&] {
            lock_acquire(LOCK_POOL);
            stage = 1;
            while (stage < 2) pause_ms(1);
            lock_release(LOCK_POOL);
        });
        while (stage < 1) pause_ms(1);
        std::vector<std::thread> waiting;
        for (int i = 0; i < waiters; i++)
            waiting.emplace_back([] {
                lock_acquire(LOCK_POOL);
                lock_release(LOCK_POOL);
            });
        pause_ms(20 * waiters); // they sleep by now, most likely
        EXPECT_TRUE(test::in_child([] {
            lock_all_reset(); // in a program that allocates the heap's atfork handler has done so already
            for (int rank = 0; rank < LOCK_COUNT; rank++) {
                bool torn = lock_acquire((lock_rank)rank);
                EXPECT_EQ(torn, rank == LOCK_POOL) << rank;
                lock_release((lock_rank)rank);
            }
            EXPECT_FALSE(lock_acquire(LOCK_POOL)) << "told twice";
            lock_release(LOCK_POOL);
        }));
        stage = 2;
        holder.join();
        for (std::thread &each : waiting) each.join();
        EXPECT_FALSE(lock_acquire(LOCK_POOL)) << "the parent has nothing to mend";
        lock_release(LOCK_POOL);
    }
}

TEST(Lock, TheChildFindsALockInAnObjectThatWasHeld)
{
    for (bool is_waited_for : {false, true}) {
        lock_word word = {};
        lock_word_acquire(&word, LOCK_OWN);
        const uint32_t held = word.state;
        std::thread waiter;
        if (is_waited_for) {
            waiter = std::thread([&] {
                lock_word_acquire(&word, LOCK_OWN);
                lock_word_release(&word, LOCK_OWN);
            });
            while (word.state == held) pause_ms(1);
        }
        lock_word of_child = {};
        of_child.state = word.state.load();
        EXPECT_TRUE(lock_word_reset(&of_child)) << is_waited_for;
        EXPECT_FALSE(lock_word_reset(&of_child)) << "it is free now";
        lock_word_release(&word, LOCK_OWN);
        if (is_waited_for) waiter.join();
        EXPECT_FALSE(lock_word_reset(&word));
    }
}

// quarantine_test.cc: freed blocks wait, how many, in whose ring, and what a write to one is reported as.
#include "debug/frame_test_support.h"

#include <algorithm>
#include <set>

extern "C" {
#include "cache/thread.h"
#include "debug/describe.h"
#include "debug/trace.h"
#include "heap/heap.h"
#include "os/meta.h"
#include "os/os_fault.h"
#include "report/failfast.h"
#include "report/settings.h"
#include "slab/validate.h"
}

namespace test::frames {

class Quarantine : public FrameTest {};

// The block, and what lies around it, are as they were before, so that a later look finds nothing.
TEST_F(Quarantine, AWriteAfterFreeIsReportedOnce)
{
    SKIP_UNDER_SANITIZER("it reports the write itself");
    const int level = failfast_level_read, goes_on = failfast_goes_on_read;
    failfast_level_read = LEVEL_TRACES;
    failfast_goes_on_read = 1;
    for (long offset : {0, 50, 99, -1, 100}) {
        char *block = take(100);
        release(block);
        block[offset] ^= 1;
        for (bool again : {false, true}) {
            testing::internal::CaptureStderr();
            quarantine_sweep();
            std::string said = testing::internal::GetCapturedStderr();
            EXPECT_EQ(said.find("write_after_free") != said.npos, !again) << said;
        }
        testing::internal::CaptureStderr();
        quarantine_empty();
        EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    }
    failfast_level_read = level;
    failfast_goes_on_read = goes_on;
}

TEST_F(Quarantine, TheQuarantineIsBoundedAndOutlivesItsThread)
{
    for (size_t size : {1u, 1000u, 20000u}) {
        char *first = take(size);
        size_t waits = 0, bytes = heap_lookup(first).bytes;
        release(first);
        while (heap_lookup(first).live && waits < 5000) {
            release(take(size));
            waits++;
        }
        EXPECT_LE(waits, (size_t)QUARANTINE_BLOCKS_MAX);
        EXPECT_LE(waits * bytes, (size_t)QUARANTINE_BYTES_MAX);
        EXPECT_GE(waits, 1u);
        const size_t by_bytes = std::max<size_t>(QUARANTINE_BYTES_MIN / bytes, 1);
        EXPECT_GE(waits + 1, std::min<size_t>(QUARANTINE_BYTES_MIN / QUARANTINE_MEAN_BYTES, by_bytes));
        quarantine_empty();
    }
    char *block = take(100);
    test::in_thread([&] {
        release(take(10)); // the thread takes a heap
        release(block);
        EXPECT_TRUE(quarantine_holds(heap_lookup(block).start));
    });
    EXPECT_TRUE(quarantine_holds(heap_lookup(block).start));
    EXPECT_TRUE(quarantine_empty());
    EXPECT_FALSE(quarantine_holds(heap_lookup(block).start));
}

// What a thread leaves is bounded as for one that has freed little, and is looked at.
TEST_F(Quarantine, AThreadThatEndsLeavesLittle)
{
    SKIP_UNDER_SANITIZER("it reports the write itself");
    failfast_goes_on_read = 1;
    std::set<const char *> starts;
    const size_t size = 10000;
    testing::internal::CaptureStderr();
    std::vector<char *> live;
    test::in_thread([&] {
        std::vector<char *> freed;
        for (int i = 0; i < 2000; i++) live.push_back(take(size)), freed.push_back(take(size));
        for (char *block : freed) {
            const char *start = heap_lookup(block).start;
            release(block);
            starts.insert(start);
        }
        const auto wait = std::count_if(starts.begin(), starts.end(), quarantine_holds);
        EXPECT_GT(wait * size, (size_t)QUARANTINE_BYTES_MIN) << "more than an ended thread may leave";
        char *last = take(size);
        starts.insert(heap_lookup(last).start);
        release(last);
        last[9] ^= 1;
    });
    const std::string said = testing::internal::GetCapturedStderr();
    const auto left = std::count_if(starts.begin(), starts.end(), quarantine_holds);
    EXPECT_GT(left, 0);
    EXPECT_LE(left * size, (size_t)QUARANTINE_BYTES_MIN);
    EXPECT_NE(said.find("offset 9 of"), said.npos) << "the end of the thread did not look at what it leaves: " << said;
    for (char *block : live) release(block);
    failfast_goes_on_read = 0;
}

// A thread that ends leaves its ring to a later one, also the first ring of all.
class QuarantineRings : public FrameTest {}; // in a process of its own, which has no ring yet

TEST_F(QuarantineRings, ALaterThreadTakesTheRingOfOneThatEnded)
{
    const auto waits = [] {
        char *block = take(10);
        const char *start = heap_lookup(block).start;
        release(block);
        return quarantine_holds(start);
    };
    test::in_thread([&] { EXPECT_TRUE(waits()); });
    quarantine_empty(); // takes that ring, and gives it up
    os_fault_install(1, true);
    while (meta_alloc(64) != nullptr) {} // for another ring
    test::in_thread([&] { EXPECT_TRUE(waits()) << "it finds no ring"; });
    os_fault_remove();
}

// A thread whose first free comes in its last destructors ends without a word to the quarantine.
TEST_F(QuarantineRings, ALaterThreadTakesTheRingOfOneThatIsGone)
{
    const char *start = nullptr;
    test::in_thread([&] {
        char *block = take(10);
        start = heap_lookup(block).start;
        release(block);
        tcache_self()->state = THREAD_ENDED; // so that the key's destructor does nothing
        thread_abandon_heap(tcache_self());
    });
    EXPECT_TRUE(quarantine_holds(start)) << "nobody took the block out";
    test::in_thread([] {
        errno = 77;
        release(take(10));
        EXPECT_EQ(errno, 77);
    });
    quarantine_empty();
    EXPECT_FALSE(quarantine_holds(start)) << "the ring was not taken";
}

// As many blocks wait as the limits on their number and on their bytes allow, and not one more: the oldest leaves. A
// thread that has freed little has the smallest limits.
TEST_F(Quarantine, TheOneBlockTooManyDrivesTheOldestOut)
{
    for (size_t size : {10u, 1000u}) {
        test::in_thread([&] {
            char *probe = take(size);
            const size_t bytes = heap_lookup(probe).bytes;
            heap_free(heap_lookup(probe).start);
            const size_t most =
                std::min<size_t>(QUARANTINE_BYTES_MIN / QUARANTINE_MEAN_BYTES, QUARANTINE_BYTES_MIN / bytes);
            std::vector<char *> blocks, starts;
            for (size_t i = 0; i <= most; i++) {
                blocks.push_back(take(size));
                starts.push_back(heap_lookup(blocks[i]).start);
            }
            for (size_t i = 0; i < most; i++) release(blocks[i]);
            for (size_t i = 0; i < most; i++) ASSERT_TRUE(quarantine_holds(starts[i])) << i << " of " << most;
            release(blocks[most]);
            EXPECT_FALSE(quarantine_holds(starts[0]));
            for (size_t i = 1; i <= most; i++) ASSERT_TRUE(quarantine_holds(starts[i])) << i << " of " << most;
            EXPECT_TRUE(quarantine_empty());
            EXPECT_FALSE(quarantine_empty()) << "it is empty already";
        });
    }
}

TEST_F(Quarantine, ABlockLargerThanTheLimitDoesNotWait)
{
    std::set<bool> seen;
    for (size_t size : {20000u, 32u << 10, 60u << 10, 64u << 10, 120u << 10, 3u << 20}) {
        char *block = take(size);
        const lookup place = heap_lookup(block);
        release(block);
        EXPECT_EQ(quarantine_holds(place.start), place.bytes <= QUARANTINE_BLOCK_BYTES_MAX) << place.bytes;
        if (place.bytes == QUARANTINE_BLOCK_BYTES_MAX) seen.insert(true);
        if (place.bytes == (size_t)QUARANTINE_BLOCK_BYTES_MAX + (size_t)PAGE_BYTES) seen.insert(false);
        quarantine_empty();
    }
    EXPECT_EQ(seen.size(), 2u) << "no block of exactly the limit, or of one page more";
}

// How many bytes wait in the calling thread's quarantine: those put before the first one leaves.
size_t bytes_that_wait()
{
    char *first = take(1000);
    size_t bytes = heap_lookup(first).bytes, waits = 0;
    for (release(first); heap_lookup(first).live && waits < 5000; waits++) release(take(1000));
    return waits * bytes;
}

TEST_F(Quarantine, AsMuchWaitsAsAThreadHasBothFreedAndInUse)
{
    const size_t little = 4 * QUARANTINE_BYTES_MIN, much = QUARANTINE_BYTES_MAX / 2;
    test::in_thread([&] {
        for (int i = 0; i < 4000; i++) release(take(1000));
        EXPECT_LE(bytes_that_wait(), little) << "freed much, has little in use";
    });
    test::in_thread([&] {
        std::vector<char *> in_use;
        for (int i = 0; i < 4000; i++) in_use.push_back(take(1000));
        EXPECT_LE(bytes_that_wait(), little) << "freed little, has much in use";
        for (int i = 0; i < 4000; i++) release(take(1000));
        EXPECT_GE(bytes_that_wait(), much);
        for (char *block : in_use) release(block);
    });
}

TEST_F(Quarantine, AShareBelowTheLeastIsTheLeast)
{
    for (size_t count : {30u, 60u}) {
        test::in_thread([&] {
            std::vector<char *> in_use;
            for (size_t i = 0; i < count; i++) in_use.push_back(take(1000));
            for (int i = 0; i < 1000; i++) release(take(1000));
            const size_t bytes = heap_lookup(in_use[0]).bytes;
            // For its heap what waits is in use too, so a quarter of that is a third of what the program has.
            const size_t share = count * bytes / 3;
            EXPECT_EQ(share < QUARANTINE_BYTES_MIN, count == 30) << share;
            EXPECT_GT(share, QUARANTINE_BYTES_MIN / 2);
            EXPECT_NEAR((double)bytes_that_wait(), (double)std::max<size_t>(share, QUARANTINE_BYTES_MIN),
                        2.0 * (double)bytes);
            for (char *block : in_use) release(block);
        });
    }
}

TEST_F(Quarantine, AChildGetsBackWhatWaitedInThreadsThatItHasNot)
{
    std::atomic<int> ready{0};
    std::atomic<bool> is_over{false};
    char *blocks[] = {take(100), take(100)};
    std::vector<std::thread> others;
    for (char *block : blocks)
        others.emplace_back([&, block] {
            release(take(10));
            release(block);
            ready++;
            while (!is_over) std::this_thread::yield();
        });
    while (ready != 2) std::this_thread::yield();
    std::vector<const char *> starts;
    for (char *block : blocks) starts.push_back(heap_lookup(block).start);
    for (const char *start : starts) EXPECT_TRUE(quarantine_holds(start));
    EXPECT_TRUE(test::in_child([&] {
        EXPECT_TRUE(quarantine_empty());
        for (const char *start : starts) EXPECT_FALSE(quarantine_holds(start));
    }));
    is_over = true;
    for (std::thread &other : others) other.join();
}

// The ring of the thread that forked is taken in the child too, whose thread has another id there.
TEST_F(Quarantine, AChildKeepsItsRingFromItsOtherThreads)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    char *block = take(100);
    release(block);
    const char *start = heap_lookup(block).start;
    EXPECT_TRUE(test::in_child([&] {
        constexpr int COUNT = 8; // more than there are rings of earlier threads
        std::atomic<int> ready{0};
        std::vector<const char *> starts(COUNT);
        std::vector<std::thread> others;
        for (int i = 0; i < COUNT; i++)
            others.emplace_back([&, i] {
                char *theirs = take(10);
                starts[i] = heap_lookup(theirs).start;
                release(theirs);
                ready++;
                while (ready != COUNT + 1) std::this_thread::yield();
            });
        while (ready != COUNT) std::this_thread::yield();
        EXPECT_TRUE(quarantine_holds(start)) << "another thread has emptied the ring";
        quarantine_empty(); // this thread's; those of live threads are theirs
        EXPECT_FALSE(quarantine_holds(start));
        for (const char *theirs : starts) EXPECT_TRUE(quarantine_holds(theirs)) << "two threads have one ring";
        ready++;
        for (std::thread &other : others) other.join();
    }));
    EXPECT_TRUE(quarantine_holds(start));
}

} // namespace test::frames

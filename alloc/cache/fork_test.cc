// fork_test.cc: fork of a threaded program: the child has only the forking thread.
#include "heap/heap_test_support.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <chrono>

extern "C" {
#include "cache/thread.h"
#include "os/os.h"
#include "slab/owner.h"
#include "slab/remote.h"
}

namespace {

class Fork : public test::HeapTest {};

void use_everything()
{
    test::use_all_kinds_of_sizes(3);
}

// Threads that fill their caches and then wait.
class Waiters {
  public:
    explicit Waiters(int count, std::vector<void *> *blocks = nullptr)
    {
        for (int i = 0; i < count; i++)
            threads_.emplace_back([this, blocks, i] {
                std::vector<void *> mine;
                for (size_t size : test::all_kinds_of_sizes())
                    for (int n = 0; n < 4; n++) mine.push_back(hak_malloc(size));
                for (size_t n = 0; n < mine.size(); n++)
                    if (blocks == nullptr || n % 2 == 0) hak_free(mine[n]);
                    else if (i == 0) blocks->push_back(mine[n]);
                    else hak_free(mine[n]);
                ready_++;
                while (!done_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            });
        while (ready_ < count) std::this_thread::yield();
    }
    ~Waiters()
    {
        done_ = true;
        for (std::thread &thread : threads_) thread.join();
    }

  private:
    std::atomic<int> ready_ = 0;
    std::atomic<bool> done_ = false;
    std::vector<std::thread> threads_;
};

} // namespace

TEST_F(Fork, ChildOfOneThread)
{
    void *block = hak_malloc(100);
    memset(block, 7, 100);
    EXPECT_TRUE(test::in_child([&] {
        EXPECT_EQ(static_cast<char *>(block)[99], 7);
        hak_free(block);
        use_everything();
        test::expect_at_rest();
    }));
    EXPECT_EQ(static_cast<char *>(block)[99], 7);
    hak_free(block);
}

TEST_F(Fork, ChildFreesBlocksOfThreadsThatDoNotExist)
{
    std::vector<void *> blocks;
    Waiters waiters(3, &blocks);
    ASSERT_GT(blocks.size(), 100u);
    uint32_t orphans = owner_orphan_count();
    EXPECT_TRUE(test::in_child([&] {
        // All three were at rest, so their heaps are orphans now.
        EXPECT_EQ(owner_orphan_count(), orphans + 3);
        use_everything();
        for (void *block : blocks) hak_free(block);
        use_everything();
        test::expect_at_rest();
    }));
    for (void *block : blocks) hak_free(block);
}

TEST_F(Fork, ChildStartsThreadsThatAdopt)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    Waiters waiters(3);
    EXPECT_TRUE(test::in_child([] {
        uint32_t before = owner_count();
        for (int i = 0; i < 5; i++) test::in_thread(use_everything);
        test::in_threads(3, [](int) { use_everything(); });
        EXPECT_EQ(owner_count(), before) << "the dead threads' heaps were not used";
        test::expect_at_rest();
    }));
}

TEST_F(Fork, Grandchild)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    void *block = hak_malloc(3000);
    Waiters waiters(2);
    EXPECT_TRUE(test::in_child([&] {
        void *second = hak_malloc(200);
        Waiters more(2);
        EXPECT_TRUE(test::in_child([&] {
            hak_free(block);
            hak_free(second);
            use_everything();
            test::in_thread(use_everything);
            test::expect_at_rest();
        }));
        hak_free(second);
        hak_free(block);
    }));
    hak_free(block);
}

TEST_F(Fork, FromAThreadThatIsNotTheFirst)
{
    void *block = hak_malloc(100);
    test::in_thread([&] {
        hak_free(hak_malloc(5));
        EXPECT_TRUE(test::in_child([&] {
            hak_free(block);
            use_everything();
            test::expect_at_rest();
        }));
    });
    test::in_thread([&] { // a thread without a heap
        EXPECT_TRUE(test::in_child([&] {
            hak_free(block);
            use_everything();
            test::expect_at_rest();
        }));
    });
    hak_free(block);
}

TEST_F(Fork, InTheMidstOfOthersWork)
{
    static std::atomic<bool> done;
    static std::atomic<uint64_t> turns;
    done = false;
    turns = 0;
    std::vector<std::thread> busy;
    for (int thread = 0; thread < 3; thread++)
        busy.emplace_back([thread] {
            test::Rng rng((uint64_t)thread);
            std::vector<void *> held(64, nullptr);
            while (!done) {
                void *&slot = held[rng.below(held.size())];
                hak_free(slot);
                // Mostly slow paths: runs, huge blocks, purges, magazines.
                size_t kind = rng.below(64);
                slot = hak_malloc(kind == 0   ? rng.below(8 << 20)
                                  : kind < 16 ? rng.below(RUN_BYTES_MAX)
                                              : rng.below(SMALL_BYTES_MAX));
                if (rng.below(200) == 0) hak_purge();
                turns++;
            }
            for (void *block : held) hak_free(block);
        });
    void *block = hak_malloc(100);
    for (int i = 0; i < test::rounds(200); i++) {
        ASSERT_TRUE(test::in_child(
            [&] {
                test::use_all_kinds_of_sizes(1);
                hak_free(block);
                hak_purge();
            },
            30))
            << "fork number " << i;
    }
    done = true;
    for (std::thread &thread : busy) thread.join();
    EXPECT_GT(turns, 1000u);
    hak_free(block);
}

// --- handlers of the program ------------------------------------------------------------------------------

namespace {

std::atomic<bool> handlers_on;
void *from_prepare;
int handler_runs;

void handler_use()
{
    if (!handlers_on) return;
    handler_runs++;
    for (size_t size : {0u, 100u, 5000u, 100000u, 5000000u}) {
        void *block = hak_malloc(size);
        block = hak_realloc(block, size + 70000);
        hak_free(block);
    }
}

void handler_prepare()
{
    handler_use();
    if (handlers_on) from_prepare = hak_malloc(300);
}

void handler_child()
{
    handler_use();
    if (handlers_on) hak_free(from_prepare);
}

} // namespace

TEST_F(Fork, HandlersOfTheProgramAllocate)
{
    ASSERT_EQ(pthread_atfork(handler_prepare, handler_child, handler_child), 0);
    Waiters waiters(2);
    handlers_on = true;
    handler_runs = 0;
    EXPECT_TRUE(test::in_child([] {
        EXPECT_EQ(handler_runs, 2);
        use_everything();
    }));
    EXPECT_EQ(handler_runs, 2);
    handlers_on = false;
}

// Another thread has put a block on a list that it stages, and not counted it yet.
TEST_F(Fork, BetweenAStagedBlockAndItsCount)
{
    static std::vector<void *> blocks;
    static stage *staged;
    staged = nullptr;
    for (int i = 0; i < 5; i++) blocks.push_back(hak_malloc(512));
    const uint64_t used = test::inspected().used_blocks;
    std::atomic<int> step{0};
    std::thread thread([&] {
        hak_free(hak_malloc(100)); // the thread takes a heap
        for (void *block : blocks) hak_free(block);
        for (stage &each : tcache_self()->heap->staging.stages)
            if (each.count != 0) staged = &each;
        step = 1;
        while (step < 2) std::this_thread::yield();
    });
    while (step < 1) std::this_thread::yield();
    EXPECT_TRUE(staged != nullptr && staged->count == 5);
    if (staged != nullptr) {
        staged->count--;
        EXPECT_TRUE(test::in_child([used] {
            hak_purge();
            EXPECT_LE(test::inspected().used_blocks, used - 5);
            hak_free(hak_malloc(512));
        }));
        staged->count++;
    }
    step = 2;
    thread.join();
    blocks.clear();
}

namespace {

// Page faults of a child until fork returns there, beside threads that have cached blocks of many classes: count of each.
long faults_beside(int thread_count, size_t count)
{
    std::atomic<int> ready{0};
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; i++)
        threads.emplace_back([&] {
            std::vector<char *> blocks;
            for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index += 3) {
                const size_t bytes = sizeclass_bytes(class_index);
                // A multiple of what one credit parks, in two rounds, so that bins and magazines have some.
                for (size_t n = 0; n < count * 4096 / bytes + 1; n++) {
                    blocks.push_back(static_cast<char *>(hak_malloc(bytes)));
                    *blocks.back() = 1;
                }
                for (char *block : blocks) hak_free(block);
                blocks.clear();
            }
            ready++;
            while (!done) usleep(1000);
        });
    while (ready < thread_count) usleep(1000);
    int ends[2];
    long faults = -1;
    EXPECT_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        const bool is_written = write(ends[1], &usage.ru_minflt, sizeof faults) == sizeof faults;
        _exit(is_written ? 0 : 1);
    }
    int status;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(read(ends[0], &faults, sizeof faults), (ssize_t)sizeof faults);
    close(ends[0]);
    close(ends[1]);
    done = true;
    for (std::thread &thread : threads) thread.join();
    return faults;
}

} // namespace

// The child writes to no block of others, and to each heap of a thread that it lacks a fixed number of times.
TEST_F(Fork, CostsNothingForBlocksThatOthersHaveCached)
{
    SKIP_UNDER_SANITIZER("its own memory is copied too");
    for (int threads : {1, 8, 24}) {
        const long with_few = faults_beside(threads, 0), with_many = faults_beside(threads, 64);
        EXPECT_LE(with_many, with_few + 3 * threads + 8) << threads << " threads";
        EXPECT_LE(with_many, 250 + 5 * threads) << threads << " threads";
    }
}

// One page of libc's for each thread, one of the heap's, and its list heads.
TEST_F(Fork, AThreadMoreCostsTwoPagesAndAQuarter)
{
    SKIP_UNDER_SANITIZER("its own memory is copied too");
    const long beside_eight = faults_beside(8, 64), beside_many = faults_beside(72, 64);
    EXPECT_LE(beside_many - beside_eight, 64 * 9 / 4);
}

// All that the threads had comes back: at once by a purge, by the tick one heap a round, or to the thread that adopts.
TEST_F(Fork, WhatWasLeftComesBack)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    static std::vector<void *> staged;
    for (int i = 0; i < 100; i++) staged.push_back(hak_malloc(700));
    std::atomic<int> ready{0};
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([&, i] {
            for (size_t size : test::all_kinds_of_sizes()) hak_free(hak_malloc(size));
            if (i == 0)
                for (void *block : staged) hak_free(block); // of the forking thread's heap
            ready++;
            while (!done) usleep(1000);
        });
    while (ready < 3) usleep(1000);
    EXPECT_TRUE(test::in_child([] { test::expect_at_rest(); }));
    EXPECT_TRUE(test::in_child([] {
        const uint32_t left = thread_warm_count();
        EXPECT_GE(left, 3u);
        for (uint32_t i = 0; i < left + 2; i++) thread_tick(true);
        EXPECT_EQ(thread_warm_count(), 0u);
        test::expect_at_rest();
    }));
    EXPECT_TRUE(test::in_child([] {
        test::in_threads(3, [](int) { test::use_all_kinds_of_sizes(1); });
        test::expect_at_rest();
    }));
    done = true;
    for (std::thread &thread : threads) thread.join();
    staged.clear();
}

// A purge by madvise keeps the mapping, which other threads may be using meanwhile: it is wanted once two threads have heaps, and
// so in a child, whose first thread may have one or not.
TEST_F(Fork, AChildPurgesByAdviceOnceTwoOfItsThreadsHaveHeaps)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    if (!OWN_CALLS) GTEST_SKIP() << "each purge is by advice";
    const auto by_advice = [] { // of pages that are not mapped: madvise fails, and a mapping does not
        void *start = os->reserve(nullptr, PAGE_BYTES, PAGE_BYTES);
        EXPECT_EQ(os->release(start, PAGE_BYTES), 0);
        const bool fails = os->purge(start, PAGE_BYTES) == ENOMEM;
        if (!fails) os->release(start, PAGE_BYTES);
        return fails;
    };
    for (const bool has_heap : {false, true})
        test::in_thread([&] {
            if (has_heap) hak_free(hak_malloc(1));
            EXPECT_TRUE(test::in_child([&] {
                EXPECT_FALSE(by_advice());
                for (int heaps = has_heap; heaps < 4;) {
                    test::in_thread([&] {
                        EXPECT_EQ(by_advice(), heaps >= 2) << heaps;
                        hak_free(hak_malloc(1));
                        EXPECT_EQ(by_advice(), ++heaps >= 2) << heaps;
                    });
                }
            }));
        });
}

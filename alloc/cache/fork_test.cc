// fork_test.cc: fork of a threaded program: the child has only the forking thread.
#include "heap/heap_test_support.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <chrono>

extern "C" {
#include "base/sync_point.h"
#include "cache/thread.h"
#include "slab/owner.h"
#include "slab/remote.h"
}

namespace {

class Fork : public test::HeapTest {};

void use_everything_for(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        std::vector<std::pair<void *, size_t>> blocks;
        for (size_t size : test::all_kinds_of_sizes()) {
            void *block = hak_malloc(size);
            ASSERT_NE(block, nullptr);
            test::pattern_fill(block, size, size, size < 200000 ? 256 : 1 << 17);
            blocks.emplace_back(block, size);
        }
        for (auto [block, size] : blocks) {
            ASSERT_TRUE(test::pattern_holds(block, size, size, size < 200000 ? 256 : 1 << 17));
            hak_free(block);
        }
    }
}

void use_everything()
{
    use_everything_for(3);
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
                use_everything_for(1);
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

// --- fork while a thread is at a given step --------------------------------------------------------------------

namespace {

std::atomic<const char *> stop_at;
std::atomic<bool> stopped;
thread_local bool may_stop;

void stop_hook(const char *step)
{
    const char *at = stop_at;
    if (!may_stop || at == nullptr || strcmp(at, step) != 0) return;
    may_stop = false;
    stopped = true;
    while (stop_at != nullptr) std::this_thread::yield();
}

// Runs work in a thread until it reaches the step; then forks, and runs child in the child.
template <class Work, class Child> void fork_at(const char *step, Work work, Child child, size_t stack_bytes = 1 << 20)
{
    stop_at = step;
    stopped = false;
    hak_sync_point_hook = stop_hook;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_t thread;
    static void (*body)();
    static Work *passed;
    passed = &work;
    body = [] { (*passed)(); };
    ASSERT_EQ(pthread_create(
                  &thread, &attributes,
                  [](void *) -> void * {
                      hak_free(hak_malloc(100)); // the thread takes a heap
                      may_stop = true;
                      body();
                      return nullptr;
                  },
                  nullptr),
              0);
    pthread_attr_destroy(&attributes);
    for (int ms = 0; !stopped && ms < 10000; ms++) usleep(1000);
    ASSERT_TRUE(stopped) << "never came to " << step;
    EXPECT_TRUE(test::in_child(
        [&] {
            stop_at = nullptr;
            child();
        },
        30))
        << step;
    stop_at = nullptr;
    pthread_join(thread, nullptr);
    hak_sync_point_hook = nullptr;
}

} // namespace

TEST_F(Fork, WhileAnotherThreadHoldsALockOrChangesItsHeap)
{
    SKIP_WITHOUT_VALIDATE();
    for (const char *step : {"lock_acquire", "lock_release", "superslab_claim", "hint_clear", "superslab_free",
                             "slab_release", "remote_drain", "owner_abandon"}) {
        std::vector<void *> full;
        if (strcmp(step, "hint_clear") == 0) // fill a superslab to its last page
            for (int i = 0; i < 128; i++) full.push_back(hak_malloc(PAGE_BYTES));
        fork_at(
            step,
            [] {
                std::vector<void *> blocks;
                for (int i = 0; i < 40; i++) blocks.push_back(hak_malloc(20000));
                hak_free(hak_malloc(5 << 20));
                for (int i = 0; i < 130; i++) blocks.push_back(hak_malloc(PAGE_BYTES));
                for (void *block : blocks) hak_free(block);
                hak_purge();
            },
            [] {
                use_everything_for(2);
                test::in_threads(2, [](int) { use_everything_for(1); });
                hak_purge();
            });
        for (void *block : full) hak_free(block);
    }
}

TEST_F(Fork, AListHalfGivenBackIsNotTrusted)
{
    // The busy thread's bin still holds a list of which some blocks are back in their slabs. Giving that list back
    // again would hand blocks out twice.
    SKIP_WITHOUT_VALIDATE();
    fork_at(
        "slab_release",
        [] {
            std::vector<void *> blocks;
            for (int i = 0; i < 400; i++) blocks.push_back(hak_malloc(20000));
            for (void *block : blocks) hak_free(block);
        },
        [] {
            test::in_threads(2, [](int) {
                std::vector<void *> blocks;
                for (int i = 0; i < 400; i++) blocks.push_back(hak_malloc(20000));
                for (void *block : blocks) hak_free(block);
            });
        });
}

TEST_F(Fork, TheGrandchildOfABusyThread)
{
    // The child does not touch the heap of the busy thread, and libc unmaps that thread's large stack.
    SKIP_WITHOUT_VALIDATE();
    fork_at(
        "superslab_claim", [] { hak_free(hak_malloc(20000)); },
        [] {
            for (int i = 0; i < 3; i++) test::in_threads(1, [](int) { hak_free(hak_malloc(10)); });
            EXPECT_TRUE(test::in_child([] { use_everything_for(1); }));
        },
        64 << 20);
}

TEST_F(Fork, BetweenPostAndQueue)
{
    // A slab of the forking thread has posted blocks but is on no queue yet: the child must queue it.
    SKIP_WITHOUT_VALIDATE();
    static std::vector<void *> blocks;
    for (int i = 0; i < 2000; i++) blocks.push_back(hak_malloc(512));
    fork_at(
        "pending_push",
        [] {
            for (int i = 0; i < 500; i++) hak_free(blocks[(size_t)i]);
        },
        [] {
            test::in_threads(1, [](int) {
                for (int i = 600; i < 2000; i++) hak_free(blocks[(size_t)i]);
            });
            hak_purge();
            hak_purge();
            hak_inspect_report report;
            EXPECT_TRUE(hak_inspect(&report)) << report.broken_law;
        });
    for (int i = 500; i < 2000; i++) hak_free(blocks[(size_t)i]);
    blocks.clear();
}

// A block was posted to an orphan's slab, which is on no queue yet. Nobody else drains what the child queues.
TEST_F(Fork, BetweenPostAndQueueOfAnOrphan)
{
    SKIP_WITHOUT_VALIDATE();
    static std::vector<void *> blocks[2]; // of two, since the busy thread adopts one
    test::in_threads(2, [](int thread) {
        static std::atomic<int> here;
        here++;
        while (here < 2) std::this_thread::yield();
        for (int i = 0; i < 1000; i++) blocks[thread].push_back(hak_malloc(512));
        here++;
        while (here < 4) std::this_thread::yield();
    });
    fork_at(
        "pending_push",
        [] {
            for (std::vector<void *> &each : blocks)
                for (int i = 0; i < 500; i++) hak_free(each[(size_t)i]);
        },
        [] {
            for (uint32_t id = 1; id <= owner_count(); id++) {
                struct owner *owner = owner_with_id(id);
                EXPECT_FALSE(owner_is_orphan(owner) && remote_is_pending(owner)) << id;
            }
            hak_inspect_report report;
            EXPECT_TRUE(hak_inspect(&report)) << report.broken_law;
        });
    for (std::vector<void *> &each : blocks) {
        for (size_t i = 500; i < 1000; i++) hak_free(each[i]);
        each.clear();
    }
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

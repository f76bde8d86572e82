// background_test.cc: the background thread gives memory back while all others sleep, and comes and goes without trace.
#include "heap/heap_test_support.h"

#include <dirent.h>

#include <fstream>
#include <semaphore>

extern "C" {
#include "control/background.h"
#include "heap/huge.h"
#include "heap/own_inside.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "report/writer.h"
#include "superslab/purge.h"
}

namespace {

class Background : public test::HeapTest {
  protected:
    void SetUp() override
    {
        // Under a sanitizer's runtime threads are slow to start, and the clock is the real one.
        test::HeapTest::SetUp();
        EXPECT_FALSE(background_is_on());
    }
    void TearDown() override
    {
        EXPECT_EQ(hak_background(false), 0);
        test::HeapTest::TearDown();
    }

    static hak_stats get()
    {
        hak_stats stats;
        hak_stats_get(&stats);
        return stats;
    }

    // A line of /proc/self/task/TID/status of the thread named "hakmem"; "" if there is none.
    static std::string status(const std::string &name)
    {
        std::string found;
        DIR *tasks = opendir("/proc/self/task");
        while (dirent *task = readdir(tasks)) {
            std::string path = std::string("/proc/self/task/") + task->d_name + "/status";
            FILE *file = fopen(path.c_str(), "r");
            if (file == nullptr) continue;
            char line[256];
            std::string text;
            while (fgets(line, sizeof line, file) != nullptr) text += line;
            fclose(file);
            size_t at = text.find("\n" + name + ":");
            if (text.rfind("Name:\thakmem\n", 0) == 0) found = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
        }
        closedir(tasks);
        return found;
    }

    static bool within(int seconds, const std::function<bool()> &condition)
    {
        for (int i = 0; i < seconds * 100; i++) {
            if (condition()) return true;
            usleep(10000);
        }
        return false;
    }
};

} // namespace

TEST_F(Background, ComesAndGoes)
{
    size_t heaps = get().heap_count;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(hak_background(true), 0);
        EXPECT_EQ(hak_background(true), 0) << "twice is no error";
        EXPECT_TRUE(background_is_on());
        EXPECT_TRUE(within(20, [] { return status("SigBlk") != ""; }));
        EXPECT_EQ(status("SigBlk").substr(0, 15), "SigBlk:\tfffffff") << "every signal is blocked";
        EXPECT_EQ(hak_background(false), 0);
        EXPECT_EQ(hak_background(false), 0);
        EXPECT_TRUE(within(20, [] { return status("SigBlk") == ""; }));
    }
    EXPECT_EQ(get().heap_count, heaps) << "it holds no heap";
}

// Rounds are made after hak_background(true) until hak_background(false), and files are written from the first wish on: in
// whatever order they are asked for, neither ends the other.
TEST_F(Background, RoundsAndFilesDoNotEndEachOther)
{
    enum { ON, OFF, FILES, WISHES, LENGTH = 3 };
    for (int sequence = 0; sequence < WISHES * WISHES * WISHES; sequence++) {
        bool has_rounds = false, has_files = false;
        for (int i = 0, left = sequence; i < LENGTH; i++, left /= WISHES) {
            const int wish = left % WISHES;
            if (wish == FILES) {
                background_write_files();
                has_files = true;
            } else {
                ASSERT_EQ(hak_background(wish == ON), 0);
                has_rounds = wish == ON;
            }
            EXPECT_EQ(background_is_on(), has_rounds) << sequence << ", step " << i;
            EXPECT_EQ(atomic_load(&writer_has_thread), has_rounds || has_files) << sequence << ", step " << i;
        }
        background_end();
        EXPECT_FALSE(background_is_on());
        EXPECT_FALSE(atomic_load(&writer_has_thread));
    }
}

// However short the delay is, it makes at most one round in 50 ms.
TEST_F(Background, AShortDelayKeepsNoProcessorBusy)
{
    for (uint32_t delay_ms : {0u, 1u, 7u}) {
        pool_set_purge_delay_ms(delay_ms);
        const uint64_t start_ms = os_now_ms(), before = background_rounds();
        ASSERT_EQ(hak_background(true), 0);
        usleep(300'000);
        ASSERT_EQ(hak_background(false), 0);
        EXPECT_LE(background_rounds() - before, (os_now_ms() - start_ms) / 50 + 1) << delay_ms;
    }
    pool_set_purge_delay_ms(PURGE_DELAY_MS);
}

// Its stack is small, and gone with it.
TEST_F(Background, LeavesNoMappings)
{
    SKIP_UNDER_SANITIZER("it maps memory for each thread");
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    test::in_thread([] {}); // the library's own first thread
    auto bytes_and_count = [] {
        std::ifstream maps("/proc/self/maps");
        std::pair<size_t, size_t> found{0, 0};
        for (std::string line; std::getline(maps, line); found.second++) {
            size_t low, high;
            if (sscanf(line.c_str(), "%zx-%zx", &low, &high) == 2) found.first += high - low;
        }
        return found;
    };
    EXPECT_TRUE(test::in_child([&] {
        auto before = bytes_and_count();
        for (int i = 0; i < 50; i++) {
            EXPECT_EQ(hak_background(true), 0);
            if (i == 0) EXPECT_LT(bytes_and_count().first, before.first + 2 * test::MIB);
            EXPECT_EQ(hak_background(false), 0);
        }
        EXPECT_LT(bytes_and_count().second, before.second + 20);
    }));
}

TEST_F(Background, CannotStart)
{
    SKIP_UNDER_SANITIZER("it needs address space of its own");
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    EXPECT_TRUE(test::in_child([] {
        hak_free(hak_malloc(100));
        rlimit none{0, 0};
        ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, own_thread_stack_bytes()); // libc gives it no stack that is much larger
        pthread_t waits;
        // Until no stack of a thread that has ended is left.
        for (int i = 0; i < 100 && pthread_create(
                                       &waits, &small, [](void *) { return pause(), (void *)nullptr; }, nullptr) == 0;
             i++) {}
        errno = 7;
        EXPECT_NE(hak_background(true), 0);
        EXPECT_EQ(errno, 7);
        EXPECT_FALSE(background_is_on());
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        EXPECT_EQ(sigismember(&mask, SIGTERM), 0) << "the caller's signals are blocked for good";
        EXPECT_EQ(hak_background(false), 0);
        _exit(testing::Test::HasFailure());
    }));
}

TEST_F(Background, GivesBackWhileAllSleep)
{
    std::binary_semaphore asleep{0}, over{0};
    std::thread thread([&] {
        std::vector<void *> blocks(4096);
        for (void *&block : blocks) block = hak_malloc(512);
        for (void *block : blocks) hak_free(block);
        asleep.release();
        over.acquire();
    });
    asleep.acquire();
    EXPECT_GE(get().small_bytes, 100u << 10);
    EXPECT_EQ(hak_background(true), 0);
    // No call of malloc or free while it waits.
    EXPECT_TRUE(within(20, [] { return get().small_bytes <= CREDIT_LEAST_BYTES && get().dirty_bytes == 0; }))
        << get().small_bytes << " cached, " << get().dirty_bytes << " dirty";
    EXPECT_GE(background_rounds(), 2u);
    EXPECT_EQ(hak_background(false), 0);
    hak_figures figures;
    hak_figures_get(&figures, sizeof figures);
    EXPECT_EQ(figures.background_rounds, background_rounds());
    over.release();
    thread.join();
}

TEST_F(Background, VisitsHeapsOfTheProgramsOwn)
{
    hak_heap *heap = hak_heap_new();
    std::vector<void *> blocks(4096);
    for (void *&block : blocks) block = hak_heap_malloc(heap, 512);
    // No slab becomes empty, and more is left than a shrunk heap has.
    for (size_t i = 0; i < blocks.size(); i++)
        if (i % 128 >= 48) hak_free(blocks[i]);
    auto resident = [heap] {
        hak_heap_figures figures{};
        hak_heap_figures_get(heap, &figures, sizeof figures);
        return figures.resident_bytes;
    };
    EXPECT_GE(resident(), 4096u * 512);
    EXPECT_EQ(hak_background(true), 0);
    // No call of malloc or free while it waits.
    for (int use = 0; use < 2; use++) { // each time that it has been used
        EXPECT_TRUE(within(20, [&] { return resident() <= 4096u * 512 * 5 / 8; })) << resident();
        for (size_t i = 0; i < blocks.size(); i++)
            if (i % 128 >= 48) blocks[i] = hak_heap_malloc(heap, 512);
        EXPECT_GE(resident(), 4096u * 512);
        for (size_t i = 0; i < blocks.size(); i++)
            if (i % 128 >= 48) hak_free(blocks[i]);
    }
    EXPECT_EQ(hak_background(false), 0);
    hak_heap_destroy(heap);
    if (VALIDATE) own_dead_free_all();
}

// No thread in the background, and only a heap of the program's own asks for memory: mappings that lie idle in the cache
// are given back all the same.
TEST_F(Background, SlowPathsOfAHeapOfTheProgramsOwnGiveMappingsBack)
{
    hak_heap *heap = hak_heap_new();
    hak_purge_all();
    hak_free(hak_malloc(4 * test::MIB));
    ASSERT_GT(huge_figures().cached_bytes, 0u);
    ASSERT_EQ(pool_figures().dirty_pages, 0u) << "else the tick is made for them";
    std::vector<void *> blocks;
    for (int wait = 0; wait < 200 && huge_figures().cached_bytes > 0; wait++) {
        usleep(20000);
        for (int i = 0; i < 100; i++) blocks.push_back(hak_heap_malloc(heap, 1000));
    }
    EXPECT_EQ(huge_figures().cached_bytes, 0u);
    hak_heap_destroy(heap);
    if (VALIDATE) own_dead_free_all();
}

namespace {

// Waits for the next round. Returns how long that took, in ms.
uint64_t ms_to_next_round()
{
    uint64_t begin_ms = os_now_ms(), rounds = background_rounds();
    while (background_rounds() == rounds && os_now_ms() - begin_ms < 20000) usleep(1000);
    return os_now_ms() - begin_ms;
}

} // namespace

// While there is nothing to do, rounds are four delays apart. A round that finds free pages with memory, a cached mapping,
// an orphan with parked lists, or a thread that was on a slow path, is followed by the next one after a single delay.
TEST_F(Background, RestsWhileThereIsNothingToDo)
{
    const uint32_t delay_ms = 50, before_ms = purge_delay_ms();
    const uint64_t rest_ms = 4 * delay_ms, short_ms = rest_ms * 3 / 4;
    pool_set_purge_delay_ms(delay_ms);
    huge_set_delay_ms(delay_ms);
    EXPECT_EQ(hak_background(true), 0);
    std::vector<void *> kept;
    for (size_t size : {(size_t)RUN_BYTES_MAX, 2 * (size_t)SUPERSLAB_BYTES, (size_t)100, (size_t)0}) {
        bool followed = false;
        for (int i = 0; i < 20 && !followed; i++) { // a machine under load makes some of them late
            EXPECT_TRUE(within(20, [&] { return ms_to_next_round() >= short_ms; })) << "it never rests";
            if (size > 0) test::in_thread([size] { hak_free(hak_malloc(size)); });
            for (int j = 0; size == 0 && j < 1000; j++) kept.push_back(hak_malloc(100));
            ms_to_next_round();
            followed = ms_to_next_round() < short_ms;
        }
        EXPECT_TRUE(followed) << "what a free of " << size
                              << " bytes left, or a thread that is active, waits for four delays";
    }
    for (void *block : kept) hak_free(block);
    EXPECT_EQ(hak_background(false), 0);
    pool_set_purge_delay_ms(before_ms);
    huge_set_delay_ms(before_ms);
}

TEST_F(Background, AChildHasNoneAndMayStartOne)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    EXPECT_EQ(hak_background(true), 0);
    EXPECT_TRUE(within(20, [] { return background_rounds() > 0; }));
    for (int i = 0; i < 20; i++) {
        if (i == 10) background_write_files(); // the parent's; children write on slow paths
        EXPECT_TRUE(test::in_child([] {
            EXPECT_FALSE(background_is_on());
            EXPECT_EQ(background_rounds(), 0u) << "its own";
            EXPECT_EQ(status("SigBlk"), "");
            hak_free(hak_malloc(5000));
            EXPECT_EQ(hak_background(true), 0);
            EXPECT_TRUE(within(20, [] { return status("SigBlk") != ""; }));
            EXPECT_EQ(hak_background(false), 0);
            EXPECT_FALSE(atomic_load(&writer_has_thread)) << "nothing asks for it any more";
        }));
    }
    EXPECT_TRUE(background_is_on()) << "in the parent";
    background_end();
}

// A purge passes a heap that another thread is using, and does the next one. From the second round on the heaps have the
// bodies of those that were destroyed after such a purge.
TEST_F(Background, APurgePassesAHeapInUse)
{
    for (size_t (*purge)() : {own_purge_all, own_purge_idle})
        for (size_t in_use = 0; in_use < 3; in_use++) {
            hak_heap *heaps[3];
            for (hak_heap *&heap : heaps) {
                heap = hak_heap_new();
                hak_free(hak_heap_malloc(heap, 1000));
                heap->seen_bytes = owner_used_bytes(&heap->owner) + own_binned_bytes(heap); // as a round before would
                ASSERT_GT(heap->slab_bytes, 0u);
            }
            lock_word_acquire(&heaps[in_use]->lock, LOCK_OWN);
            test::in_thread([purge] { purge(); });
            lock_word_release(&heaps[in_use]->lock, LOCK_OWN);
            for (size_t i = 0; i < 3; i++) EXPECT_EQ(heaps[i]->slab_bytes != 0, i == in_use) << i << " of " << in_use;
            for (hak_heap *heap : heaps) hak_heap_destroy(heap);
        }
    if (VALIDATE) own_dead_free_all();
}

// While another thread writes, the library's thread sleeps with what is due, and then writes it.
TEST_F(Background, WaitsForAnotherThreadThatWrites)
{
    SKIP_UNDER_SANITIZER("threads are slow");
    for (bool has_rounds : {false, true}) {
        EXPECT_TRUE(test::in_child([&] {
            static std::binary_semaphore begun{0}, may_end{0};
            static std::atomic<int> asleep;
            asleep = 0;
            ASSERT_EQ(hak_background(has_rounds), 0);
            background_write_files();
            std::thread other([] {
                auto job = [](void *) { begun.release(), may_end.acquire(); };
                writer_run(job, nullptr);
            });
            begun.acquire();
            writer_want(STEP_DUE); // no profile: it is only taken
            for (int look = 0; look < 2000 && asleep < 20; look++) {
                usleep(1000);
                asleep = status("State").find("S (sleeping)") != std::string::npos ? asleep + 1 : 0;
            }
            EXPECT_EQ(asleep, 20) << has_rounds;
            EXPECT_NE(writer_due.load() & STEP_DUE, 0u);
            may_end.release();
            other.join();
            for (int look = 0; look < 5000 && writer_due != 0; look++) usleep(1000);
            EXPECT_EQ(writer_due.load(), 0u);
            background_end();
        }));
    }
}

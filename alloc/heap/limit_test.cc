// limit_test.cc: at a limit malloc fails, and nothing is lost. More than 400 lines: each test sets
// its limit in a child, as it is the process's.
#include "heap/heap_test_support.h"

#include <atomic>
#include <deque>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

extern "C" {
#include "control/amount.h"
#include "heap/bound.h"
#include "heap/huge.h"
#include "heap/huge_cache.h"
#include "superslab/limit.h"
#include "superslab/purge.h"
}

namespace {

class Limit : public test::HeapTest {
  protected:
    struct Held {
        void *block;
        size_t size;
        uint64_t stamp;
    };

    static size_t draw_size(test::Rng &rng)
    {
        switch (rng.below(4)) {
        case 0: return rng.between(1, 1024);
        case 1: return rng.between(1024, SMALL_BYTES_MAX);
        case 2: return rng.between(SMALL_BYTES_MAX, RUN_BYTES_MAX);
        default: return rng.between(RUN_BYTES_MAX, 2 * RUN_BYTES_MAX);
        }
    }

    // Allocates until malloc fails; checks and frees all of it.
    static size_t one_run(uint64_t stream, size_t limit)
    {
        test::Rng rng(stream);
        std::vector<Held> held;
        size_t failures = 0;
        while (failures < 2) {
            Held each{nullptr, draw_size(rng), rng.next()};
            errno = 0;
            each.block = hak_malloc(each.size);
            if (each.block == nullptr) {
                EXPECT_EQ(errno, ENOMEM);
                failures++;
                continue;
            }
            test::pattern_fill(each.block, each.size, each.stamp, 4099);
            held.push_back(each);
            EXPECT_LE(limit_committed_bytes(), limit);
        }
        for (const Held &each : held) {
            EXPECT_TRUE(test::pattern_holds(each.block, each.size, each.stamp, 4099));
            hak_free(each.block);
        }
        return held.size();
    }
};

using test::MIB;

// A memory cgroup (v1 or v2) below this process's own, with a limit in bytes. `refusal` says why there is none.
class MemoryCgroup {
  public:
    explicit MemoryCgroup(size_t limit)
    {
        std::ifstream own("/proc/self/cgroup");
        for (std::string line; std::getline(own, line) && path_.empty();) {
            const size_t first = line.find(':'), second = line.find(':', first + 1);
            const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
            const bool v2 = controllers == ",,";
            if (!v2 && controllers.find(",memory,") == std::string::npos) continue;
            const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
            make(root + line.substr(second + 1) + "/hakmem-test-" + std::to_string(getpid()),
                 v2 ? "memory.max" : "memory.limit_in_bytes", limit);
        }
        if (path_.empty() && refusal.empty()) refusal = "/proc/self/cgroup names no memory controller";
    }
    ~MemoryCgroup()
    {
        if (!path_.empty()) rmdir(path_.c_str());
    }
    MemoryCgroup(const MemoryCgroup &) = delete;
    bool join() const { return put(path_ + "/cgroup.procs", std::to_string(getpid())); }

    std::string refusal;

  private:
    static bool put(const std::string &path, const std::string &value)
    {
        std::ofstream file(path);
        file << value << std::flush;
        return file.good();
    }
    void make(const std::string &path, const char *limit_name, size_t limit)
    {
        if (mkdir(path.c_str(), 0755) != 0) {
            refusal = path + ": " + strerror(errno);
        } else if (!put(path + "/" + limit_name, std::to_string(limit))) {
            refusal = path + "/" + limit_name + " cannot be written";
            rmdir(path.c_str());
        } else {
            path_ = path;
        }
    }

    std::string path_;
};

} // namespace

// A claim at the limit purges free pages that keep memory, all of them, and counts on no byte more.
TEST_F(Limit, FreePagesWithMemoryMakeRoom)
{
    EXPECT_TRUE(test::in_child([] {
        hak_free(hak_malloc(RUN_BYTES_MAX));
        size_t dirty_bytes = purge_dirty_pages() * PAGE_BYTES;
        ASSERT_GE(dirty_bytes, (size_t)RUN_BYTES_MAX);
        limit_set(limit_committed_bytes());
        EXPECT_TRUE(limit_allows(dirty_bytes));
        EXPECT_EQ(purge_dirty_pages(), 0u);
        EXPECT_FALSE(limit_allows(dirty_bytes + 1));
        limit_set(SIZE_MAX);
        hak_free(hak_malloc(RUN_BYTES_MAX));
        dirty_bytes = purge_dirty_pages() * PAGE_BYTES;
        limit_set(limit_committed_bytes() + PAGE_BYTES);
        EXPECT_TRUE(limit_allows(dirty_bytes + PAGE_BYTES)) << "they need not make all of the room";
    }));
}

TEST_F(Limit, ManyRunsAtTheLimit)
{
    EXPECT_TRUE(test::in_child([] {
        size_t limit = limit_committed_bytes() + 8 * MIB, blocks = 0;
        hak_limit_set(limit);
        EXPECT_EQ(hak_limit_get(), limit);
        const int runs = test::rounds(300);
        for (int run = 0; run < runs; run++) blocks += one_run((uint64_t)run, limit);
        printf("%zu blocks in %d runs\n", blocks, runs);
        hak_limit_set(SIZE_MAX);
        test::expect_at_rest();
    }));
}

// A cache that evicts its oldest block when malloc fails: what it gives up serves the next one, as long as its runs vary by no more
// than their length, so that few pages go to the system and come back.
TEST_F(Limit, WhatIsEvictedServesTheNextBlock)
{
    if (VALIDATE) GTEST_SKIP() << "a freed block is in the quarantine";
    for (size_t pages : {1, 2, 3, 4, 6, 8}) {
        EXPECT_TRUE(test::in_child([pages] {
            constexpr int INSERTS = 2000;
            hak_purge_all();
            hak_limit_set(limit_committed_bytes() + (32 << 20));
            test::Rng rng(test::seed());
            std::deque<void *> cache;
            size_t purged = 0;
            for (int inserts = 0; inserts < INSERTS;) {
                const size_t size = rng.between(pages * PAGE_BYTES / 2 + 1, pages * PAGE_BYTES * 3 / 2);
                void *block = hak_malloc(std::max<size_t>(size, SMALL_BYTES_MAX + 1));
                if (block != nullptr) {
                    cache.push_back(block);
                    if (purged != 0) inserts++; // it has been full
                    continue;
                }
                if (purged == 0) purged = purge_purged_pages() + 1;
                hak_free(cache.front());
                cache.pop_front();
            }
            EXPECT_LE(purge_purged_pages() - purged, INSERTS * pages * (pages <= 2 ? 15 : 45) / 100);
            hak_limit_set(SIZE_MAX);
            for (void *block : cache) hak_free(block);
            test::expect_at_rest();
        })) << pages;
    }
}

TEST_F(Limit, AllowsItsLastByte)
{
    EXPECT_TRUE(test::in_child([] {
        const size_t committed = limit_committed_bytes();
        hak_limit_set(committed + PAGE_BYTES);
        EXPECT_TRUE(limit_allows(PAGE_BYTES));
        EXPECT_FALSE(limit_allows(PAGE_BYTES + 1));
        hak_limit_set(committed);
        EXPECT_TRUE(limit_allows(0));
        EXPECT_FALSE(limit_allows(1));
    }));
}

// What a huge block has already does not count again when it grows, nor what its mapping has to spare.
TEST_F(Limit, AHugeBlockGrowsByTheDifference)
{
    for (size_t spare : {0 * MIB, 3 * MIB, 5 * MIB})
        EXPECT_TRUE(test::in_child([spare] {
            void *block = hak_malloc(8 * MIB);
            huge_keep_bytes = 6 * MIB; // as if loops had taught it that
            huge_keep_live_bytes = 0;
            block = hak_realloc(block, 8 * MIB - spare);
            EXPECT_EQ(huge_figures().slack_bytes, spare);
            hak_limit_set(limit_committed_bytes() + 4 * MIB);
            block = hak_realloc(block, 11 * MIB);
            ASSERT_NE(block, nullptr) << spare;
            EXPECT_EQ(hak_realloc(block, 13 * MIB), nullptr) << spare;
            hak_free(block);
        }));
}

// Whatever lies free in a heap of the program's own, of each kind of class, serves other blocks at the limit.
TEST_F(Limit, WhatLiesFreeInAProgramsHeapMakesRoom)
{
    EXPECT_TRUE(test::in_child([] {
        hak_heap *heap = hak_heap_new();
        for (size_t size = 16; size <= SMALL_BYTES_MAX; size += size / 8 + 16) hak_free(hak_heap_malloc(heap, size));
        hak_heap_figures figures{};
        hak_heap_figures_get(heap, &figures, sizeof figures);
        const size_t bytes = figures.committed_bytes;
        ASSERT_GE(bytes, 2 * MIB) << "an empty slab of each class";
        hak_limit_set(limit_committed_bytes());
        void *block = hak_malloc(MIB);
        EXPECT_NE(block, nullptr) << bytes;
        hak_free(block);
        hak_heap_destroy(heap);
    }));
}

TEST_F(Limit, ThreadsAtTheLimit)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    EXPECT_TRUE(test::in_child([] {
        size_t limit = limit_committed_bytes() + 24 * MIB;
        hak_limit_set(limit);
        test::in_threads(3, [&](int thread) {
            for (int run = 0; run < test::rounds(20); run++)
                one_run((uint64_t)(thread * 100 + run), limit + 2 * 2 * RUN_BYTES_MAX); // what two others ask for
        });
        hak_limit_set(SIZE_MAX);
        test::expect_at_rest();
    }));
}

// The system kills what exceeds a cgroup's limit. With four fifths of it as its own limit, malloc fails first.
TEST_F(Limit, NoKillInAMemoryCgroup)
{
    SKIP_UNDER_SANITIZER("its own memory counts in the cgroup too");
    const MemoryCgroup cgroup(64 * MIB);
    if (!cgroup.refusal.empty()) GTEST_SKIP() << "no memory cgroup can be made here: " << cgroup.refusal;
    EXPECT_TRUE(test::in_child(
        [&] {
            ASSERT_TRUE(cgroup.join());
            size_t limit = 0;
            ASSERT_TRUE(amount_read("80%", "", &limit));
            EXPECT_EQ(limit, 64 * MIB / 100 * 80 + 64 * MIB % 100 * 80 / 100);
            hak_limit_set(limit);
            const int runs = 40;
            size_t blocks = 0;
            for (int run = 0; run < runs; run++) blocks += one_run((uint64_t)run, limit);
            printf("%zu blocks in %d runs at %zu bytes\n", blocks, runs, limit);
            hak_limit_set(SIZE_MAX);
            test::expect_at_rest();
        },
        600));
}

TEST_F(Limit, CachesAreGivenBackFirst)
{
    EXPECT_TRUE(test::in_child([] {
        std::vector<void *> blocks(4096);
        for (void *&block : blocks) block = hak_malloc(2048);
        for (void *block : blocks) hak_free(block);
        hak_limit_set(10 * MIB);
        void *run[4];
        for (void *&each : run) each = hak_malloc(2 * MIB);
        for (void *each : run) EXPECT_NE(each, nullptr);
        EXPECT_EQ(hak_malloc(4 * MIB), nullptr);
        for (void *each : run) hak_free(each);
        void *huge = hak_malloc(4 * MIB);
        EXPECT_NE(huge, nullptr);
        EXPECT_EQ(hak_realloc(huge, 40 * MIB), nullptr);
        huge = hak_realloc(huge, 6 * MIB);
        EXPECT_NE(huge, nullptr);
        EXPECT_EQ(hak_malloc(5 * MIB), nullptr);
        hak_free(huge);
        hak_purge();
        EXPECT_EQ(limit_committed_bytes(), 0u);
    }));
}

// A small block needs fresh memory only when its class has none. Until then nobody is asked; from then on each malloc gets
// its block as long as the callback has something to free.
TEST_F(Limit, TheCallbackIsAskedForSmallBlocksToo)
{
    for (size_t size : {(size_t)16, (size_t)1000, (size_t)SMALL_BYTES_MAX / 2})
        EXPECT_TRUE(test::in_child([size] {
            static std::vector<void *> spare;
            static size_t wanted;
            static int asked;
            hak_limit_set(limit_committed_bytes() + 16 * MIB);
            for (void *block; (block = hak_malloc(MIB)) != nullptr;) spare.push_back(block);
            ASSERT_GE(spare.size(), 12u);
            hak_limit_callback(
                [](size_t wanted_bytes, void *) {
                    wanted = wanted_bytes;
                    if (spare.empty()) return false;
                    if (++asked % 3 != 0) return true; // it has done something, but that did not help
                    hak_free(spare.back());
                    spare.pop_back();
                    return true;
                },
                nullptr);
            size_t got = 0, last_wanted = 0;
            while (hak_malloc(size) != nullptr) {
                got += size;
                if (spare.size() == 8 && last_wanted == 0) last_wanted = wanted;
            }
            EXPECT_TRUE(spare.empty());
            EXPECT_GE(got, 8 * MIB) << "what the callback has freed";
            EXPECT_GE(last_wanted, size);
            EXPECT_LE(last_wanted, 2 * size + 64);
            EXPECT_EQ(errno, ENOMEM);
        })) << size;
}

TEST_F(Limit, TheCallbackIsAsked)
{
    EXPECT_TRUE(test::in_child([] {
        static std::vector<void *> spare;
        static int asked;
        static size_t wanted;
        hak_limit_set(limit_committed_bytes() + 16 * MIB);
        for (void *block; (block = hak_malloc(MIB)) != nullptr;) spare.push_back(block);
        size_t count = spare.size();
        EXPECT_GE(count, 12u);
        hak_limit_callback(
            [](size_t wanted_bytes, void *context) {
                asked++;
                wanted = wanted_bytes;
                EXPECT_EQ(context, &spare);
                EXPECT_EQ(hak_malloc(1024 * MIB), nullptr) << "inside it nobody is asked again";
                if (spare.empty()) return false;
                hak_free(spare.back());
                spare.pop_back();
                errno = EIO;
                return true;
            },
            &spare);
        errno = 7;
        void *block = hak_malloc(3 * MIB);
        EXPECT_NE(block, nullptr);
        EXPECT_EQ(errno, 7);
        EXPECT_EQ(wanted, 3 * MIB);
        EXPECT_GE(asked, 3);
        EXPECT_LT(spare.size(), count);
        errno = 0;
        EXPECT_EQ(hak_malloc(100 * MIB), nullptr) << "all is freed, and still there is no room";
        EXPECT_EQ(errno, ENOMEM);
        EXPECT_TRUE(spare.empty());
        // No lock is held while it runs, so it may take itself back.
        hak_limit_callback([](size_t, void *) { return hak_limit_callback(nullptr, {}), asked = 0, true; }, &spare);
        EXPECT_TRUE(hak_malloc(100 * MIB) == nullptr && asked == 0);
        hak_free(block);
    }));
}

// A purge inside the callback is whole, whatever the malloc that asks has used of its calls to the system. A sleeping thread's
// heap has more rows of free pages than such a malloc may give back.
TEST_F(Limit, TheCallbackMayPurgeAll)
{
    EXPECT_TRUE(test::in_child([] {
        static int asked;
        alarm(60);
        std::atomic<int> state{0};
        std::thread sleeper([&] {
            std::vector<void *> blocks(80000);
            for (void *&block : blocks) block = hak_malloc(64);
            for (size_t i = 0; i < blocks.size(); i++)
                if (i % 200 != 0) hak_free(blocks[i]);
            state = 1;
            while (state == 1) usleep(1000);
            for (size_t i = 0; i < blocks.size(); i += 200) hak_free(blocks[i]);
        });
        while (state == 0) usleep(1000);
        hak_limit_set(limit_committed_bytes() + MIB);
        hak_limit_callback([](size_t, void *) { return hak_purge_all(), asked++ == 0; }, nullptr);
        while (hak_malloc(1000) != nullptr) {}
        EXPECT_GE(asked, 1);
        hak_limit_callback(nullptr, nullptr);
        state = 2;
        sleeper.join();
    }));
}

TEST_F(Limit, BeyondTheSoftOneNothingIsKept)
{
    EXPECT_TRUE(test::in_child([] {
        std::vector<void *> runs(8);
        for (void *&run : runs) run = hak_malloc(RUN_BYTES_MAX);
        hak_free(runs[0]);
        hak_stats stats;
        hak_stats_get(&stats);
        EXPECT_EQ(stats.dirty_bytes, (size_t)RUN_BYTES_MAX);
        hak_limit_soft_set(4 * MIB);
        EXPECT_EQ(hak_limit_soft_get(), 4 * MIB);
        hak_free(runs[1]);
        hak_stats_get(&stats);
        EXPECT_EQ(stats.dirty_bytes, 0u);
        hak_limit_soft_set(limit_committed_bytes());
        hak_free(runs[2]);
        hak_stats_get(&stats);
        EXPECT_EQ(stats.dirty_bytes, (size_t)RUN_BYTES_MAX) << "it is not exceeded";
        hak_limit_soft_set(limit_committed_bytes() - 1);
        hak_free(runs[3]);
        hak_stats_get(&stats);
        EXPECT_EQ(stats.dirty_bytes, 0u) << "by a byte";
        for (size_t i = 4; i < runs.size(); i++) hak_free(runs[i]);
    }));
}

TEST_F(Limit, TheSoftOneIsExceededByAByte)
{
    EXPECT_TRUE(test::in_child([] {
        for (const size_t size : {(size_t)0, (size_t)1000, MIB, 5 * MIB}) {
            void *block = size != 0 ? hak_malloc(size) : nullptr;
            const size_t committed = limit_committed_bytes();
            EXPECT_GE(committed, size);
            for (const size_t soft : {(size_t)0, committed - 1, committed, committed + 1, SIZE_MAX}) {
                hak_limit_soft_set(soft);
                EXPECT_EQ(limit_soft_exceeded(), soft < committed) << soft << " of " << committed;
            }
            hak_limit_soft_set(SIZE_MAX);
            hak_free(block);
        }
    }));
}

// Each of the two has a figure of its own, which is 0 if there is no limit.
TEST_F(Limit, TheFiguresTellBoth)
{
    EXPECT_TRUE(test::in_child([] {
        for (const size_t hard : {SIZE_MAX, (size_t)1, 7 * MIB})
            for (const size_t soft : {SIZE_MAX, (size_t)2, 5 * MIB}) {
                hak_limit_set(hard);
                hak_limit_soft_set(soft);
                hak_figures figures;
                hak_figures_get(&figures, sizeof figures);
                EXPECT_EQ(figures.limit_bytes, hard != SIZE_MAX ? hard : 0);
                EXPECT_EQ(figures.limit_soft_bytes, soft != SIZE_MAX ? soft : 0);
            }
    }));
}

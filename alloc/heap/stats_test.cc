// stats_test.cc: the figures follow what is allocated and freed.
#include "heap/heap_test_support.h"

extern "C" {
#include "superslab/pool.h"
}

namespace {

class Stats : public test::HeapTest {
  protected:
    static hak_stats get()
    {
        hak_stats stats;
        hak_stats_get(&stats);
        return stats;
    }
};

using test::MIB;

} // namespace

TEST_F(Stats, AtRest)
{
    hak_stats stats = get();
    EXPECT_EQ(stats.slab_bytes, 0u);
    EXPECT_EQ(stats.small_bytes, 0u);
    EXPECT_EQ(stats.run_bytes, 0u);
    EXPECT_EQ(stats.huge_bytes, 0u);
    EXPECT_EQ(stats.huge_cached_bytes, 0u);
    EXPECT_EQ(stats.dirty_bytes, 0u);
    EXPECT_EQ(stats.reserved_bytes % SUPERSLAB_BYTES, 0u);
}

TEST_F(Stats, SmallBlocks)
{
    std::vector<void *> blocks;
    for (int i = 0; i < 100; i++) blocks.push_back(hak_malloc(1000));
    hak_stats stats = get();
    EXPECT_GE(stats.small_bytes, 100u * 1008);
    EXPECT_LE(stats.small_bytes, 100u * 1008 + CARVE_BYTES) << "and what was carved beyond";
    EXPECT_EQ(stats.slab_bytes, 2u * PAGE_BYTES) << "64 KiB hold 65 of them";
    EXPECT_EQ(stats.run_bytes, 0u);
    EXPECT_GE(stats.reserved_bytes, (size_t)SUPERSLAB_BYTES);
    for (size_t size : {5000u, 20000u}) blocks.push_back(hak_malloc(size));
    EXPECT_EQ(get().slab_bytes, (2u + 4 + 8) * PAGE_BYTES);
    for (void *block : blocks) hak_free(block);
    EXPECT_GE(get().small_bytes, 1u) << "in the thread's cache";
    hak_purge();
    EXPECT_EQ(get().small_bytes, 0u);
    EXPECT_EQ(get().slab_bytes, 0u);
}

TEST_F(Stats, Runs)
{
    void *first = hak_malloc(3 * PAGE_BYTES), *second = hak_malloc(5 * PAGE_BYTES - 1);
    EXPECT_EQ(get().run_bytes, 8u * PAGE_BYTES);
    hak_free(first);
    EXPECT_EQ(get().run_bytes, 5u * PAGE_BYTES);
    EXPECT_EQ(get().dirty_bytes, 3u * PAGE_BYTES);
    second = hak_realloc(second, PAGE_BYTES);
    EXPECT_EQ(get().run_bytes, (size_t)PAGE_BYTES);
    hak_free(second);
    EXPECT_EQ(get().run_bytes, 0u);
    EXPECT_EQ(hak_purge(), 8u * PAGE_BYTES);
    EXPECT_EQ(get().dirty_bytes, 0u);
}

TEST_F(Stats, HugeBlocks)
{
    size_t reserved = get().reserved_bytes;
    void *block = hak_malloc(5 * MIB);
    EXPECT_EQ(get().huge_bytes, 5 * MIB);
    EXPECT_EQ(get().reserved_bytes, reserved + 5 * MIB);
    block = hak_realloc(block, 9 * MIB);
    EXPECT_EQ(get().huge_bytes, 9 * MIB);
    hak_free(block);
    EXPECT_EQ(get().huge_bytes, 0u);
    EXPECT_EQ(get().huge_cached_bytes, 9 * MIB);
    EXPECT_EQ(get().reserved_bytes, reserved + 9 * MIB);
    EXPECT_EQ(hak_purge(), 9 * MIB);
    EXPECT_EQ(get().huge_cached_bytes, 0u);
    EXPECT_EQ(get().reserved_bytes, reserved);
}

TEST_F(Stats, Heaps)
{
    hak_free(hak_malloc(1));
    size_t orphans = get().orphan_count, heaps = get().heap_count;
    EXPECT_GE(heaps, 1u);
    test::in_thread([&] {
        hak_free(hak_malloc(1));
        EXPECT_EQ(get().heap_count, std::max(heaps, (size_t)2));
    });
    EXPECT_EQ(get().heap_count, std::max(heaps, (size_t)2));
    EXPECT_EQ(get().orphan_count, std::max(orphans, (size_t)1));
}

TEST_F(Stats, WhileOthersWork)
{
    static std::atomic<bool> done;
    done = false;
    std::thread busy([] {
        test::Rng rng;
        while (!done) {
            // Superslabs are made and released while the figures are read.
            void *runs[2 * EMPTY_SUPERSLABS_MIN + 8];
            for (void *&run : runs) run = hak_malloc(RUN_BYTES_MAX);
            for (int i = 0; i < 100; i++) hak_free(hak_malloc(rng.below(100000)));
            for (void *run : runs) hak_free(run);
            hak_purge();
        }
    });
    for (int i = 0; i < test::rounds(20000); i++) {
        hak_stats stats = get();
        EXPECT_LT(stats.reserved_bytes, (size_t)1 << 40);
        EXPECT_LE(stats.slab_bytes, stats.reserved_bytes);
    }
    done = true;
    busy.join();
}

TEST_F(Stats, Print)
{
    void *block = hak_malloc(5 * MIB);
    char *text = nullptr;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    hak_stats_print(stream);
    fclose(stream);
    std::string printed(text, length);
    free(text);
    for (const char *part : {"reserved", "slabs", "small blocks", "page runs", "5242880 bytes", "free, dirty", "heaps",
                             "PURGE_DELAY_MS", "HUGE_CACHE_MIB", "STATS"})
        EXPECT_NE(printed.find(part), std::string::npos) << part;
    size_t lines = 0, at = 0;
    for (size_t end; (end = printed.find('\n', at)) != std::string::npos; at = end + 1) {
        EXPECT_EQ(printed.compare(at, 8, "hakmem: "), 0);
        // Lines of the debug-validation build; counters_test.cc tests them.
        bool counter =
            printed.compare(at, 16, "hakmem: counter ") == 0 || printed.compare(at, 14, "hakmem: class ") == 0;
        bool check = printed.find("hakmem: option FAILFAST", at) == at;
        EXPECT_TRUE(VALIDATE || (!counter && !check));
        if (!counter && !check) lines++;
    }
    EXPECT_EQ(lines, 15u);
    hak_free(block);
}

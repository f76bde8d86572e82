// cached_test.cc: what the figures say of free blocks in caches. Used is live plus cached, to the byte, wherever a block was
// freed; only the bin of another thread that has not ended, and what it has staged, cannot be told from live blocks.
#include "heap/heap_test_support.h"

#include <semaphore>

extern "C" {
#include "cache/cached.h"
#include "cache/credits.h"
}

namespace {

class Cached : public test::HeapTest {
  protected:
    static inline const size_t kSizes[] = {16, 64, 208, 512, 1008, 2000, 5000, 16000, SMALL_BYTES_MAX};
    static inline const size_t kCounts[] = {1, 40, 1000, 6000};

    static std::vector<void *> allocated(size_t size, size_t count)
    {
        std::vector<void *> blocks(count);
        for (void *&block : blocks) block = hak_malloc(size);
        return blocks;
    }
    // Frees all but each third. Returns how many bytes stay.
    static size_t free_some(std::vector<void *> &blocks)
    {
        std::vector<void *> live;
        for (size_t i = 0; i < blocks.size(); i++)
            if (i % 3 == 0) live.push_back(blocks[i]);
            else hak_free(blocks[i]);
        blocks = live;
        size_t bytes = 0;
        for (void *block : blocks) bytes += hak_malloc_usable_size(block);
        return bytes;
    }
    static void free_all(const std::vector<void *> &blocks)
    {
        for (void *block : blocks) hak_free(block);
    }
    // Bytes that count as used, and are not known to be cached.
    static size_t used_bytes()
    {
        hak_stats stats;
        hak_stats_get(&stats);
        EXPECT_EQ(stats.small_cached_bytes, cached_bytes());
        hak_figures figures;
        hak_figures_get(&figures, sizeof figures);
        EXPECT_EQ(figures.cached_bytes, stats.small_cached_bytes);
        return stats.small_bytes - stats.small_cached_bytes;
    }
    static void for_each_case(const std::function<void(size_t size, size_t count)> &body)
    {
        for (size_t size : kSizes)
            for (size_t count : kCounts) {
                if (size * count > 32 * test::MIB) continue;
                SCOPED_TRACE(testing::Message() << count << " blocks of " << size << " bytes");
                hak_purge_all();
                body(size, count);
            }
    }
};

} // namespace

TEST_F(Cached, InTheCallingThread)
{
    for_each_case([](size_t size, size_t count) {
        std::vector<void *> blocks = allocated(size, count);
        EXPECT_EQ(used_bytes(), count * hak_malloc_usable_size(blocks[0])) << "the other carved blocks are cached";
        size_t live = free_some(blocks);
        EXPECT_EQ(used_bytes(), live);
        free_all(blocks);
        EXPECT_EQ(used_bytes(), 0u);
    });
}

TEST_F(Cached, InTheHeapOfAThreadThatHasEnded)
{
    for_each_case([](size_t size, size_t count) {
        std::vector<void *> blocks;
        size_t live = 0;
        test::in_thread([&] {
            blocks = allocated(size, count);
            live = free_some(blocks);
        });
        EXPECT_EQ(used_bytes(), live);
        EXPECT_EQ(used_bytes(), live) << "to look changes nothing";
        test::in_thread([&] { free_all(blocks); });
        EXPECT_EQ(used_bytes(), 0u);
    });
}

TEST_F(Cached, FreedByAnotherThread)
{
    for_each_case([](size_t size, size_t count) {
        std::vector<void *> blocks = allocated(size, count);
        size_t live = 0;
        test::in_thread([&] { live = free_some(blocks); });
        EXPECT_EQ(used_bytes(), live) << "posted, and not drained";
        free_all(blocks);
        EXPECT_EQ(used_bytes(), 0u);
    });
}

TEST_F(Cached, OfAThreadThatSleepsAllButItsBins)
{
    for_each_case([](size_t size, size_t count) {
        std::binary_semaphore ready{0}, go{0};
        std::vector<void *> blocks;
        size_t live = 0, bin = 0;
        std::thread thread([&] {
            blocks = allocated(size, count);
            live = free_some(blocks);
            const uint32_t class_index = sizeclass_of(size);
            bin =
                (size_t)heap_credit_now(tcache_self()->heap, class_index) * sizeclass_bytes(class_index) + CARVE_BYTES;
            ready.release();
            go.acquire();
            free_all(blocks);
        });
        ready.acquire();
        const size_t used = used_bytes();
        EXPECT_GE(used, live);
        EXPECT_LE(used, live + std::max<size_t>(bin, (size_t)sizeclass_bytes(sizeclass_of(size)) * SLAB_BLOCKS_MIN));
        go.release();
        thread.join();
    });
}

// calloc_test.cc: every byte is zero, whatever the memory held before.
#include "heap/heap_test_support.h"

extern "C" {
#include "superslab/pool.h"
#include "superslab/purge.h"
}

namespace {

class Calloc : public test::HeapTest {};

void dirty_then_check(size_t size, bool purge)
{
    std::vector<void *> blocks;
    for (int i = 0; i < 8; i++) {
        void *block = hak_malloc(size);
        ASSERT_NE(block, nullptr);
        memset(block, 0xff, hak_malloc_usable_size(block));
        blocks.push_back(block);
    }
    for (void *block : blocks) hak_free(block);
    if (purge) hak_purge();
    blocks.clear();
    for (int i = 0; i < 9; i++) {
        void *block = hak_calloc(1, size);
        ASSERT_NE(block, nullptr);
        ASSERT_TRUE(test::is_zero(block, size, size > 100000 ? 64 : 1)) << size;
        memset(block, 0xff, hak_malloc_usable_size(block));
        blocks.push_back(block);
    }
    for (void *block : blocks) hak_free(block);
}

} // namespace

TEST_F(Calloc, AfterDirtyFrees)
{
    for (size_t size : test::all_kinds_of_sizes()) dirty_then_check(size, false);
}

TEST_F(Calloc, AfterPurges)
{
    for (size_t size : test::all_kinds_of_sizes()) dirty_then_check(size, true);
}

TEST_F(Calloc, RunsOfCleanAndDirtyPagesMixed)
{
    test::Rng rng;
    std::vector<std::pair<char *, size_t>> held;
    for (int i = 0; i < test::rounds(1500); i++) {
        if (held.size() < 20 && rng.below(2) == 0) {
            size_t size = rng.between(SMALL_BYTES_MAX + 1, 12 * PAGE_BYTES);
            char *run = static_cast<char *>(hak_calloc(size, 1));
            ASSERT_TRUE(test::is_zero(run, size, 1024));
            if (rng.below(2) == 0) test::pattern_fill(run, size, 1, 1024);
            held.emplace_back(run, size);
        } else if (rng.below(20) == 0) {
            pool_purge_all();
        } else if (!held.empty()) {
            size_t at = rng.below(held.size());
            if (rng.below(4) == 0) {
                // A run grows over dirty pages and is freed: they must stay dirty.
                held[at].first = static_cast<char *>(hak_realloc(held[at].first, held[at].second + 3 * PAGE_BYTES));
                held[at].second += 3 * PAGE_BYTES;
                if (held[at].second > RUN_BYTES_MAX / 2) held[at].second = RUN_BYTES_MAX / 4;
            }
            hak_free(held[at].first);
            held[at] = held.back();
            held.pop_back();
        }
    }
    for (auto [run, size] : held) hak_free(run);
}

TEST_F(Calloc, Products)
{
    for (auto [count, size] : std::vector<std::pair<size_t, size_t>>{
             {0, 0}, {0, 100}, {100, 0}, {1, 1}, {3, 5}, {16, 2048}, {1, 32769}, {300, 300}}) {
        void *block = hak_calloc(count, size);
        ASSERT_NE(block, nullptr);
        EXPECT_GE(hak_malloc_usable_size(block), count * size);
        EXPECT_TRUE(test::is_zero(block, count * size));
        hak_free(block);
    }
    for (auto [count, size] : std::vector<std::pair<size_t, size_t>>{{SIZE_MAX, 2},
                                                                     {2, SIZE_MAX},
                                                                     {(size_t)1 << 32, (size_t)1 << 32}, // wraps to 0
                                                                     {SIZE_MAX / 2 + 2, 2},
                                                                     {SIZE_MAX, SIZE_MAX},
                                                                     {1, SIZE_MAX},
                                                                     {(size_t)PTRDIFF_MAX + 1, 1},
                                                                     {(size_t)1 << 62, 1}}) {
        errno = 0;
        EXPECT_EQ(hak_calloc(count, size), nullptr) << count << " " << size;
        EXPECT_EQ(errno, ENOMEM);
    }
}

TEST_F(Calloc, ToTheEndOfWhatMayBeUsed)
{
    if (SANITIZED) GTEST_SKIP() << "the bytes behind the size are poisoned";
    for (size_t size : test::all_kinds_of_sizes()) {
        if (size > 10 << 20) continue;
        for (size_t asked : {size, size - size / 20, size - size / 10}) {
            std::vector<void *> blocks;
            for (int i = 0; i < 4; i++) {
                blocks.push_back(hak_malloc(size));
                ASSERT_NE(blocks.back(), nullptr);
                memset(blocks.back(), 0xff, hak_malloc_usable_size(blocks.back()));
            }
            for (void *block : blocks) hak_free(block);
            for (void *&block : blocks) {
                block = hak_calloc(1, asked);
                ASSERT_NE(block, nullptr);
                ASSERT_TRUE(test::is_zero(block, hak_malloc_usable_size(block), 1)) << asked << " of " << size;
            }
            for (void *block : blocks) hak_free(block);
        }
    }
}

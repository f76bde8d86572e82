// calloc_test.cc: every byte is zero, whatever the memory held before.
#include "heap/heap_test_support.h"

#include <sys/mman.h>

extern "C" {
#include "heap/huge.h"
#include "os/os_fault.h"
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

// How many of the system's pages of a block are resident.
size_t resident_pages(const char *block, size_t size)
{
    const size_t page = (size_t)getpagesize();
    std::vector<unsigned char> in_core((size + page - 1) / page);
    EXPECT_EQ(mincore(const_cast<char *>(block), size, in_core.data()), 0);
    size_t pages = 0;
    for (unsigned char each : in_core) pages += each & 1u;
    return pages;
}

char *zeroed(size_t size)
{
    return static_cast<char *>(hak_calloc(1, size));
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

// A run is written as far as its block goes, by the program and by calloc: the rest of its last page takes no memory, in
// however many rounds.
TEST_F(Calloc, OfARunTouchesNoPageBehindTheBlock)
{
    SKIP_UNDER_SANITIZER("it marks each byte of a block");
    if (VALIDATE) GTEST_SKIP() << "frames take all of a block";
    const size_t page = (size_t)getpagesize();
    for (size_t size = SMALL_BYTES_MAX + 1; size <= RUN_BYTES_MAX; size += size / 5 + 977) {
        hak_purge_all();
        for (int round = 0; round < 4; round++) {
            char *block = round % 2 == 0 ? zeroed(size) : static_cast<char *>(hak_malloc(size));
            if (round % 2 == 0) ASSERT_TRUE(test::is_zero(block, size, 64)) << size;
            memset(block, 0xff, size);
            EXPECT_EQ(resident_pages(block, (size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES),
                      (size + page - 1) / page)
                << size << ", round " << round;
            hak_free(block);
        }
    }
}

// What the program may use is zero, whatever used the pages before: a longer or shorter block, one whose whole length was
// used, a resized one, small blocks.
TEST_F(Calloc, IsZeroAsFarAsTheProgramMayUse)
{
    test::Rng rng;
    for (int i = 0; i < test::rounds(3000); i++) {
        char *before = static_cast<char *>(hak_malloc(rng.between(SMALL_BYTES_MAX / 2, 6 * PAGE_BYTES)));
        if (rng.below(3) == 0)
            before = static_cast<char *>(hak_realloc(before, rng.between(SMALL_BYTES_MAX, 6 * PAGE_BYTES)));
        memset(before, 0xff, hak_malloc_usable_size(before));
        hak_free(before);
        const size_t size = rng.between(SMALL_BYTES_MAX + 1, 6 * PAGE_BYTES);
        char *block = zeroed(size);
        if (SANITIZED) {
            ASSERT_TRUE(test::is_zero(block, size, 16)) << i;
        } else {
            ASSERT_TRUE(test::is_zero(block, hak_malloc_usable_size(block), 16)) << i;
        }
        memset(block, 0xff, size); // the next round may find the rest as it is
        hak_free(block);
        if (rng.below(2) == 0) {
            block = static_cast<char *>(hak_malloc(rng.between(SMALL_BYTES_MAX + 1, 6 * PAGE_BYTES)));
            memset(block, 0xff, 100);
            hak_free(block);
        }
    }
}

// The same after each pair of malloc, calloc and realloc of lengths that share their last page or do not, of which the program
// used the size or all that there was: in pages that a shorter block left, in the run that was kept, and in freed ones.
TEST_F(Calloc, IsZeroAfterEachPairOfCalls)
{
    SKIP_UNDER_SANITIZER("the bytes behind the size are poisoned, and other tests say the rest");
    enum { MALLOC, CALLOC, REALLOC, KINDS };
    const size_t sizes[] = {PAGE_BYTES - 20000, 2 * PAGE_BYTES - 30000, 2 * PAGE_BYTES - 10000, 3 * PAGE_BYTES - 20000};
    constexpr size_t size_count = std::size(sizes), calls = KINDS * size_count * 2;
    const auto call = [&](char *block, size_t number) {
        const size_t kind = number % KINDS, size = sizes[number / KINDS % size_count];
        if (kind != REALLOC) hak_free(block);
        block = kind == MALLOC   ? static_cast<char *>(hak_malloc(size))
                : kind == CALLOC ? zeroed(size)
                                 : static_cast<char *>(hak_realloc(block, size));
        if (kind == CALLOC) EXPECT_TRUE(test::is_zero(block, size, 16));
        memset(block, 0xff, number / KINDS / size_count == 0 ? size : hak_malloc_usable_size(block));
        return block;
    };
    const auto check = [](size_t size) {
        char *block = zeroed(size);
        EXPECT_TRUE(test::is_zero(block, hak_malloc_usable_size(block), 16)) << size;
        return block;
    };
    for (size_t pair = 0; pair < calls * calls && !HasFailure(); pair++) {
        SCOPED_TRACE(pair);
        for (size_t size : sizes) {
            hak_purge_all();
            void *other = hak_malloc(2 * PAGE_BYTES);
            char *block = call(call(nullptr, pair % calls), pair / calls);
            char *beside = check(size);
            hak_free(block);
            hak_free(other); // now the block's run is free, not kept
            hak_free(check(size));
            hak_free(beside);
        }
    }
}

// Of a cached mapping with little in it: one call to the system, whatever its length, and no memory but for what the program
// touches. One that is full of data is cleared in place.
TEST_F(Calloc, OfACachedMappingCostsWhatItHolds)
{
    SKIP_UNDER_SANITIZER("it marks each byte of a block");
    if (VALIDATE) GTEST_SKIP() << "junk is written into freed blocks";
    huge_set_cache_bytes(256 * test::MIB);
    const size_t page = (size_t)getpagesize();
    for (size_t mib : {3u, 5u, 16u, 64u}) {
        for (size_t touched : {0u, 2u, 40u}) {
            hak_purge_all();
            const size_t size = mib * test::MIB;
            for (int round = 0; round < 3; round++) {
                os_fault_install(0, false);
                char *block = zeroed(size);
                const uint64_t calls = os_fault_remove();
                if (round > 0) EXPECT_LE(calls, 1u) << mib << " MiB";
                ASSERT_TRUE(test::is_zero(block, page)) << mib;
                for (size_t i = 0; i < touched; i++) {
                    char *at = block + i * (size / touched);
                    ASSERT_EQ(*at, 0) << mib << ", " << i;
                    *at = 1;
                }
                EXPECT_LE(resident_pages(block, size), touched + 16) << mib << " MiB, round " << round;
                hak_free(block);
            }
        }
        char *block = static_cast<char *>(hak_malloc(mib * test::MIB));
        memset(block, 0xff, mib * test::MIB);
        hak_free(block);
        os_fault_install(0, false);
        char *again = zeroed(mib * test::MIB);
        EXPECT_EQ(os_fault_remove(), 0u);
        EXPECT_EQ(again, block) << "the mapping was cached";
        EXPECT_TRUE(test::is_zero(again, mib * test::MIB, 64));
        hak_free(again);
    }
    huge_set_cache_bytes(HUGE_CACHE_BYTES_MAX);
}

// huge_test.cc: huge blocks: the cache of mappings, growing, moving, giving back. More than 400 lines: all begin and end with
// an empty cache.
#include "heap/heap_test_support.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

extern "C" {
#include "heap/huge.h"
#include "heap/huge_cache.h"
#include "os/os.h"
#include "os/os_fault.h"
#include "superslab/pagemap.h"
}

namespace {

using test::is_mapped;
using test::MIB;

constexpr size_t GIB = 1024 * MIB;
constexpr size_t STEP = 4096;

char *alloc(size_t size)
{
    return static_cast<char *>(hak_malloc(size));
}
char *resize(char *block, size_t size)
{
    return static_cast<char *>(hak_realloc(block, size));
}

class Huge : public test::HeapTest {
  protected:
    void SetUp() override
    {
        HeapTest::SetUp();
        EXPECT_EQ(huge_figures().live_bytes, 0u);
        EXPECT_EQ(huge_figures().cached_bytes, 0u);
    }
    void TearDown() override
    {
        EXPECT_EQ(huge_figures().live_count, 0u);
        huge_set_cache_bytes(HUGE_CACHE_BYTES_MAX);
        HeapTest::TearDown();
        EXPECT_EQ(huge_figures().live_bytes, 0u);
        EXPECT_EQ(huge_figures().cached_bytes, 0u);
    }
};

size_t mapping_count()
{
    char text[4096];
    size_t lines = 0;
    int fd = open("/proc/self/maps", O_RDONLY);
    for (ssize_t got; (got = read(fd, text, sizeof text)) > 0;) lines += std::count(text, text + got, '\n');
    close(fd);
    return lines;
}

} // namespace

TEST_F(Huge, SizesAroundTheFirst)
{
    for (size_t size : {(size_t)RUN_BYTES_MAX + 1, (size_t)SUPERSLAB_BYTES - 1, (size_t)SUPERSLAB_BYTES,
                        (size_t)SUPERSLAB_BYTES + 1, 9 * MIB}) {
        char *block = alloc(size);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(test::is_aligned(block, PAGE_BYTES));
        size_t usable = hak_malloc_usable_size(block);
        EXPECT_GE(usable, size);
        EXPECT_LT(usable - size, (size_t)PAGE_BYTES);
        EXPECT_EQ(huge_figures().live_bytes, usable);
        test::pattern_fill(block, usable, size, STEP);
        EXPECT_TRUE(test::pattern_holds(block, usable, size, STEP));
        hak_free(block);
        EXPECT_EQ(huge_figures().live_bytes, 0u);
        hak_purge();
    }
}

// The system has a limit on mappings (vm.max_map_count), and each call costs time.
TEST_F(Huge, NewBlocksLieSideBySideAndCostOneCall)
{
    SKIP_UNDER_SANITIZER("its shadow has mappings of its own");
    const size_t count = 500, slices = 2 * 2 * 2; // of the page map: reserved and committed for each GiB
    hak_free(alloc(3 * MIB));
    hak_purge();
    const size_t before = mapping_count();
    os_fault_install(0, false);
    std::vector<char *> blocks;
    for (size_t i = 0; i < count; i++) blocks.push_back(alloc(RUN_BYTES_MAX + 1));
    EXPECT_LE(os_fault_remove(), count + slices + 20) << "a hole that fits is not aligned, then there are three";
    EXPECT_LE(mapping_count(), before + 20);
    for (char *block : blocks) hak_free(block);
}

TEST_F(Huge, EveryAlignment)
{
    for (size_t align = 1; align <= 64 * MIB; align *= 2)
        for (size_t size : {(size_t)1, (size_t)RUN_BYTES_MAX + 1, 5 * MIB}) {
            char *first = static_cast<char *>(hak_aligned_alloc(align, size));
            char *second = static_cast<char *>(hak_aligned_alloc(align, size));
            ASSERT_NE(first, nullptr);
            ASSERT_NE(second, nullptr);
            EXPECT_TRUE(test::is_aligned(first, align));
            EXPECT_TRUE(test::is_aligned(second, align));
            first[hak_malloc_usable_size(first) - 1] = 1;
            second[hak_malloc_usable_size(second) - 1] = 1;
            hak_free(first);
            hak_free(second);
        }
}

TEST_F(Huge, AFreedMappingServesTheNextOfItsSize)
{
    char *block = alloc(8 * MIB);
    memset(block, 7, 8 * MIB);
    hak_free(block);
    EXPECT_EQ(huge_figures().cached_bytes, 8 * MIB);
    EXPECT_EQ(alloc(8 * MIB), block);
    EXPECT_EQ(huge_figures().cached_bytes, 0u);
    EXPECT_EQ(huge_figures().live_bytes, 8 * MIB);
    hak_free(block);
    char *longer = alloc(8 * MIB + 1);
    EXPECT_NE(longer, block);
    hak_free(longer);
    hak_purge();
    for (size_t more : {(size_t)0, (size_t)PAGE_BYTES}) { // it may waste an eighth, and not a page more
        hak_free(longer = alloc(9 * MIB + more));
        block = alloc(8 * MIB);
        EXPECT_EQ(block == longer, more == 0);
        EXPECT_EQ(huge_figures().live_bytes, more == 0 ? 9 * MIB : 8 * MIB);
        hak_free(block);
        hak_purge();
    }
}

// In either order of freeing. The larger one fits too and wastes less than an eighth.
TEST_F(Huge, TheSmallestCachedMappingThatFitsIsTaken)
{
    for (bool larger_first : {false, true}) {
        char *larger = alloc(10 * MIB), *smaller = alloc(10 * MIB - MIB / 2);
        ASSERT_NE(larger, nullptr);
        ASSERT_NE(smaller, nullptr);
        hak_free(larger_first ? larger : smaller);
        hak_free(larger_first ? smaller : larger);
        char *block = alloc(9 * MIB + MIB / 4);
        EXPECT_EQ(block, smaller);
        char *other = alloc(9 * MIB + MIB / 4);
        EXPECT_EQ(other, larger);
        hak_free(block);
        hak_free(other);
        hak_purge();
    }
}

TEST_F(Huge, TheCacheHonoursAlignment)
{
    char *block = static_cast<char *>(hak_aligned_alloc(SUPERSLAB_BYTES, 4 * MIB));
    hak_free(block);
    char *aligned = static_cast<char *>(hak_aligned_alloc(64 * MIB, 4 * MIB));
    EXPECT_TRUE(test::is_aligned(aligned, 64 * MIB));
    hak_free(aligned);
}

TEST_F(Huge, TheCacheIsBounded)
{
    std::vector<char *> blocks;
    for (int i = 0; i < HUGE_CACHE_ENTRIES + 8; i++) blocks.push_back(alloc(3 * MIB));
    for (char *block : blocks) {
        hak_free(block);
        ASSERT_LE(huge_figures().cached_bytes, (size_t)HUGE_CACHE_ENTRIES * 3 * MIB);
    }
    EXPECT_EQ(huge_figures().cached_bytes, (size_t)HUGE_CACHE_ENTRIES * 3 * MIB);
    EXPECT_FALSE(is_mapped(blocks[0])) << "the oldest goes first";
    EXPECT_TRUE(is_mapped(blocks.back()));
    char *block = alloc(HUGE_CACHE_BYTES_MAX / 2 + 1);
    hak_free(block);
    EXPECT_FALSE(is_mapped(block)) << "more than half the cache is not kept";
    huge_purge_all();
    huge_set_cache_bytes(0);
    hak_free(block = alloc(3 * MIB));
    EXPECT_EQ(huge_figures().cached_bytes, 0u);
    EXPECT_FALSE(is_mapped(block));
}

// Half of the cache's bytes is the largest block that it keeps, and two of them fill it to its last byte. The next one
// drives out the oldest, and no other.
TEST_F(Huge, TheCacheIsFullToItsLastByte)
{
    const size_t half = HUGE_CACHE_BYTES_MAX / 2;
    char *blocks[] = {alloc(half), alloc(half), alloc(RUN_BYTES_MAX + 1)};
    for (char *block : blocks) ASSERT_NE(block, nullptr);
    const size_t small = hak_malloc_usable_size(blocks[2]);
    hak_free(blocks[0]);
    EXPECT_EQ(huge_figures().cached_bytes, half);
    hak_free(blocks[1]);
    EXPECT_EQ(huge_figures().cached_bytes, 2 * half);
    EXPECT_TRUE(huge_any_cached());
    hak_free(blocks[2]);
    EXPECT_EQ(huge_figures().cached_bytes, half + small);
    EXPECT_FALSE(is_mapped(blocks[0]));
    EXPECT_EQ(alloc(half), blocks[1]);
    EXPECT_EQ(alloc(small), blocks[2]);
    EXPECT_FALSE(huge_any_cached());
    hak_free(blocks[1]);
    hak_free(blocks[2]);
}

// A program that only frees gives back what has been idle for a delay.
TEST_F(Huge, AFreeReleasesAfterTheDelay)
{
    char *first = alloc(8 * MIB), *second = alloc(3 * MIB);
    huge_set_delay_ms(10);
    hak_free(first);
    usleep(PURGE_DELAY_MS * 1000); // also the delay of a round that has just been
    hak_free(second);
    huge_set_delay_ms(PURGE_DELAY_MS);
    EXPECT_FALSE(is_mapped(first));
    EXPECT_TRUE(is_mapped(second));
}

TEST_F(Huge, TickReleasesAfterTheDelay)
{
    static uint64_t later = os_now_ms();
    char *block = alloc(8 * MIB);
    hak_free(block);
    uint64_t cached = os_now_ms();
    later = std::max(later, cached) + PURGE_DELAY_MS / 2;
    huge_tick(later);
    EXPECT_EQ(huge_figures().cached_bytes, 8 * MIB) << "half a delay";
    later += 2 * PURGE_DELAY_MS;
    huge_tick(later);
    EXPECT_EQ(huge_figures().cached_bytes, 0u);
    EXPECT_FALSE(is_mapped(block));
}

TEST_F(Huge, GrowsAndMovesWithItsContent)
{
    char *block = alloc(3 * MIB);
    test::pattern_fill(block, 3 * MIB, 1, STEP);
    size_t size = 3 * MIB;
    std::vector<char *> others;
    for (int i = 0; i < 8; i++) {
        if (i % 2 == 1) others.push_back(alloc(3 * MIB)); // sometimes blocks the growth
        size_t more = size + 3 * MIB + (size_t)i * 1000;
        block = resize(block, more);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(test::is_aligned(block, PAGE_BYTES));
        EXPECT_GE(hak_malloc_usable_size(block), more);
        EXPECT_TRUE(test::pattern_holds(block, 3 * MIB, 1, STEP));
        block[more - 1] = 1;
        size = more;
    }
    for (char *other : others) hak_free(other);
    EXPECT_EQ(huge_figures().live_bytes, hak_malloc_usable_size(block));
    hak_free(block);
}

TEST_F(Huge, GrowsInPlaceWhereThereIsRoom)
{
    // Makes room behind the block by cutting off its tail.
    char *block = alloc(32 * MIB);
    test::pattern_fill(block, 8 * MIB, 2, STEP);
    ASSERT_EQ(resize(block, 8 * MIB), block);
    EXPECT_EQ(hak_malloc_usable_size(block), 8 * MIB);
    EXPECT_FALSE(is_mapped(block + 8 * MIB)) << "a shrink gives the memory back";
    EXPECT_EQ(huge_figures().live_bytes, 8 * MIB);
    char *grown = resize(block, 16 * MIB);
    EXPECT_EQ(grown, block);
    EXPECT_TRUE(test::pattern_holds(grown, 8 * MIB, 2, STEP));
    EXPECT_TRUE(test::is_zero(grown + 8 * MIB, 8 * MIB, STEP)) << "new memory";
    EXPECT_EQ(huge_figures().live_bytes, 16 * MIB);
    hak_free(grown);
}

TEST_F(Huge, SmallShrinksStayAndSmallSizesMove)
{
    char *block = alloc(8 * MIB);
    test::pattern_fill(block, 8 * MIB, 3, STEP);
    EXPECT_EQ(resize(block, 7 * MIB), block);
    EXPECT_EQ(hak_malloc_usable_size(block), 8 * MIB) << "not worth a system call";
    EXPECT_EQ(resize(block, 6 * MIB), block);
    EXPECT_EQ(hak_malloc_usable_size(block), 8 * MIB) << "a quarter";
    EXPECT_EQ(resize(block, 6 * MIB - PAGE_BYTES), block) << "more than that";
    EXPECT_EQ(hak_malloc_usable_size(block), 6 * MIB - PAGE_BYTES);
    os_fault_install(0, false);
    EXPECT_EQ(resize(block, MIB), block) << "no copy";
    EXPECT_EQ(resize(block, HUGE_SHRUNK_BYTES_MIN), block);
    EXPECT_LE(os_fault_remove(), 2u);
    EXPECT_EQ(hak_malloc_usable_size(block), size_t{HUGE_SHRUNK_BYTES_MIN});
    EXPECT_FALSE(is_mapped(block + MIB)) << "the memory went back";
    char *run = resize(block, HUGE_SHRUNK_BYTES_MIN / 2 - 1);
    ASSERT_NE(run, nullptr);
    EXPECT_NE(run, block);
    for (size_t i = 0; i + 1 < HUGE_SHRUNK_BYTES_MIN / 2; i += STEP)
        ASSERT_EQ((unsigned char)run[i], test::pattern_byte(3, i));
    char *small = resize(run, 100);
    EXPECT_EQ((unsigned char)small[0], test::pattern_byte(3, 0));
    hak_free(small);
}

// Each is a mapping, of which a process may have 65530. Such a mapping is too short for any other block, so it is not cached.
TEST_F(Huge, FewOfThemStayWhenTheyShrinkToARun)
{
    std::vector<char *> blocks;
    for (size_t i = 0; i < HUGE_SHRUNK_LIVE_MAX + 100; i++) blocks.push_back(alloc(3 * MIB));
    size_t moved = 0;
    for (char *&block : blocks) {
        char *shrunk = resize(block, MIB);
        if (shrunk != block) moved++;
        block = shrunk;
    }
    EXPECT_EQ(moved, 100u);
    for (char *block : blocks) hak_free(block);
    EXPECT_EQ(huge_figures().live_bytes, 0u);
    EXPECT_LE(huge_figures().cached_bytes, size_t{HUGE_CACHE_BYTES_MAX});
    hak_purge();
    char *block = resize(alloc(3 * MIB), MIB), *longer = resize(block, 4 * MIB);
    ASSERT_NE(longer, nullptr);
    hak_free(resize(longer, MIB));
    EXPECT_EQ(huge_figures().cached_bytes, 0u);
}

TEST_F(Huge, BeyondTwoGibibytes)
{
    SKIP_UNDER_SANITIZER("its shadow of gigabytes would have to be real");
    size_t size = 2 * GIB + 4097;
    char *block = alloc(size);
    ASSERT_NE(block, nullptr);
    block[0] = 1;
    block[size - 1] = 2;
    void *beside = alloc(3 * MIB);
    block = resize(block, 5 * GIB);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(block[0], 1);
    EXPECT_EQ(block[size - 1], 2);
    EXPECT_EQ(block[5 * GIB - 1], 0);
    block[5 * GIB - 1] = 3;
    EXPECT_EQ(hak_malloc_usable_size(block), 5 * GIB);
    block = resize(block, 3 * GIB);
    EXPECT_EQ(block[size - 1], 2);
    EXPECT_EQ(hak_malloc_usable_size(block), 3 * GIB);
    hak_free(block);
    hak_free(beside);
    auto *zeros = static_cast<char *>(hak_calloc(3, GIB));
    ASSERT_NE(zeros, nullptr);
    EXPECT_EQ(zeros[3 * GIB - 1], 0);
    hak_free(zeros);
}

TEST_F(Huge, AMappingThatTheProgramSplitStillGrows)
{
    // madvise on a part of the block (numpy does so, for huge pages) splits the mapping in the kernel, and mremap
    // refuses a range of two mappings. The block must still grow.
    for (int advice : {MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTFORK}) {
        char *block = alloc(16 * MIB);
        if (madvise(block + 4096, 8 * MIB, advice) != 0) {
            hak_free(block);
            continue;
        }
        test::pattern_fill(block, 16 * MIB, 4, STEP);
        char *grown = resize(block, 64 * MIB);
        EXPECT_NE(grown, nullptr) << "advice " << advice << ": " << strerror(errno);
        if (grown == nullptr) grown = block;
        EXPECT_TRUE(test::pattern_holds(grown, 16 * MIB - 1, 4, STEP));
        hak_free(grown);
        hak_purge();
    }
}

TEST_F(Huge, WhatTheSystemDoesNotTakeBackIsTriedAgain)
{
    char *first = alloc(40 * MIB), *second = alloc(40 * MIB); // too large for the cache
    memset(first, 1, MIB);
    huge_tick(os_now_ms() + PURGE_DELAY_MS); // so that none is due in hak_free: it would try again
    os_fault_install(1, false);
    hak_free(first);
    EXPECT_EQ(os_fault_failures(), 1u);
    EXPECT_EQ(os_fault_remove(), 2u) << "its memory at least went back";
    EXPECT_TRUE(is_mapped(first));
    EXPECT_EQ(huge_figures().live_bytes, 40 * MIB);
    hak_free(second);
    EXPECT_FALSE(is_mapped(second));
    EXPECT_FALSE(is_mapped(first)) << "and now the mapping";
}

TEST_F(Huge, RefusedByTheSystem)
{
    os_fault_install(1, true);
    errno = 0;
    EXPECT_EQ(alloc(8 * MIB), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    os_fault_remove();
    EXPECT_EQ(huge_figures().live_bytes, 0u);
    char *block = alloc(8 * MIB);
    test::pattern_fill(block, 8 * MIB, 5, STEP);
    os_fault_install(1, true);
    errno = 0;
    EXPECT_EQ(resize(block, 16 * MIB), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(resize(block, 3 * MIB), block) << "a shrink that the system refuses keeps the block";
    os_fault_remove();
    /* Asked first: the program may use these bytes only after that. */
    EXPECT_EQ(hak_malloc_usable_size(block), 8 * MIB);
    EXPECT_TRUE(test::pattern_holds(block, 8 * MIB, 5, STEP));
    EXPECT_EQ(huge_figures().live_bytes, 8 * MIB);
    hak_free(block);
}

TEST_F(Huge, TheCacheIsGivenUpWhenTheSystemRefuses)
{
    hak_free(alloc(8 * MIB));
    EXPECT_EQ(huge_figures().cached_bytes, 8 * MIB);
    os_fault_install(1, false); // the first try to map
    char *block = alloc(20 * MIB);
    os_fault_remove();
    EXPECT_NE(block, nullptr);
    EXPECT_EQ(huge_figures().cached_bytes, 0u);
    hak_free(block);
}

TEST_F(Huge, ThreadsShareTheCache)
{
    static std::atomic<int> wrong;
    wrong = 0;
    test::in_threads(4, [](int thread) {
        test::Rng rng((uint64_t)thread);
        for (int i = 0; i < test::rounds(1500); i++) {
            size_t size = (rng.below(6) + 3) * MIB;
            char *block = alloc(size);
            block[0] = (char)(thread + 1);
            block[size - 1] = (char)(thread + 1);
            if (rng.below(4) == 0) {
                block = resize(block, size + 5 * MIB);
                if (block[size - 1] != thread + 1) wrong++;
            }
            if (block[0] != thread + 1) wrong++;
            hak_free(block);
            if (rng.below(50) == 0) hak_purge();
        }
    });
    EXPECT_EQ(wrong, 0);
}

// The largest is longer than what one table of the page map describes; a system that counts what it gives refuses it.
TEST_F(Huge, IsFoundFromAnyOfItsBytes)
{
    SKIP_UNDER_SANITIZER("it keeps books of every byte");
    for (const size_t size : {3 * MIB, GIB, 600 * GIB}) {
        char *start, *block = alloc(size);
        size_t mapped_bytes;
        if (block == nullptr && size > GIB)
            GTEST_SKIP() << "the system gives no " << size / GIB << " GiB of address space";
        ASSERT_NE(block, nullptr);
        for (size_t part = 0; part < 600; part++)
            for (size_t offset : {size / 600 * part, size / 600 * part + 1, size - 1 - size / 600 * part}) {
                ASSERT_TRUE(huge_find(block + offset, &start, &mapped_bytes)) << offset << " of " << size;
                EXPECT_EQ(start, block);
                EXPECT_EQ(mapped_bytes, size);
            }
        EXPECT_FALSE(huge_find(block + size, &start, &mapped_bytes));
        EXPECT_FALSE(huge_find(block + size + PAGE_BYTES, &start, &mapped_bytes));
        hak_free(block);
        EXPECT_FALSE(huge_find(block + size / 2, &start, &mapped_bytes));
    }
}

// A mapping from the cache serves the next block as a fresh one does, whichever kind of block had it before.
TEST_F(Huge, ACachedMappingServesEachKind)
{
    for (const bool was_exact : {false, true})
        for (const bool is_exact : {false, true})
            for (const size_t size : {3 * MIB, 3 * MIB - (size_t)PAGE_BYTES + 1}) {
                const auto take = [size](bool exact) {
                    return static_cast<char *>(exact ? huge_alloc_exact(GRANULE_BYTES, size, false)
                                                     : huge_alloc(GRANULE_BYTES, size, false));
                };
                hak_purge();
                char *fresh = take(is_exact);
                ASSERT_NE(fresh, nullptr);
                const size_t usable = huge_usable_size(fresh);
                huge_free(fresh);
                hak_purge();
                char *before = take(was_exact);
                ASSERT_NE(before, nullptr);
                huge_free(before);
                char *block = take(is_exact);
                if (huge_figures().slack_bytes == 0 && was_exact == is_exact) EXPECT_EQ(block, before);
                EXPECT_EQ(huge_usable_size(block), usable) << was_exact << is_exact << size;
                for (const size_t less : {(size_t)SMALL_BYTES_MAX + 1, (size_t)HUGE_SHRUNK_BYTES_MIN - 1})
                    EXPECT_EQ(huge_may_stay(block, less), is_exact) << was_exact << is_exact << size;
                huge_free(block);
            }
}

// If the system refuses to move a block, the page map has it where it was, and nothing where it was to be.
TEST_F(Huge, AMoveThatIsRefusedLeavesNothingInThePageMap)
{
    static const os_ops *below;
    static char *target;
    target = nullptr;
    below = os;
    os_ops refusing = *os;
    refusing.grow = [](void *, size_t, size_t) { return ENOMEM; };
    refusing.move = [](void *, size_t, void *to, size_t bytes) {
        target = static_cast<char *>(to);
        below->release(to, bytes); // as the kernel does
        return ENOMEM;
    };
    for (const size_t size : {3 * MIB, 8 * MIB}) {
        char *block = alloc(size);
        os = &refusing;
        EXPECT_EQ(huge_realloc(block, 4 * size), nullptr);
        os = below;
        ASSERT_NE(target, nullptr);
        EXPECT_NE(pagemap_huge(block), nullptr);
        EXPECT_EQ(pagemap_huge(target), nullptr);
        EXPECT_EQ(pagemap_tag(block), (uint32_t)CLASS_HUGE);
        char *start;
        size_t bytes;
        EXPECT_FALSE(huge_find(target, &start, &bytes) && start == target);
        EXPECT_TRUE(huge_find(block + size - 1, &start, &bytes) && start == block);
        hak_free(block);
    }
}

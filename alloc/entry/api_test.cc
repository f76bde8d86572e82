// api_test.cc: hak_* keep the promises of hakmem.h, on both sides of every limit.
#include "heap/heap_test_support.h"

#include <set>

extern "C" {
#include "heap/own_inside.h"
#include "os/os.h"
#include "os/os_fault.h"
}

namespace {

class Api : public test::HeapTest {};

using test::MIB;

constexpr int ERRNO_BEFORE = 4711;

const std::vector<size_t> TOO_LARGE = {(size_t)PTRDIFF_MAX - 15,
                                       (size_t)PTRDIFF_MAX,
                                       (size_t)PTRDIFF_MAX + 1,
                                       SIZE_MAX - PAGE_BYTES,
                                       SIZE_MAX - 15,
                                       SIZE_MAX - 1,
                                       SIZE_MAX,
                                       (size_t)1 << 62,
                                       (size_t)1 << 48};

void check_malloc(size_t size)
{
    errno = ERRNO_BEFORE;
    auto *block = static_cast<unsigned char *>(hak_malloc(size));
    ASSERT_NE(block, nullptr) << size;
    ASSERT_EQ(errno, ERRNO_BEFORE);
    size_t usable = hak_malloc_usable_size(block);
    ASSERT_GE(usable, std::max<size_t>(size, 1));
    ASSERT_TRUE(test::is_aligned(block, 16));
    if (usable <= SMALL_BYTES_MAX) {
        memset(block, 0xa5, usable);
    } else {
        for (size_t i = 0; i < usable; i += 4096) block[i] = 1;
    }
    block[usable - 1] = 2;
    errno = ERRNO_BEFORE;
    hak_free(block);
    ASSERT_EQ(errno, ERRNO_BEFORE) << "free keeps errno";
}

// Expects an allocating function to fail with this error.
template <class Call> void expect_refused(Call call, int error, size_t size)
{
    errno = ERRNO_BEFORE;
    EXPECT_EQ(call(size), nullptr) << size;
    EXPECT_EQ(errno, error) << size;
}

} // namespace

TEST_F(Api, EverySmallSize)
{
    for (size_t size = 0; size <= SMALL_BYTES_MAX; size++) {
        check_malloc(size);
        if (HasFatalFailure()) return;
    }
}

TEST_F(Api, SizesAroundEveryBoundary)
{
    std::set<size_t> sizes;
    auto around = [&](size_t size) {
        for (size_t s : {size - 1, size, size + 1}) sizes.insert(s);
    };
    around(SMALL_BYTES_MAX);
    for (size_t pages = 1; pages <= 34; pages++) around(pages * PAGE_BYTES);
    around(RUN_BYTES_MAX);
    for (size_t size : {3 * MIB, 4 * MIB, 8 * MIB, 12 * MIB, 64 * MIB}) around(size);
    for (size_t size : sizes) {
        check_malloc(size);
        if (HasFatalFailure()) return;
    }
}

TEST_F(Api, TooLarge)
{
    for (size_t size : TOO_LARGE) {
        expect_refused([](size_t n) { return hak_malloc(n); }, ENOMEM, size);
        expect_refused([](size_t n) { return hak_calloc(n, 1); }, ENOMEM, size);
        expect_refused([](size_t n) { return hak_calloc(1, n); }, ENOMEM, size);
        expect_refused([](size_t n) { return hak_realloc(nullptr, n); }, ENOMEM, size);
        expect_refused([](size_t n) { return hak_reallocarray(nullptr, 1, n); }, ENOMEM, size);
        for (size_t align :
             {(size_t)8, (size_t)16, (size_t)64, (size_t)4096, (size_t)65536, 4 * MIB, 64 * MIB, (size_t)1 << 40}) {
            expect_refused([=](size_t n) { return hak_aligned_alloc(align, n); }, ENOMEM, size);
            expect_refused([=](size_t n) { return hak_memalign(align, n); }, ENOMEM, size);
        }
        expect_refused([](size_t n) { return hak_valloc(n); }, ENOMEM, size);
        expect_refused([](size_t n) { return hak_pvalloc(n); }, ENOMEM, size);
    }
}

TEST_F(Api, WhatIsTooLargeByItselfIsNotAskedOfTheSystem)
{
    hak_free(hak_malloc(1));
    os_fault_install(0, false);
    for (size_t size : {(size_t)PTRDIFF_MAX + 1, SIZE_MAX - 4096, SIZE_MAX}) {
        EXPECT_EQ(hak_malloc(size), nullptr);
        EXPECT_EQ(hak_aligned_alloc(64, size), nullptr);
        EXPECT_EQ(hak_aligned_alloc((size_t)PTRDIFF_MAX + 1, size), nullptr);
    }
    for (size_t size : {(size_t)0, (size_t)10, (size_t)RUN_BYTES_MAX + 1})
        EXPECT_EQ(hak_aligned_alloc((size_t)PTRDIFF_MAX + 1, size), nullptr);
    EXPECT_EQ(os_fault_remove(), 0u);
}

// The system refuses the largest size, and is not asked for a byte more. The block that was to grow stays as it is.
TEST_F(Api, TheLargestSizeIsAskedOfTheSystem)
{
    hak_heap *heap = hak_heap_new();
    for (size_t old_bytes : {(size_t)10, (size_t)RUN_BYTES_MAX, (size_t)2 * RUN_BYTES_MAX}) {
        void *block = hak_malloc(old_bytes), *own = hak_heap_malloc(heap, old_bytes);
        const std::function<void *(size_t)> calls[] = {
            [](size_t n) { return hak_malloc(n); },
            [](size_t n) { return hak_calloc(n, 1); },
            [](size_t n) { return hak_aligned_alloc(64, n); },
            [=](size_t n) { return hak_realloc(block, n); },
            [=](size_t n) { return hak_heap_malloc(heap, n); },
            [=](size_t n) { return hak_heap_calloc(heap, n, 1); },
            [=](size_t n) { return hak_heap_aligned_alloc(heap, 64, n); },
            [=](size_t n) { return hak_heap_realloc(heap, own, n); },
        };
        for (size_t i = 0; i < std::size(calls); i++)
            for (size_t more : {0, 1}) {
                os_fault_install(0, false);
                EXPECT_EQ(calls[i]((size_t)PTRDIFF_MAX + more), nullptr);
                EXPECT_EQ(os_fault_remove() > 0, more == 0) << "call " << i << " beside " << old_bytes;
            }
        hak_free(block);
        hak_free(own);
    }
    hak_heap_destroy(heap);
    if (VALIDATE) own_dead_free_all();
}

TEST_F(Api, MallocOfZero)
{
    std::set<void *> blocks;
    for (int i = 0; i < 1000; i++) EXPECT_TRUE(blocks.insert(hak_malloc(0)).second);
    EXPECT_EQ(blocks.count(nullptr), 0u);
    for (void *block : blocks) hak_free(block);
}

TEST_F(Api, BlocksDoNotOverlap)
{
    test::Rng rng;
    std::vector<std::pair<char *, size_t>> blocks;
    for (int i = 0; i < 3000; i++) {
        size_t size = rng.below(rng.below(50) == 0 ? 300000 : 3000);
        auto *block = static_cast<char *>(hak_malloc(size));
        blocks.emplace_back(block, hak_malloc_usable_size(block));
    }
    std::sort(blocks.begin(), blocks.end());
    for (size_t i = 1; i < blocks.size(); i++) ASSERT_LE(blocks[i - 1].first + blocks[i - 1].second, blocks[i].first);
    for (auto [block, size] : blocks) hak_free(block);
}

TEST_F(Api, AlignedAlloc)
{
    for (size_t align = 1; align <= 64 * MIB; align *= 2)
        for (size_t size : {(size_t)0, (size_t)1, (size_t)15, (size_t)100, align, align + 1}) {
            if (size > 65 * MIB) continue;
            errno = ERRNO_BEFORE;
            auto *block = static_cast<char *>(hak_aligned_alloc(align, size));
            ASSERT_NE(block, nullptr) << align << " " << size;
            EXPECT_EQ(errno, ERRNO_BEFORE);
            EXPECT_TRUE(test::is_aligned(block, std::max<size_t>(align, 16)));
            size_t usable = hak_malloc_usable_size(block);
            EXPECT_GE(usable, std::max<size_t>(size, 1));
            block[0] = block[usable - 1] = 1;
            hak_free(block);
        }
    for (size_t align : {(size_t)0, (size_t)3, (size_t)24, (size_t)4095, SIZE_MAX})
        expect_refused([=](size_t n) { return hak_aligned_alloc(align, n); }, EINVAL, 10);
    expect_refused([](size_t n) { return hak_aligned_alloc((size_t)1 << 63, n); }, ENOMEM, 10);
    expect_refused([](size_t n) { return hak_aligned_alloc((size_t)1 << 62, n); }, ENOMEM, 10);
}

TEST_F(Api, SmallBlocksAtEveryAlignment)
{
    for (size_t align = 1; align <= SMALL_BYTES_MAX; align *= 2)
        for (uint32_t c = 1; c < CLASS_COUNT; c++)
            for (size_t size : {sizeclass_bytes(c) - 1, sizeclass_bytes(c)}) {
                void *first = hak_aligned_alloc(align, size), *second = hak_aligned_alloc(align, size);
                ASSERT_TRUE(test::is_aligned(first, align));
                ASSERT_TRUE(test::is_aligned(second, align));
                ASSERT_GE(hak_malloc_usable_size(first), size);
                hak_free(first);
                hak_free(second);
            }
}

TEST_F(Api, Memalign)
{
    struct {
        size_t asked, given;
    } const cases[] = {{0, 16},     {1, 16},      {3, 16},      {17, 32},        {24, 32},           {48, 64},
                       {100, 128},  {4095, 4096}, {4097, 8192}, {65537, 131072}, {MIB + 1, 2 * MIB}, {3 * MIB, 4 * MIB},
                       {4096, 4096}};
    for (auto [asked, given] : cases)
        for (size_t size : {0u, 10u, 5000u, 100000u}) {
            std::vector<void *> blocks;
            for (int i = 0; i < 3; i++) {
                blocks.push_back(hak_memalign(asked, size));
                ASSERT_NE(blocks.back(), nullptr);
                EXPECT_TRUE(test::is_aligned(blocks.back(), given)) << asked;
                EXPECT_GE(hak_malloc_usable_size(blocks.back()), size);
            }
            for (void *block : blocks) hak_free(block);
        }
    expect_refused([](size_t n) { return hak_memalign(SIZE_MAX, n); }, EINVAL, 10);
    expect_refused([](size_t n) { return hak_memalign((size_t)PTRDIFF_MAX + 2, n); }, EINVAL, 10);
    expect_refused([](size_t n) { return hak_memalign((size_t)PTRDIFF_MAX + 1, n); }, ENOMEM, 10); /* a power of two */
    expect_refused([](size_t n) { return hak_memalign((size_t)PTRDIFF_MAX, n); }, ENOMEM, 10);
}

TEST_F(Api, PosixMemalign)
{
    int marker;
    for (size_t align : {(size_t)0, (size_t)1, (size_t)2, (size_t)4, (size_t)3, (size_t)12, (size_t)24, (size_t)40,
                         SIZE_MAX, SIZE_MAX - 7}) {
        void *block = &marker;
        errno = ERRNO_BEFORE;
        EXPECT_EQ(hak_posix_memalign(&block, align, 10), EINVAL) << align;
        EXPECT_EQ(block, &marker) << "written on failure";
        EXPECT_EQ(errno, ERRNO_BEFORE) << "posix_memalign does not set errno";
    }
    for (size_t size : TOO_LARGE)
        for (size_t align : {(size_t)8, (size_t)64, (size_t)65536, 8 * MIB}) {
            void *block = &marker;
            errno = ERRNO_BEFORE;
            EXPECT_EQ(hak_posix_memalign(&block, align, size), ENOMEM);
            EXPECT_EQ(block, &marker);
            EXPECT_EQ(errno, ERRNO_BEFORE);
        }
    for (size_t align = sizeof(void *); align <= 8 * MIB; align *= 2)
        for (size_t size : {0u, 1u, 100u, 40000u}) {
            void *block = &marker;
            errno = ERRNO_BEFORE;
            ASSERT_EQ(hak_posix_memalign(&block, align, size), 0);
            EXPECT_EQ(errno, ERRNO_BEFORE);
            EXPECT_NE(block, &marker);
            EXPECT_NE(block, nullptr);
            EXPECT_TRUE(test::is_aligned(block, align));
            hak_free(block);
        }
}

TEST_F(Api, VallocAndPvalloc)
{
    size_t page = os_page_bytes();
    for (size_t size : {(size_t)0, (size_t)1, page - 1, page, page + 1, 20 * page, 3 * MIB}) {
        void *block = hak_valloc(size);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(test::is_aligned(block, page));
        EXPECT_GE(hak_malloc_usable_size(block), size);
        hak_free(block);
        block = hak_pvalloc(size);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(test::is_aligned(block, page));
        EXPECT_GE(hak_malloc_usable_size(block), std::max(page, (size + page - 1) / page * page));
        hak_free(block);
    }
}

TEST_F(Api, UsableSize)
{
    EXPECT_EQ(hak_malloc_usable_size(nullptr), 0u);
    for (size_t size : test::all_kinds_of_sizes()) {
        auto *block = static_cast<char *>(hak_malloc(size));
        size_t usable = hak_malloc_usable_size(block);
        EXPECT_GE(usable, size);
        EXPECT_LE(usable, std::max<size_t>(16, size + size / 8 + PAGE_BYTES));
        test::in_thread([&] { EXPECT_EQ(hak_malloc_usable_size(block), usable); });
        hak_free(block);
    }
}

TEST_F(Api, SizedFrees)
{
    for (size_t size : test::all_kinds_of_sizes()) {
        hak_free_sized(hak_malloc(size), size);
        hak_free_aligned_sized(hak_aligned_alloc(64, size), 64, size);
    }
    hak_free_sized(nullptr, 0);
    hak_free_aligned_sized(nullptr, 16, 0);
    hak_free(nullptr);
}

TEST_F(Api, ReallocarrayProducts)
{
    void *block = hak_reallocarray(nullptr, 10, 10);
    EXPECT_GE(hak_malloc_usable_size(block), 100u);
    block = hak_reallocarray(block, 300, 300);
    EXPECT_GE(hak_malloc_usable_size(block), 90000u);
    memset(block, 1, 90000);
    errno = ERRNO_BEFORE;
    EXPECT_EQ(hak_reallocarray(block, SIZE_MAX / 2 + 1, 2), nullptr) << "wraps to 0";
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(static_cast<char *>(block)[89999], 1) << "the block stands";
    EXPECT_EQ(hak_reallocarray(block, 0, 10), nullptr) << "freed";
    block = hak_reallocarray(nullptr, 0, 10);
    EXPECT_NE(block, nullptr);
    hak_free(block);
}

TEST_F(Api, FreeKeepsErrnoOnItsSlowPaths)
{
    std::vector<void *> blocks;
    for (int round = 0; round < 30; round++)
        for (size_t size : test::all_kinds_of_sizes())
            if (size < MIB || round == 0) blocks.push_back(hak_malloc(size));
    test::in_thread([&] {
        for (size_t i = 0; i < blocks.size(); i += 2) {
            errno = ERRNO_BEFORE;
            hak_free(blocks[i]);
            ASSERT_EQ(errno, ERRNO_BEFORE);
        }
    });
    for (size_t i = 1; i < blocks.size(); i += 2) {
        errno = ERRNO_BEFORE;
        hak_free(blocks[i]);
        ASSERT_EQ(errno, ERRNO_BEFORE);
    }
    hak_purge();
    EXPECT_EQ(errno, ERRNO_BEFORE);
}

TEST_F(Api, VersionIsThatOfTheHeader)
{
    EXPECT_STREQ(hak_version(), HAKMEM_VERSION);
}

TEST_F(Api, PurgeReturnsWhatItGaveBack)
{
    void *block = hak_malloc(10 * PAGE_BYTES);
    EXPECT_EQ(hak_purge(), 0u) << "nothing is free and dirty";
    hak_free(block);
    EXPECT_EQ(hak_purge(), 10u * PAGE_BYTES);
    EXPECT_EQ(hak_purge(), 0u);
}

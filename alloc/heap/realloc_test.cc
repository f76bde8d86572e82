// realloc_test.cc: the content is kept whenever a block grows or shrinks.
#include "heap/own_test_support.h"

extern "C" {
#include "os/os.h"
#include "os/os_fault.h"
}

namespace {

using test::own_figures_of;
using test::OwnHeld;

class Realloc : public test::HeapTest {};
class OwnRealloc : public test::OwnTest {};

} // namespace

TEST_F(Realloc, WalksThroughAllSizes)
{
    std::vector<size_t> up = test::all_kinds_of_sizes();
    up.erase(up.begin()); // 0 frees
    std::vector<size_t> down(up.rbegin(), up.rend()), mixed = up;
    test::Rng().shuffle(mixed);
    for (const std::vector<size_t> &way : {up, down, mixed}) {
        void *block = nullptr;
        size_t size = 0;
        uint64_t stamp = 1;
        for (size_t next : way) {
            errno = 4711;
            void *moved = hak_realloc(block, next);
            ASSERT_NE(moved, nullptr);
            EXPECT_EQ(errno, 4711);
            ASSERT_TRUE(test::is_aligned(moved, 16));
            ASSERT_GE(hak_malloc_usable_size(moved), next);
            size_t kept = std::min(size, next);
            for (size_t i = 0; i < kept; i += kept > 100000 ? 512 : 1)
                ASSERT_EQ(static_cast<unsigned char *>(moved)[i], test::pattern_byte(stamp, i))
                    << size << " to " << next << " at " << i;
            block = moved;
            size = next;
            test::pattern_fill(block, size, ++stamp);
        }
        hak_free(block);
    }
}

TEST_F(Realloc, EverySizeUpAndDown)
{
    char *block = nullptr;
    for (size_t size = 1; size <= SMALL_BYTES_MAX + 100; size++) {
        block = static_cast<char *>(hak_realloc(block, size));
        ASSERT_NE(block, nullptr);
        block[size - 1] = (char)size;
        ASSERT_EQ(block[0], 1);
        ASSERT_EQ(block[size / 2], (char)(size / 2 + 1));
    }
    for (size_t size = SMALL_BYTES_MAX + 99; size > 0; size--) {
        block = static_cast<char *>(hak_realloc(block, size));
        ASSERT_EQ(block[size - 1], (char)size);
        ASSERT_EQ(block[size / 2], (char)(size / 2 + 1));
    }
    hak_free(block);
}

TEST_F(Realloc, NullAndZero)
{
    void *block = hak_realloc(nullptr, 100);
    ASSERT_NE(block, nullptr);
    EXPECT_GE(hak_malloc_usable_size(block), 100u);
    errno = 4711;
    EXPECT_EQ(hak_realloc(block, 0), nullptr) << "freed";
    EXPECT_EQ(errno, 4711);
    block = hak_realloc(nullptr, 0);
    EXPECT_NE(block, nullptr) << "as malloc(0)";
    hak_free(block);
    for (size_t size : {100000u, 5000000u}) EXPECT_EQ(hak_realloc(hak_malloc(size), 0), nullptr);
}

TEST_F(Realloc, TooLargeKeepsTheBlock)
{
    for (size_t size : {10u, 3000u, 100000u, 5000000u}) {
        void *block = hak_malloc(size);
        test::pattern_fill(block, size, 1);
        for (size_t too_large :
             {(size_t)PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, SIZE_MAX, SIZE_MAX - 15, (size_t)1 << 60}) {
            errno = 0;
            EXPECT_EQ(hak_realloc(block, too_large), nullptr);
            EXPECT_EQ(errno, ENOMEM);
        }
        errno = 0;
        EXPECT_EQ(hak_reallocarray(block, (size_t)1 << 32, (size_t)1 << 32), nullptr)
            << "the product wraps to exactly 0: it is not a free";
        EXPECT_EQ(errno, ENOMEM);
        EXPECT_EQ(hak_reallocarray(block, SIZE_MAX, 2), nullptr);
        EXPECT_TRUE(test::pattern_holds(block, size, 1));
        hak_free(block);
    }
}

TEST_F(Realloc, InPlaceWhereItCan)
{
    void *small = hak_malloc(100);
    EXPECT_EQ(hak_realloc(small, 112), small) << "the same class";
    EXPECT_EQ(hak_realloc(small, 60), small) << "half of it is still used";
    void *smaller = hak_realloc(small, 20);
    EXPECT_LT(hak_malloc_usable_size(smaller), 112u) << "more than half lies idle";
    hak_free(smaller);

    void *run = hak_malloc(10 * PAGE_BYTES);
    EXPECT_EQ(hak_realloc(run, 2 * PAGE_BYTES), run);
    EXPECT_EQ(hak_malloc_usable_size(run), 2u * PAGE_BYTES) << "the tail went back";
    EXPECT_EQ(hak_realloc(run, 8 * PAGE_BYTES), run) << "and is free still";
    void *less = hak_realloc(run, 1000);
    EXPECT_EQ(hak_malloc_usable_size(less), 1008u);
    hak_free(less);

    void *largest = hak_malloc(RUN_BYTES_MAX);
    EXPECT_EQ(hak_realloc(largest, RUN_BYTES_MAX / 2), largest);
    EXPECT_EQ(hak_realloc(largest, RUN_BYTES_MAX), largest);
    hak_free(largest);

    void *huge = hak_malloc(8 << 20);
    EXPECT_EQ(hak_realloc(huge, 3 << 20), huge);
    hak_free(huge);
}

// A string that grows by 4 KiB again and again, while another run takes the place that each copy leaves: it moves to
// where it can double.
TEST_F(Realloc, AGrowingRunIsCopiedOncePerDoubling)
{
    std::vector<void *> others;
    size_t size = SMALL_BYTES_MAX, moves = 0;
    void *block = hak_malloc(size);
    test::pattern_fill(block, 1024, 4);
    while ((size += 4096) <= RUN_BYTES_MAX) {
        void *resized = hak_realloc(block, size);
        ASSERT_NE(resized, nullptr);
        if (resized != block) others.push_back(hak_malloc(size - 4096));
        moves += resized != block;
        block = resized;
    }
    EXPECT_TRUE(test::pattern_holds(block, 1024, 4));
    EXPECT_GE(moves, 1u);
    EXPECT_LE(moves, 7u) << "from 32 KiB to 2 MiB: 6 doublings";
    hak_free(block);
    for (void *other : others) hak_free(other);
}

TEST_F(Realloc, AGrowingRunDoesWithoutRoomWhereNoneIsLeft)
{
    void *block = hak_malloc(5 * PAGE_BYTES), *gap = hak_malloc(8 * PAGE_BYTES);
    test::pattern_fill(block, 1024, 5);
    os_fault_install(1, true);
    std::vector<void *> rest;
    while (void *each = hak_malloc(PAGE_BYTES)) rest.push_back(each);
    hak_free(gap);
    void *grown = hak_realloc(block, 8 * PAGE_BYTES);
    EXPECT_EQ(grown, gap);
    EXPECT_TRUE(test::pattern_holds(grown, 1024, 5));
    os_fault_remove();
    for (void *each : rest) hak_free(each);
    hak_free(grown);
}

TEST_F(Realloc, AlignedBlocks)
{
    for (size_t align : {64u, 4096u, 65536u, 4u << 20}) {
        void *block = hak_aligned_alloc(align, 100);
        test::pattern_fill(block, 100, 1);
        block = hak_realloc(block, 70000);
        ASSERT_NE(block, nullptr);
        for (size_t i = 0; i < 100; i++) ASSERT_EQ(static_cast<unsigned char *>(block)[i], test::pattern_byte(1, i));
        hak_free(block);
    }
}

TEST_F(Realloc, ShrinkingNeverFails)
{
    for (size_t size : {(size_t)SMALL_BYTES_MAX, (size_t)RUN_BYTES_MAX, (size_t)9 << 20}) {
        char *block = static_cast<char *>(hak_malloc(size));
        test::pattern_fill(block, size, 1, 512);
        os_fault_install(1, true);
        for (size_t smaller = size / 2; smaller > 0; smaller /= 3) {
            errno = 4711;
            char *moved = static_cast<char *>(hak_realloc(block, smaller));
            ASSERT_NE(moved, nullptr);
            EXPECT_EQ(errno, 4711);
            block = moved;
            ASSERT_EQ((unsigned char)block[0], test::pattern_byte(1, 0));
        }
        os_fault_remove();
        hak_free(block);
    }
}

TEST_F(Realloc, ShrinkingWithoutMemoryKeepsTheBlock)
{
    void *block = hak_malloc(RUN_BYTES_MAX);
    os_fault_install(1, true);
    std::vector<void *> rest; // leaves no page for a shorter block
    while (void *each = hak_malloc(SMALL_BYTES_MAX)) rest.push_back(each);
    errno = 4711;
    EXPECT_EQ(hak_realloc(block, SMALL_BYTES_MAX), block);
    EXPECT_EQ(errno, 4711);
    os_fault_remove();
    for (void *each : rest) hak_free(each);
    hak_free(block);
}

// The system may have unmapped the target of a move that it refuses. What another thread has mapped there since stays.
TEST_F(Realloc, ARefusedMoveLeavesItsTargetToOthers)
{
    if (MSAN) GTEST_SKIP() << "no block is moved";
    static char *others;
    const os_ops *const before = os;
    os_ops refuses = *before;
    refuses.grow = [](void *, size_t, size_t) { return ENOMEM; };
    refuses.move = [](void *, size_t, void *target, size_t bytes) {
        others = static_cast<char *>(
            mmap(target, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
        return ENOMEM;
    };
    char *block = static_cast<char *>(hak_malloc(8 * test::MIB));
    test::pattern_fill(block, 8 * test::MIB, 6, 4096);
    os = &refuses;
    char *grown = static_cast<char *>(hak_realloc(block, 16 * test::MIB));
    os = before;
    ASSERT_NE(grown, nullptr);
    EXPECT_TRUE(test::pattern_holds(grown, 8 * test::MIB, 6, 4096));
    ASSERT_NE(others, nullptr);
    EXPECT_TRUE(test::is_mapped(others) && grown != others) << "another's mapping is gone";
    os->release(others, 16 * test::MIB);
    hak_free(grown);
}

TEST_F(Realloc, ABlockOfAnotherThread)
{
    for (size_t size : test::all_kinds_of_sizes()) {
        void *block = hak_malloc(size);
        test::pattern_fill(block, size, size, 64);
        test::in_thread([&] { block = hak_realloc(block, size + 5000); });
        ASSERT_NE(block, nullptr);
        for (size_t i = 0; i < size; i += 64)
            ASSERT_EQ(static_cast<unsigned char *>(block)[i], test::pattern_byte(size, i));
        hak_free(block);
    }
}

// Up to its size and down to half of it a small block stays; a larger one as long as its kind does.
TEST_F(OwnRealloc, ReallocStaysInPlaceWhereItMay)
{
    SKIP_UNDER_SANITIZER("blocks then have the sizes that were asked for");
    hak_heap *heap = hak_heap_new();
    for (size_t size : {16u, 1000u, 20000u, (unsigned)SMALL_BYTES_MAX}) {
        void *block = hak_heap_malloc(heap, size);
        const size_t usable = hak_malloc_usable_size(block);
        for (size_t stays : {usable, usable / 2 + 1, usable / 2})
            EXPECT_EQ(hak_heap_realloc(heap, block, stays), block) << size << " to " << stays;
        void *less = hak_heap_realloc(heap, block, usable / 2 - 1);
        EXPECT_NE(less, block) << size;
        block = hak_heap_malloc(heap, size);
        void *more = hak_heap_realloc(heap, block, usable + 1);
        EXPECT_NE(more, block) << size;
        hak_free(less);
        hak_free(more);
    }
    const auto tag_at = [&](size_t size, size_t resized) {
        void *block = hak_heap_realloc(heap, hak_heap_malloc(heap, size), resized);
        const uint32_t tag = pagemap_tag(block);
        hak_free(block);
        return tag;
    };
    const auto is_small = [](uint32_t tag) { return tag_slab_class(tag) != CLASS_EMPTY; };
    EXPECT_EQ(tag_at(300000, SMALL_BYTES_MAX + 1), (uint32_t)CLASS_OWN);
    EXPECT_TRUE(is_small(tag_at(300000, SMALL_BYTES_MAX)));
    EXPECT_EQ(tag_at(300000, RUN_BYTES_MAX), (uint32_t)CLASS_OWN);
    EXPECT_EQ(tag_at(300000, RUN_BYTES_MAX + 1), (uint32_t)CLASS_OWN_HUGE);
    EXPECT_EQ(tag_at(4 * RUN_BYTES_MAX, RUN_BYTES_MAX + 1), (uint32_t)CLASS_OWN_HUGE);
    EXPECT_EQ(tag_at(4 * RUN_BYTES_MAX, RUN_BYTES_MAX), (uint32_t)CLASS_OWN);
    void *grows = hak_heap_malloc(heap, RUN_BYTES_MAX);
    EXPECT_EQ(hak_heap_realloc(heap, grows, RUN_BYTES_MAX - PAGE_BYTES), grows);
    EXPECT_EQ(hak_heap_realloc(heap, grows, RUN_BYTES_MAX), grows) << "into the page behind it";
    hak_free(hak_heap_realloc(heap, grows, RUN_BYTES_MAX + 1));
    const size_t size = 2 * RUN_BYTES_MAX, more = 8 * RUN_BYTES_MAX;
    void *huge = hak_heap_malloc(heap, size);
    test::pattern_fill(huge, size, 7);
    huge = hak_heap_realloc(heap, huge, more);
    ASSERT_NE(huge, nullptr);
    EXPECT_GE(hak_malloc_usable_size(huge), more);
    EXPECT_TRUE(test::pattern_holds(huge, size, 7));
    test::pattern_fill(huge, more, 9);
    huge = hak_heap_realloc(heap, huge, size);
    EXPECT_LT(hak_malloc_usable_size(huge), more) << "its end goes back";
    EXPECT_TRUE(test::pattern_holds(huge, size, 9));
    hak_free(huge);
    EXPECT_EQ(own_figures_of(heap).used_bytes, 0u);
    void *run = hak_heap_malloc(heap, 300000);
    EXPECT_EQ(hak_heap_realloc(heap, run, SMALL_BYTES_MAX + 1), run) << "its end goes back";
    EXPECT_EQ(own_figures_of(heap).used_bytes, PAGE_BYTES);
    hak_heap_destroy(heap);
}

// A run that grows in place counts for what it grows by, and no more; so does a huge block.
TEST_F(OwnRealloc, GrowthInPlaceCountsOnce)
{
    hak_heap *heap = hak_heap_new();
    for (size_t size : {size_t{100000}, 3 * test::MIB}) {
        void *block = hak_heap_malloc(heap, size);
        size_t most = 0;
        for (size_t more : {1, 4000, 20000, 300000}) {
            size_t before = hak_malloc_usable_size(block);
            void *grown = hak_heap_realloc(heap, block, before + more);
            size_t both = (grown == block ? 0 : before) + hak_malloc_usable_size(grown);
            most = std::max(most, both);
            EXPECT_LE(own_figures_of(heap).resident_peak_bytes, most) << size << " and " << more;
            EXPECT_EQ(own_figures_of(heap).resident_bytes, hak_malloc_usable_size(grown));
            block = grown;
        }
        hak_free(block);
        hak_heap_free_all(heap);
        expect_empty(heap);
        hak_heap_destroy(heap);
        if (VALIDATE) own_dead_free_all();
        heap = hak_heap_new();
    }
    hak_heap_destroy(heap);
}

// The new block is refused: the old one stays, and errno is as it was.
TEST_F(OwnRealloc, ShrinkingNeverFails)
{
    hak_heap *heap = hak_heap_new();
    for (size_t size : {size_t{100000}, 3 * test::MIB}) {
        OwnHeld held{hak_heap_malloc(heap, size), 100, size};
        held.fill();
        hak_heap_limit_set(heap, own_figures_of(heap).resident_bytes);
        errno = 7;
        EXPECT_EQ(hak_heap_realloc(heap, held.block, 100), held.block) << size;
        EXPECT_EQ(errno, 7);
        EXPECT_TRUE(held.holds());
        hak_heap_limit_set(heap, SIZE_MAX);
        hak_free(held.block);
    }
    hak_heap_destroy(heap);
}

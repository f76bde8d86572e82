// frame_test.cc: frames: what a program gets, and what reports can look up.
#include "debug/frame_test_support.h"

#include <set>

extern "C" {
#include "cache/thread.h"
#include "debug/describe.h"
#include "debug/trace.h"
#include "heap/heap.h"
#include "heap/own_inside.h"
#include "os/meta.h"
#include "os/os_fault.h"
#include "report/failfast.h"
#include "report/settings.h"
#include "slab/validate.h"
}

namespace test::frames {

static std::vector<size_t> sizes()
{
    std::vector<size_t> all = test::all_kinds_of_sizes();
    for (size_t size : std::vector<size_t>(all))
        if (size > 40) all.push_back(size - 32), all.push_back(size - 31); // fills a block; needs a larger one
    return all;
}

TEST_F(FrameTest, ABlockIsWholeAndAlignedAndKnowsItsSize)
{
    for (size_t size : sizes()) {
        for (size_t align : {0u, 1u, 8u, 16u, 32u, 64u, 4096u, 65536u, 1u << 22, 1u << 23}) {
            if (align > 4096 && size % 7 != 0) continue; // each of these costs a mapping
            char *block = take(size, align);
            ASSERT_NE(block, nullptr) << size << " aligned to " << align;
            EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % std::max<size_t>(align, 16), 0u);
            EXPECT_EQ(frame_usable_size(block), size);
            memset(block, 0xff, size);
            release(block);
        }
    }
}

TEST_F(FrameTest, CallocIsZeroAlsoWhereJunkWas)
{
    for (size_t size : sizes()) {
        for (size_t align : {0u, 64u}) {
            char *dirty = take(size);
            memset(dirty, 0xff, size);
            release(dirty);
            quarantine_empty();
            char *block = take(size, align, true);
            EXPECT_EQ(frame_first_other(block, size, 0), size);
            release(block);
        }
    }
}

TEST_F(FrameTest, ReallocKeepsContentAndSize)
{
    for (size_t from : sizes()) {
        for (size_t to : {(size_t)1, from / 3 + 1, from + 1, 2 * from + 40, (size_t)40000, (size_t)3 << 20}) {
            char *block = take(from);
            for (size_t i = 0; i < from; i++) block[i] = static_cast<char>(i * 7);
            block = static_cast<char *>(frame_realloc(block, to));
            ASSERT_NE(block, nullptr);
            EXPECT_EQ(frame_usable_size(block), to);
            size_t kept = std::min(from, to), same = 0;
            while (same < kept && block[same] == static_cast<char>(same * 7)) same++;
            EXPECT_EQ(same, kept) << from << " to " << to;
            release(block);
        }
    }
    EXPECT_EQ(frame_realloc(take(10), 0), nullptr);
}

// A block that is not to be smaller stays if it is long enough, whatever lies around it: what a larger class lent and what is
// aligned may be more than twice as long as it needs to be.
TEST_F(FrameTest, ReallocToTheUsableSizeLeavesABlockWhereItIs)
{
    test::Rng rng(45);
    std::vector<char *> blocks(64);
    for (int i = 0; i < 20000 && !HasFailure(); i++) {
        const size_t size = 1 + rng.below((size_t)1 << rng.between(4, i % 8 != 0 ? 13 : 22));
        const size_t align = rng.below(3) == 0 ? (size_t)16 << rng.below(10) : 0;
        char *block = take(size, align, rng.below(4) == 0);
        if (rng.below(3) == 0) block = static_cast<char *>(frame_realloc(block, 1 + rng.below(2 * size)));
        EXPECT_EQ(frame_realloc(block, frame_usable_size(block)), block) << frame_usable_size(block) << " bytes";
        char *&other = blocks[rng.below(blocks.size())];
        if (other != nullptr) release(other);
        other = block;
    }
    for (char *block : blocks)
        if (block != nullptr) release(block);
}

// A run whose half is wanted stays, also where that half is the largest small block; for less it moves.
TEST_F(FrameTest, ReallocLeavesARunOfWhichHalfIsUsed)
{
    static_assert(SMALL_BYTES_MAX == PAGE_BYTES / 2);
    const size_t half = PAGE_BYTES / 2, frame = FRAME_FRONT_BYTES + FRAME_REAR_BYTES;
    for (size_t whole : {half - 1, half, half + 1}) {
        char *block = take(40000);
        ASSERT_EQ(heap_lookup(block).bytes, 2 * half);
        char *resized = static_cast<char *>(frame_realloc(block, whole - frame));
        EXPECT_EQ(resized == block, whole >= half) << whole;
        release(resized);
    }
}

// A larger run moves to the largest small block, for which the quarantine gives up what waits.
TEST_F(FrameTest, ReallocMovesALargerRunToTheLargestSmallBlock)
{
    const size_t size = SMALL_BYTES_MAX - (size_t)(FRAME_FRONT_BYTES + FRAME_REAR_BYTES);
    char *run = take(100000), *waits = take(size);
    const char *start = heap_lookup(waits).start;
    os_fault_install(1, true);
    std::vector<char *> others;
    for (size_t each : {size, (size_t)100})
        while (char *other = take(each)) others.push_back(other);
    release(waits);
    EXPECT_TRUE(quarantine_holds(start));
    char *moved = static_cast<char *>(frame_realloc(run, size));
    os_fault_remove();
    EXPECT_EQ(heap_lookup(moved).start, start);
    release(moved);
    for (char *other : others) release(other);
}

TEST_F(FrameTest, WithoutMemoryABlockIsMadeShorterWhereItStands)
{
    char *block = take(20000);
    memset(block, 7, 20000);
    os_fault_install(1, true);
    std::vector<char *> others;
    while (char *other = take(100)) others.push_back(other);
    errno = 5;
    failfast_level_read = LEVEL_TRACES;
    EXPECT_EQ(frame_realloc(block, 100), block);
    EXPECT_EQ(errno, 5);
    failfast_event allocated, freed;
    EXPECT_EQ(trace_find(block, &allocated, &freed), 100u);
    failfast_level_read = LEVEL_LAYOUT;
    EXPECT_EQ(frame_realloc(block, 30000), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    os_fault_remove();
    EXPECT_EQ(frame_usable_size(block), 100u);
    EXPECT_EQ(frame_first_other(block, 100, 7), 100u);
    release(block);
    for (char *other : others) release(other);
}

// If the system has no memory, blocks that wait in the quarantine serve the next ones. Such a call has succeeded: errno stays.
TEST_F(FrameTest, WhatTheQuarantineGivesKeepsErrno)
{
    for (const bool zero : {false, true})
        for (const size_t align : {(size_t)0, (size_t)64})
            for (const size_t size : {(size_t)100, (size_t)3000, (size_t)10000})
                EXPECT_TRUE(test::in_child([zero, align, size] {
                    std::vector<char *> waiting(20);
                    for (char *&each : waiting) each = take(size, align);
                    for (char *each : waiting) release(each);
                    const char *last = heap_lookup(waiting.back()).start;
                    ASSERT_TRUE(quarantine_holds(last));
                    os_fault_install(1, true);
                    while (quarantine_holds(last)) {
                        errno = 4711;
                        char *block = take(size, align, zero);
                        ASSERT_NE(block, nullptr);
                        ASSERT_EQ(errno, 4711);
                        if (zero) ASSERT_TRUE(test::is_zero(block, size));
                    }
                    os_fault_remove();
                })) << zero
                    << " " << align << " " << size;
}

// One that should move to another heap is not made shorter instead: it would stay in its own.
TEST_F(FrameTest, ABlockThatCannotMoveToAHeapStaysAsItIs)
{
    hak_heap *heap = hak_heap_new(), *other = hak_heap_new();
    hak_heap_limit_set(heap, 1);
    for (void *block : {frame_alloc_in(other, 0, 1000, false), static_cast<void *>(take(1000))})
        for (size_t size : {1000, 10}) {
            errno = 0;
            EXPECT_EQ(frame_realloc_in(heap, block, size), nullptr);
            EXPECT_EQ(errno, ENOMEM);
            EXPECT_EQ(frame_usable_size(block), 1000u);
            if (size == 10) release(block);
        }
    for (hak_heap *each : {heap, other}) hak_heap_destroy(each);
    own_dead_free_all();
}

// In place or elsewhere, small, a run or huge: reports tell the last size that was asked for, and who freed the old block.
TEST_F(FrameTest, TheTraceIsOfTheLastRealloc)
{
    failfast_level_read = LEVEL_TRACES;
    failfast_event allocated, freed;
    const std::pair<size_t, size_t> cases[] = {
        {1000, 990},    {1000, 1001},     {100, 5000},         {20000, 100},        {40000, 70000},
        {70000, 40001}, {70000, 6000000}, {6000000, 12000000}, {12000000, 7000000}, {6000000, 100}};
    for (auto [from, to] : cases) {
        char *block = take(from);
        EXPECT_EQ(trace_find(block, &allocated, &freed), from);
        char *resized = static_cast<char *>(frame_realloc(block, to));
        EXPECT_EQ(trace_find(resized, &allocated, &freed), to) << "from " << from;
        EXPECT_EQ(freed.thread, 0u) << "from " << from << " to " << to;
        if (resized != block) {
            EXPECT_EQ(trace_find(block, &allocated, &freed), from) << "to " << to;
            EXPECT_EQ((pid_t)freed.thread, gettid()) << "from " << from << " to " << to;
        }
        release(resized);
        quarantine_empty();
    }
    failfast_level_read = LEVEL_LAYOUT;
}

TEST_F(FrameTest, SizesThatWrapAreRefused)
{
    char *block = take(100);
    for (size_t size : {SIZE_MAX, SIZE_MAX - 31, (size_t)PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1}) {
        for (size_t align : {(size_t)0, (size_t)64, (size_t)1 << 62, (size_t)1 << 63}) {
            errno = 0;
            EXPECT_EQ(take(size, align), nullptr);
            EXPECT_EQ(errno, ENOMEM) << size << " aligned to " << align;
        }
        errno = 0;
        EXPECT_EQ(frame_realloc(block, size), nullptr);
        EXPECT_EQ(errno, ENOMEM) << size;
    }
    EXPECT_EQ(frame_usable_size(block), 100u);
    EXPECT_FALSE(frame_size_fits(SIZE_MAX / 2, 3));
    EXPECT_TRUE(frame_size_fits(1, PTRDIFF_MAX));
    EXPECT_FALSE(frame_size_fits(1, (size_t)PTRDIFF_MAX + 1));
    EXPECT_TRUE(frame_size_fits(0, SIZE_MAX));
    release(block);
}

// Level 3 reports the size, and the program gets what the other levels give it.
TEST_F(FrameTest, ASizeThatNoBlockCanHaveIsReportedAtLevelThree)
{
    const int level = failfast_level_read, goes_on = failfast_goes_on_read;
    failfast_level_read = LEVEL_TRACES;
    failfast_goes_on_read = 1;
    static void *block;
    static hak_heap *heap;
    block = hak_malloc(10);
    heap = hak_heap_new();
    const std::pair<const char *, void *(*)(size_t)> calls[] = {
        {"malloc", hak_malloc},
        {"calloc", [](size_t size) { return hak_calloc(size, 1); }},
        {"realloc", [](size_t size) { return hak_realloc(block, size); }},
        {"reallocarray", [](size_t size) { return hak_reallocarray(block, size, 1); }},
        {"aligned_alloc", [](size_t size) { return hak_aligned_alloc(64, size); }},
        {"memalign", [](size_t size) { return hak_memalign(64, size); }},
        {"valloc", hak_valloc},
        {"pvalloc", hak_pvalloc},
        {"heap_malloc", [](size_t size) { return hak_heap_malloc(heap, size); }},
        {"heap_calloc", [](size_t size) { return hak_heap_calloc(heap, size, 1); }},
        {"heap_aligned_alloc", [](size_t size) { return hak_heap_aligned_alloc(heap, 64, size); }},
        {"heap_realloc", [](size_t size) { return hak_heap_realloc(heap, block, size); }}};
    for (size_t size : {(size_t)PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, SIZE_MAX})
        for (const auto &[name, call] : calls) {
            testing::internal::CaptureStderr();
            errno = 0;
            EXPECT_EQ(call(size), nullptr) << name;
            const int then = errno;
            const std::string said = testing::internal::GetCapturedStderr();
            EXPECT_EQ(then, ENOMEM) << name << " " << size;
            // pvalloc rounds up, so that PTRDIFF_MAX becomes a size above it.
            const bool is_beyond = size > PTRDIFF_MAX || strcmp(name, "pvalloc") == 0;
            EXPECT_EQ(said.find("failfast: size_overflow: ") != said.npos, is_beyond) << name << " " << size;
        }
    hak_free(block);
    hak_heap_destroy(heap);
    failfast_level_read = level;
    failfast_goes_on_read = goes_on;
}

// A later report that comes from no such call must not name this one.
TEST_F(FrameTest, ACallThatIsRefusedLeavesNoName)
{
    const int level = failfast_level_read, goes_on = failfast_goes_on_read;
    failfast_level_read = LEVEL_TRACES;
    failfast_goes_on_read = 1;
    static void *block, *of_new, *outside;
    static hak_heap *heap;
    block = take(100);
    of_new = take(100, 0, false, FAMILY_NEW);
    outside = &block;
    heap = hak_heap_new();
    hak_heap_destroy(heap);
    release(block);
    const std::pair<const char *, void (*)()> calls[] = {
        {"free", [] { hak_free(block); }},
        {"free of another family", [] { hak_free(of_new); }},
        {"free outside", [] { heap_free(outside); }},
        {"realloc", [] { EXPECT_EQ(hak_realloc(block, 10), nullptr); }},
        {"realloc of another family", [] { EXPECT_EQ(hak_realloc(of_new, 10), nullptr); }},
        {"realloc outside", [] { EXPECT_EQ(heap_realloc(outside, 10), nullptr); }},
        {"usable size", [] { EXPECT_EQ(hak_malloc_usable_size(block), 0u); }},
        {"heap_malloc", [] { EXPECT_EQ(hak_heap_malloc(heap, 10), nullptr); }},
        {"heap_free_all", [] { hak_heap_free_all(heap); }}};
    for (const auto &[name, call] : calls) {
        testing::internal::CaptureStderr();
        call();
        EXPECT_NE(testing::internal::GetCapturedStderr(), "") << name;
        EXPECT_EQ(failfast_call_set(nullptr), nullptr) << name;
    }
    release(of_new, FAMILY_NEW);
    failfast_level_read = level;
    failfast_goes_on_read = goes_on;
}

TEST_F(FrameTest, LookupFindsTheWholeOfABlock)
{
    for (size_t size : {(size_t)100, (size_t)5000, (size_t)200000, (size_t)20 << 20}) {
        char *block = static_cast<char *>(hak_malloc(size));
        for (size_t offset : {(size_t)0, size / 2, size - 1}) {
            EXPECT_EQ(heap_lookup(block + offset).start, block);
            EXPECT_EQ(heap_lookup_any(block + offset).start, block);
            EXPECT_EQ(heap_lookup_any(block + offset).bytes, heap_lookup(block + offset).bytes);
        }
        EXPECT_TRUE(heap_lookup(block).live);
        uint32_t tag = pagemap_tag(block) & TAG_CLASS_MASK; // a size class, CLASS_RUN or CLASS_HUGE
        EXPECT_EQ(heap_lookup(block).class_index, tag);
        EXPECT_EQ(heap_lookup_any(block).class_index, tag);
        if (heap_lookup(block).kind == RECORD_KIND_run) { // between the two steps of its free
            EXPECT_TRUE(validate_free(block));
            EXPECT_FALSE(heap_lookup(block).live);
            validate_alloc_run(block);
        }
        hak_free(block);
        EXPECT_FALSE(heap_lookup(block).live);
    }
    int local;
    for (const void *stranger : {(const void *)&local, (const void *)nullptr, (const void *)~(uintptr_t)0}) {
        EXPECT_EQ(heap_lookup(stranger).kind, RECORD_KIND_none);
        EXPECT_EQ(heap_lookup_any(stranger).kind, RECORD_KIND_none);
    }
}

// Crash records describe the program's part of a framed block.
TEST_F(FrameTest, ItsPlaceIsTheProgramsPart)
{
    const int before = failfast_level_read;
    failfast_level_read = LEVEL_FRAMES;
    char *block = take(100);
    describe_place place;
    EXPECT_TRUE(describe_address((uintptr_t)block + 5, &place));
    EXPECT_EQ(place.block_start, (uintptr_t)block);
    EXPECT_EQ(place.block_bytes, 100u);
    EXPECT_EQ(place.offset, 5u);
    EXPECT_EQ(place.state, (uint64_t)RECORD_STATE_live);
    release(block);
    EXPECT_TRUE(describe_address((uintptr_t)block, &place));
    EXPECT_EQ(place.state, (uint64_t)RECORD_STATE_free) << "it waits in the quarantine";
    quarantine_empty();
    failfast_level_read = before;
}

TEST_F(FrameTest, AnAlignmentThatIsMostOfTheBlock)
{
    SKIP_UNDER_SANITIZER("it keeps books of every byte");
    for (int align_log2 = 30; align_log2 <= 45; align_log2++) {
        char *block = take(4096, (size_t)1 << align_log2);
        if (block == nullptr) continue; // more memory than the system has
        EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % ((size_t)1 << align_log2), 0u);
        EXPECT_EQ(frame_usable_size(block), 4096u) << align_log2;
        memset(block, 0xff, 4096);
        release(block);
    }
}

} // namespace test::frames

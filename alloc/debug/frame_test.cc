// frame_test.cc: frames and the quarantine, called directly. The program runs at level 1, so that hak_* and the
// fixtures use blocks without frames. More than 400 lines: all share the calls with which frames are made and given up.
#include "heap/heap_test_support.h"

#include <csignal>
#include <set>

extern "C" {
#include "cache/thread.h"
#include "debug/describe.h"
#include "debug/frame.h"
#include "debug/frame_layout.h"
#include "debug/lookup.h"
#include "debug/quarantine.h"
#include "debug/trace.h"
#include "heap/heap.h"
#include "os/meta.h"
#include "os/os_fault.h"
#include "report/failfast.h"
#include "report/settings.h"
#include "slab/validate.h"
}

namespace {

char *take(size_t size, size_t align = 0, bool zero = false, frame_family family = FAMILY_MALLOC)
{
    return static_cast<char *>(frame_alloc(family, align, size, zero));
}

void release(void *block, frame_family family = FAMILY_MALLOC)
{
    frame_free(block, {family, false, false, 0, 0});
}

class FrameTest : public test::HeapTest {
  protected:
    void TearDown() override
    {
        quarantine_empty();
        test::HeapTest::TearDown();
    }
};
class FrameDeathTest : public FrameTest {};

std::string offset_report(const char *kind, long offset, size_t size)
{
    return std::string("hakmem: failfast: ") + kind + ": (.|\n)*first changed byte: offset " + std::to_string(offset) +
           " of " + std::to_string(size) + "\n";
}

std::vector<size_t> sizes()
{
    std::vector<size_t> all = test::all_kinds_of_sizes();
    for (size_t size : std::vector<size_t>(all))
        if (size > 40) all.push_back(size - 32), all.push_back(size - 31); // fills a block; needs a larger one
    return all;
}

} // namespace

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

// The block, and what lies around it, are as they were before, so that a later look finds nothing.
TEST_F(FrameTest, AWriteAfterFreeIsReportedOnce)
{
    SKIP_UNDER_SANITIZER("it reports the write itself");
    const int level = failfast_level_read, goes_on = failfast_goes_on_read;
    failfast_level_read = LEVEL_TRACES;
    failfast_goes_on_read = 1;
    for (long offset : {0, 50, 99, -1, 100}) {
        char *block = take(100);
        release(block);
        block[offset] ^= 1;
        for (bool again : {false, true}) {
            testing::internal::CaptureStderr();
            quarantine_sweep();
            std::string said = testing::internal::GetCapturedStderr();
            EXPECT_EQ(said.find("write_after_free") != said.npos, !again) << said;
        }
        testing::internal::CaptureStderr();
        quarantine_empty();
        EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    }
    failfast_level_read = level;
    failfast_goes_on_read = goes_on;
}

TEST_F(FrameTest, TheQuarantineIsBoundedAndIsEmptiedAtTheThreadsEnd)
{
    for (size_t size : {1u, 1000u, 20000u}) {
        char *first = take(size);
        size_t waits = 0, bytes = heap_lookup(first).bytes;
        release(first);
        while (heap_lookup(first).live && waits < 5000) {
            release(take(size));
            waits++;
        }
        EXPECT_LE(waits, (size_t)QUARANTINE_BLOCKS_MAX);
        EXPECT_LE(waits * bytes, (size_t)QUARANTINE_BYTES_MAX);
        EXPECT_GE(waits, 1u);
        const size_t by_bytes = std::max<size_t>(QUARANTINE_BYTES_MIN / bytes, 1);
        EXPECT_GE(waits + 1, std::min<size_t>(QUARANTINE_BYTES_MIN / QUARANTINE_MEAN_BYTES, by_bytes));
        quarantine_empty();
    }
    char *block = take(100);
    test::in_thread([&] {
        release(take(10)); // the thread takes a heap
        release(block);
        EXPECT_TRUE(quarantine_holds(heap_lookup(block).start));
    });
    EXPECT_FALSE(quarantine_holds(heap_lookup(block).start));
}

// A thread that ends leaves its ring to a later one, also the first ring of all.
class FrameRings : public FrameTest {}; // in a process of its own, which has no ring yet

TEST_F(FrameRings, ALaterThreadTakesTheRingOfOneThatEnded)
{
    const auto waits = [] {
        char *block = take(10);
        const char *start = heap_lookup(block).start;
        release(block);
        return quarantine_holds(start);
    };
    test::in_thread([&] { EXPECT_TRUE(waits()); });
    os_fault_install(1, true);
    while (meta_alloc(64) != nullptr) {} // for another ring
    test::in_thread([&] { EXPECT_TRUE(waits()) << "it finds no ring"; });
    os_fault_remove();
}

// A thread whose first free comes in its last destructors ends without a word to the quarantine.
TEST_F(FrameRings, ALaterThreadTakesTheRingOfOneThatIsGone)
{
    const char *start = nullptr;
    test::in_thread([&] {
        char *block = take(10);
        start = heap_lookup(block).start;
        release(block);
        tcache_self()->state = THREAD_ENDED; // so that the key's destructor does nothing
        thread_abandon_heap(tcache_self());
    });
    EXPECT_TRUE(quarantine_holds(start)) << "nobody took the block out";
    test::in_thread([] {
        errno = 77;
        release(take(10));
        EXPECT_EQ(errno, 77);
    });
    EXPECT_FALSE(quarantine_holds(start)) << "the ring was not taken";
}

// As many blocks wait as the limits on their number and on their bytes allow, and not one more: the oldest leaves. A
// thread that has freed little has the smallest limits.
TEST_F(FrameTest, TheOneBlockTooManyDrivesTheOldestOut)
{
    for (size_t size : {10u, 1000u}) {
        test::in_thread([&] {
            char *probe = take(size);
            const size_t bytes = heap_lookup(probe).bytes;
            heap_free(heap_lookup(probe).start);
            const size_t most =
                std::min<size_t>(QUARANTINE_BYTES_MIN / QUARANTINE_MEAN_BYTES, QUARANTINE_BYTES_MIN / bytes);
            std::vector<char *> blocks, starts;
            for (size_t i = 0; i <= most; i++) {
                blocks.push_back(take(size));
                starts.push_back(heap_lookup(blocks[i]).start);
            }
            for (size_t i = 0; i < most; i++) release(blocks[i]);
            for (size_t i = 0; i < most; i++) ASSERT_TRUE(quarantine_holds(starts[i])) << i << " of " << most;
            release(blocks[most]);
            EXPECT_FALSE(quarantine_holds(starts[0]));
            for (size_t i = 1; i <= most; i++) ASSERT_TRUE(quarantine_holds(starts[i])) << i << " of " << most;
            EXPECT_TRUE(quarantine_empty());
            EXPECT_FALSE(quarantine_empty()) << "it is empty already";
        });
    }
}

TEST_F(FrameTest, ABlockLargerThanTheLimitDoesNotWait)
{
    std::set<bool> seen;
    for (size_t size : {20000u, 32u << 10, 60u << 10, 64u << 10, 120u << 10, 3u << 20}) {
        char *block = take(size);
        const lookup place = heap_lookup(block);
        release(block);
        EXPECT_EQ(quarantine_holds(place.start), place.bytes <= QUARANTINE_BLOCK_BYTES_MAX) << place.bytes;
        if (place.bytes == QUARANTINE_BLOCK_BYTES_MAX) seen.insert(true);
        if (place.bytes == (size_t)QUARANTINE_BLOCK_BYTES_MAX + (size_t)PAGE_BYTES) seen.insert(false);
        quarantine_empty();
    }
    EXPECT_EQ(seen.size(), 2u) << "no block of exactly the limit, or of one page more";
}

// How many bytes wait in the calling thread's quarantine: those put before the first one leaves.
size_t bytes_that_wait()
{
    char *first = take(1000);
    size_t bytes = heap_lookup(first).bytes, waits = 0;
    for (release(first); heap_lookup(first).live && waits < 5000; waits++) release(take(1000));
    return waits * bytes;
}

TEST_F(FrameTest, AsMuchWaitsAsAThreadHasBothFreedAndInUse)
{
    const size_t little = 4 * QUARANTINE_BYTES_MIN, much = QUARANTINE_BYTES_MAX / 2;
    test::in_thread([&] {
        for (int i = 0; i < 4000; i++) release(take(1000));
        EXPECT_LE(bytes_that_wait(), little) << "freed much, has little in use";
    });
    test::in_thread([&] {
        std::vector<char *> in_use;
        for (int i = 0; i < 4000; i++) in_use.push_back(take(1000));
        EXPECT_LE(bytes_that_wait(), little) << "freed little, has much in use";
        for (int i = 0; i < 4000; i++) release(take(1000));
        EXPECT_GE(bytes_that_wait(), much);
        for (char *block : in_use) release(block);
    });
}

TEST_F(FrameTest, AChildGetsBackWhatWaitedInThreadsThatItHasNot)
{
    std::atomic<int> ready{0};
    std::atomic<bool> is_over{false};
    char *blocks[] = {take(100), take(100)};
    std::vector<std::thread> others;
    for (char *block : blocks)
        others.emplace_back([&, block] {
            release(take(10));
            release(block);
            ready++;
            while (!is_over) std::this_thread::yield();
        });
    while (ready != 2) std::this_thread::yield();
    for (char *block : blocks) EXPECT_TRUE(quarantine_holds(heap_lookup(block).start));
    EXPECT_TRUE(test::in_child([&] {
        for (char *block : blocks) EXPECT_FALSE(quarantine_holds(heap_lookup(block).start));
    }));
    is_over = true;
    for (std::thread &other : others) other.join();
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

// Changes every byte of a frame and expects its kind and its offset.
TEST_F(FrameDeathTest, EveryByteOfAFrameIsLookedAt)
{
    for (size_t size : {0u, 1u, 20u, 25u}) {
        char *block = take(size);
        long end = heap_lookup(block).start + heap_lookup(block).bytes - block;
        for (long offset = -16; offset < end; offset++) {
            if (offset >= 0 && offset < (long)size) continue;
            EXPECT_DEATH(
                {
                    block[offset] ^= 0x10;
                    release(block);
                },
                offset_report(offset < 0 ? "write_before" : "write_after", offset, size));
        }
        release(block);
    }
}

// Of a long rest behind the block FRAME_FILL_MAX bytes are looked at.
TEST_F(FrameDeathTest, TheRestOfABlockIsLookedAtUpToItsBound)
{
    const size_t size = 40000;
    for (size_t offset : {size, size + 1, size + FRAME_FILL_MAX - 2, size + FRAME_FILL_MAX - 1}) {
        char *block = take(size);
        EXPECT_DEATH(
            {
                block[offset] ^= 0x10;
                release(block);
            },
            "write_after");
        release(block);
    }
    char *block = take(size);
    block[size + FRAME_FILL_MAX] ^= 0x10;
    release(block);
}

TEST_F(FrameDeathTest, AFrameThatIsWhollyOverwrittenIsStillABlocks)
{
    char *block = take(100);
    struct lookup at = heap_lookup(block);
    ASSERT_EQ(block, at.start + FRAME_FRONT_BYTES);
    EXPECT_DEATH(
        {
            memset(at.start, 'x', at.bytes);
            release(block);
        },
        "write_before: (.|\n)*and the block's end is overwritten too");
    for (char *inside : {at.start, block + 16}) // there is no room for a frame before at.start
        EXPECT_DEATH(release(inside), "interior_pointer: ");
    for (size_t offset : {(size_t)1, (size_t)8, (size_t)15})
        EXPECT_DEATH(release(block + offset), "misaligned_pointer: ");
    char *behind = at.slab_start + at.slab_capacity * at.bytes;
    ASSERT_EQ(heap_lookup(behind).kind, RECORD_KIND_slab);
    EXPECT_DEATH(release(behind), "never_returned: (.|\n)*in a slab, where no block of it can be\n");
    release(block);
}

// As the handler that writes a crash record: which block was kept of the find.
static void print_kept(int)
{
    const char *report;
    size_t bytes;
    const failfast_find *kept = failfast_kept(&report, &bytes);
    dprintf(STDERR_FILENO, "kept: %zu bytes at 0x%zx, kind %u, class %u, state %u\n", kept->block_bytes,
            (uintptr_t)kept->block_start, kept->kind, kept->class_index, kept->state);
    _exit(1);
}

// Below level 2, where no block has a frame, a report is about the heap's block; from there on about the program's part.
TEST_F(FrameDeathTest, TheBlockOfAReport)
{
    char *block = take(100);
    const struct lookup at = heap_lookup(block);
    const std::string in = "hakmem:   in a small block of " + std::to_string(at.bytes) +
                           " bytes at 0x[0-9a-f]*, class " + std::to_string(at.class_index) + ", heap " +
                           std::to_string(at.owner_id) + "\nhakmem:   state: live\n";
    const auto kept = [&at](const char *start, size_t bytes) {
        char words[200];
        snprintf(words, sizeof words, "(.|\n)*kept: %zu bytes at 0x%zx, kind %u, class %u, state %u\n", bytes,
                 (uintptr_t)start, (unsigned)RECORD_KIND_slab, at.class_index, (unsigned)RECORD_STATE_live);
        return std::string(words);
    };
    const auto misuse_at = [block](int level) {
        signal(SIGABRT, print_kept);
        failfast_level_read = level;
        release(block + 16);
    };
    EXPECT_EXIT(misuse_at(LEVEL_LAYOUT), testing::ExitedWithCode(1),
                in + "hakmem:   next: " + kept(at.start, at.bytes));
    for (int level : {LEVEL_FRAMES, LEVEL_TRACES})
        EXPECT_EXIT(misuse_at(level), testing::ExitedWithCode(1),
                    in + "hakmem:   offset 16 of 100 bytes that begin at 0x[0-9a-f]*\n" + kept(block, 100));
    release(block);
}

TEST_F(FrameDeathTest, EveryByteOfABlockInQuarantineIsLookedAt)
{
    char *block = take(20);
    for (long offset = -16; offset < 32; offset++)
        EXPECT_DEATH(
            {
                release(block);
                block[offset] ^= 1;
                quarantine_empty();
            },
            offset_report("write_after_free", offset, 20));
    release(block);
    for (int damaged : {0, 1, 2}) {
        char *blocks[] = {take(20), take(20), take(20)};
        for (char *each : blocks) release(each);
        failfast_level_read = LEVEL_TRACES;
        EXPECT_DEATH((blocks[damaged][3] ^= 1, quarantine_sweep()), offset_report("write_after_free", 3, 20));
        failfast_level_read = LEVEL_LAYOUT;
    }
}

TEST_F(FrameDeathTest, WhatFreeSaysMustBeTrue)
{
    char *block = take(100, 64);
    EXPECT_DEATH(release(block, FAMILY_NEW), "mismatched_delete: (.|\n)*allocated by malloc, and now delete\n");
    EXPECT_DEATH(frame_free(block, {FAMILY_MALLOC, true, false, 99, 0}),
                 "wrong_size: (.|\n)*with 100, freed with 99\n");
    EXPECT_DEATH(frame_free(block, {FAMILY_MALLOC, false, true, 0, 32}),
                 "wrong_alignment: (.|\n)*with 64, freed with 32\n");
    frame_free(block, {FAMILY_MALLOC, true, true, 100, 64});
}

TEST_F(FrameDeathTest, WhatTheSizedFreesSayIsPassedOn)
{
    const int level = failfast_level_read;
    failfast_level_read = LEVEL_FRAMES;
    void *block = hak_aligned_alloc(64, 100), *plain = hak_malloc(100);
    EXPECT_DEATH(hak_free_sized(plain, 99), "wrong_size: (.|\n)*with 100, freed with 99\n");
    EXPECT_DEATH(hak_free_aligned_sized(block, 64, 99), "wrong_aligned_size: (.|\n)*with 100, freed with 99\n");
    EXPECT_DEATH(hak_free_aligned_sized(block, 32, 100), "wrong_alignment: (.|\n)*with 64, freed with 32\n");
    hak_free_aligned_sized(block, 64, 100);
    hak_free_sized(plain, 100);
    failfast_level_read = level;
}

// Their blocks do not wait in the quarantine. All else is checked as elsewhere; destroyed_heap has its misuse programs.
TEST_F(FrameDeathTest, BlocksOfTheProgramsOwnHeaps)
{
    hak_heap *heap = hak_heap_new();
    for (size_t size : {100u, 100000u}) {
        char *block = static_cast<char *>(frame_alloc_in(heap, 0, size, false));
        const char *start = heap_lookup(block).start;
        for (long offset : {-1L, (long)size})
            EXPECT_DEATH((block[offset] ^= 1, release(block)),
                         offset_report(offset < 0 ? "write_before" : "write_after", offset, size));
        EXPECT_DEATH(release(block, FAMILY_NEW), "mismatched_delete: ");
        EXPECT_DEATH(frame_free(block, {FAMILY_MALLOC, true, false, 99, 0}), "wrong_size: ");
        EXPECT_DEATH(release(block + 16), "interior_pointer: ");
        EXPECT_DEATH((release(block), release(block)), "double_free: ");
        EXPECT_DEATH((release(block), (void)frame_realloc(block, 5)), "realloc_freed: ");
        release(block);
        EXPECT_FALSE(quarantine_holds(start));
        hak_heap_figures figures;
        hak_heap_figures_get(heap, &figures, sizeof figures);
        EXPECT_EQ(figures.used_bytes, 0u) << size;
    }
    hak_purge_all(); // so that destroy has no pages to remember
    hak_heap_destroy(heap);
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

// frame_death_test.cc: each way to damage a frame or to misuse a block that has one ends the process with its report.
#include "debug/frame_test_support.h"

#include <csignal>

extern "C" {
#include "report/failfast.h"
#include "report/settings.h"
}

namespace test::frames {

static std::string offset_report(const char *kind, long offset, size_t size)
{
    return std::string("hakmem: failfast: ") + kind + ": (.|\n)*first changed byte: offset " + std::to_string(offset) +
           " of " + std::to_string(size) + "\n";
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

// If the front is damaged, the copy at the block's end is believed, unless it names a family that there is not.
TEST_F(FrameDeathTest, ACopyOfNoFamilyIsOverwrittenToo)
{
    char *block = take(100);
    const struct lookup at = heap_lookup(block);
    char &family = at.start[at.bytes - 2]; // 0, as the alignment above it
    for (int other : {(int)FAMILY_NEW_ARRAY, FAMILY_NEW_ARRAY + 1, 15})
        EXPECT_DEATH((block[-16] ^= 1, family ^= static_cast<char>(other), release(block)),
                     other <= FAMILY_NEW_ARRAY ? offset_report("write_before", -16, 100)
                                               : "write_before: (.|\n)*and the block's end is overwritten too");
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

} // namespace test::frames

// sealed_test.cc: large freed blocks wait, how many, and every use of them is found.
#include <sys/mman.h>

#include "debug/frame_test_support.h"

extern "C" {
#include "debug/fault/sealed.h"
#include "os/os.h"
#include "os/os_fault.h"
#include "report/settings.h"
#include "superslab/limit.h"
}

namespace test::frames {

constexpr size_t LARGE = 100 * 1000;

class Sealed : public FrameTest {
  protected:
    void SetUp() override
    {
        FrameTest::SetUp();
        failfast_level_read = LEVEL_FRAMES;
        sealed_start();
        failfast_level_read = LEVEL_LAYOUT;
        if (SANITIZED) GTEST_SKIP() << "the sanitizer keeps large blocks itself";
    }
    void TearDown() override
    {
        sealed_empty();
        sealed_start(); /* off, at this level */
        FrameTest::TearDown();
    }
};

static bool waits(const char *block)
{
    return heap_lookup(block).live && sealed_holds(heap_lookup(block).start);
}

// As many as the bound says, and the oldest leaves for one more. (SEALED_BLOCKS_MAX)
TEST_F(Sealed, TheOneBlockTooManyDrivesTheOldestOut)
{
    EXPECT_FALSE(sealed_empty());
    std::vector<char *> blocks;
    for (int i = 0; i <= SEALED_BLOCKS_MAX; i++) blocks.push_back(take(LARGE));
    for (size_t count = 1; count <= SEALED_BLOCKS_MAX; count++) {
        release(blocks[count - 1]);
        for (size_t i = 0; i < count; i++) ASSERT_TRUE(waits(blocks[i])) << i << " of " << count;
    }
    release(blocks.back());
    EXPECT_FALSE(waits(blocks[0]));
    for (size_t i = 1; i < blocks.size(); i++) EXPECT_TRUE(waits(blocks[i])) << i;
    EXPECT_TRUE(sealed_empty());
    for (char *block : blocks) EXPECT_FALSE(waits(block));
    EXPECT_FALSE(sealed_empty());
}

// (SEALED_BYTES_MAX)
TEST_F(Sealed, TheBytesAreBounded)
{
    for (size_t size : {size_t{SEALED_BYTES_MAX} / 4, size_t{SEALED_BYTES_MAX} - 4 * PAGE_BYTES}) {
        char *first = take(size);
        const size_t fit = SEALED_BYTES_MAX / heap_lookup(first).bytes;
        release(first);
        EXPECT_TRUE(waits(first));
        for (size_t i = 1; i < fit; i++) release(take(size));
        EXPECT_TRUE(waits(first)) << size;
        release(take(size));
        EXPECT_FALSE(waits(first)) << size;
        sealed_empty();
    }
    char *larger = take(SEALED_BYTES_MAX);
    release(larger);
    EXPECT_FALSE(waits(larger));
}

// The program's part faults but at its ends, and a block that leaves may be used in all its bytes.
TEST_F(Sealed, AllButTheEndsIsSealed)
{
    const size_t page = os_page_bytes();
    for (size_t align : {size_t{0}, size_t{64}, size_t{65536}}) {
        char *block = take(LARGE, align);
        memset(block, 1, LARGE);
        release(block);
        framed found;
        EXPECT_TRUE(sealed_find(block + LARGE / 2, &found));
        EXPECT_EQ(found.user, block);
        EXPECT_EQ(found.word.size_bytes, LARGE);
        size_t sealed = 0;
        for (size_t i = 0; i < LARGE; i++) sealed += sealed_find(block + i, &found);
        EXPECT_GE(sealed + 2 * page, LARGE);
        EXPECT_EQ(sealed % page, 0u);
        EXPECT_FALSE(sealed_find(block - 1, &found));
        EXPECT_FALSE(sealed_find(block + LARGE, &found));
        EXPECT_TRUE(sealed_empty());
        EXPECT_FALSE(sealed_find(block + LARGE / 2, &found));
        char *again = take(LARGE, align);
        memset(again, 2, LARGE);
        release(again);
    }
}

// Each byte at the ends that no page protection covers, and of the frame, is looked at when the block leaves.
TEST_F(Sealed, TheEndsAreLookedAt)
{
    failfast_goes_on_read = 1;
    framed frame;
    char *block = take(LARGE);
    release(block);
    ASSERT_TRUE(sealed_find(block + LARGE / 2, &frame));
    const ptrdiff_t size = LARGE, end = frame.start + (ptrdiff_t)frame.bytes - block;
    sealed_empty();
    for (ptrdiff_t offset : {(ptrdiff_t)-1, (ptrdiff_t)0, size - 1, size, end - 1}) {
        block = take(LARGE);
        release(block);
        block[offset] ^= 1;
        testing::internal::CaptureStderr();
        EXPECT_TRUE(sealed_empty());
        const std::string said = testing::internal::GetCapturedStderr();
        EXPECT_NE(said.find("offset " + std::to_string(offset) + " of"), said.npos) << offset << ": " << said;
    }
    failfast_goes_on_read = 0;
}

// A forked child counts what waits again.
TEST_F(Sealed, TheBytesAreBoundedInAChildToo)
{
    const size_t size = SEALED_BYTES_MAX / 4;
    char *first = take(size);
    const size_t fit = SEALED_BYTES_MAX / heap_lookup(first).bytes;
    release(first);
    EXPECT_TRUE(test::in_child([&] {
        for (size_t i = 1; i < fit; i++) release(take(size));
        EXPECT_TRUE(waits(first));
        release(take(size));
        EXPECT_FALSE(waits(first));
    }));
}

// If the system refuses to seal a block, it goes to the heap at once.
TEST_F(Sealed, WhatTheSystemDoesNotSealDoesNotWait)
{
    char *block = take(LARGE);
    os_fault_install(1, false);
    release(block);
    EXPECT_EQ(os_fault_failures(), 1u);
    os_fault_remove();
    EXPECT_FALSE(waits(block));
    EXPECT_FALSE(sealed_empty());
}

// Not with a limit on the memory that the heap may have.
TEST_F(Sealed, NoneWaitsWithALimit)
{
    limit_set(size_t{1} << 40);
    failfast_level_read = LEVEL_FRAMES;
    sealed_start();
    failfast_level_read = LEVEL_LAYOUT;
    char *block = take(LARGE);
    release(block);
    EXPECT_FALSE(waits(block));
    limit_set(SIZE_MAX);
}

// A limit that comes later drives the blocks out, also for a block that grows.
TEST_F(Sealed, ALaterLimitGetsTheirMemory)
{
    constexpr size_t BYTES = 5 * MIB;
    char *block = take(BYTES);
    for (int i = 0; i < 10; i++) release(take(BYTES));
    limit_set(limit_committed_bytes() + MIB);
    errno = 0;
    char *grown = static_cast<char *>(frame_realloc(block, 6 * BYTES));
    EXPECT_NE(grown, nullptr);
    EXPECT_EQ(errno, 0);
    limit_set(SIZE_MAX);
    release(grown != nullptr ? grown : block);
}

// A thread that faults after another one has reported the block learns that it can be used now.
TEST_F(Sealed, OpenAfterAReport)
{
    framed found;
    char *block = take(LARGE);
    release(block);
    EXPECT_FALSE(sealed_is_open(block + LARGE / 2));
    sealed_open(block + LARGE / 2);
    EXPECT_FALSE(sealed_find(block + LARGE / 2, &found));
    EXPECT_TRUE(sealed_is_open(block + LARGE / 2));
    EXPECT_FALSE(sealed_is_open(block + LARGE));
    block[LARGE / 2] = 1;
    EXPECT_TRUE(sealed_empty());
    EXPECT_FALSE(sealed_is_open(block + LARGE / 2));
}

} // namespace test::frames

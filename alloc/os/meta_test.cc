// meta_test.cc: memory for descriptors.
#include "base/test_support.h"

extern "C" {
#include "os/meta.h"
#include "os/os.h"
#include "os/os_fault.h"
}

TEST(Meta, ZeroedAlignedAndApart)
{
    std::vector<std::pair<char *, size_t>> all;
    test::Rng rng;
    for (int i = 0; i < 400; i++) {
        // Both sides of the limit between blocks cut from a range and blocks with a mapping of their own.
        size_t size = i % 40 == 39 ? (1 << 17) + rng.below(3) - 1 : rng.between(1, 5000);
        char *start = static_cast<char *>(meta_alloc(size));
        ASSERT_NE(start, nullptr);
        EXPECT_TRUE(test::is_aligned(start, 64));
        EXPECT_TRUE(test::is_zero(start, size));
        memset(start, 0xff, size);
        all.emplace_back(start, size);
    }
    std::sort(all.begin(), all.end());
    for (size_t i = 1; i < all.size(); i++) ASSERT_LE(all[i - 1].first + all[i - 1].second, all[i].first);
}

// The calls to the system that this number of blocks takes: one for each mapping.
static uint64_t calls_for(size_t blocks, size_t size_bytes)
{
    os_fault_install(0, false);
    for (size_t i = 0; i < blocks; i++) EXPECT_NE(meta_alloc(size_bytes), nullptr);
    return os_fault_remove();
}

// A range is used to its last line, and the next one is mapped for the line that follows.
TEST(Meta, ARangeIsUsedToItsLastLine)
{
    constexpr size_t RANGE = 1 << 20, LINE = 64;
    while (calls_for(1, LINE) == 0) {} // the first line of a range
    for (size_t size : {LINE, (size_t)1, LINE}) {
        EXPECT_EQ(calls_for(RANGE / LINE - 1, size), 0u);
        EXPECT_EQ(calls_for(1, size), 1u) << "the range was full";
    }
    // The largest block of a range, eight times; one byte more has a mapping of its own.
    EXPECT_EQ(calls_for(RANGE / LINE - 1, LINE), 0u);
    EXPECT_EQ(calls_for(8, RANGE / 8), 1u);
    EXPECT_EQ(calls_for(1, RANGE / 8 + 1), 1u);
    EXPECT_EQ(calls_for(1, LINE), 1u) << "eight have filled the range";
    // If the system refuses the next range, the rest of this one still serves who needs no more.
    os_fault_install(1, true);
    for (int i = 0; i < 7; i++) EXPECT_NE(meta_alloc(RANGE / 8), nullptr);
    EXPECT_EQ(meta_alloc(RANGE / 8), nullptr);
    EXPECT_NE(meta_alloc(LINE), nullptr);
    os_fault_remove();
}

// In the frugal mode the rest of a range goes back to the system. If the system does not take it, it serves as before.
TEST(Meta, WhatTheSystemDoesNotTakeServes)
{
    constexpr size_t RANGE = 1 << 20, LINE = 64;
    for (bool is_taken : {false, true}) {
        while (calls_for(1, LINE) == 0) {} // the first line of a range
        if (!is_taken) os_fault_install(1, true);
        meta_be_frugal(true);
        if (!is_taken) os_fault_remove();
        meta_be_frugal(false);
        if (!is_taken) EXPECT_EQ(calls_for(RANGE / LINE - 1, LINE), 0u) << "a part of the range is lost";
        EXPECT_EQ(calls_for(os_page_bytes() / LINE, LINE), 1u) << "the range was full, or it was given back";
    }
}

// Several ranges' worth: a thread that lost count of what is left would write beyond the end of one.
TEST(Meta, ThreadsGetMemoryOfTheirOwn)
{
    constexpr int BLOCKS = 20000;
    static std::atomic<int> torn;
    test::in_threads(4, [](int thread) {
        std::vector<uint64_t *> mine;
        for (int i = 0; i < BLOCKS; i++) {
            auto *words = static_cast<uint64_t *>(meta_alloc(128));
            std::fill(words, words + 16, (uint64_t)thread << 32 | (uint64_t)i);
            mine.push_back(words);
        }
        for (int i = 0; i < BLOCKS; i++)
            for (int word = 0; word < 16; word++)
                if (mine[(size_t)i][word] != ((uint64_t)thread << 32 | (uint64_t)i)) torn++;
    });
    EXPECT_EQ(torn, 0);
}

TEST(Meta, RefusesWhenTheSystemDoes)
{
    os_fault_install(1, false);
    EXPECT_EQ(meta_alloc(1 << 20), nullptr);
    EXPECT_EQ(os_fault_failures(), 1u);
    EXPECT_NE(meta_alloc(1 << 20), nullptr) << "afterwards it works again";
    os_fault_remove();
    os_fault_install(1, true);
    int given = 0;
    while (given < 100000 && meta_alloc(1 << 16) != nullptr) given++;
    EXPECT_LT(given, 100000) << "the rest of a range is used up, then NULL";
    os_fault_remove();
    EXPECT_NE(meta_alloc(1 << 16), nullptr);
}

#include "engine/judge/remains.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <initializer_list>
#include <latch>

#include "engine/base/build.h"

namespace stress {
namespace {

using testing::HasSubstr;

Rounds rounds_of(Figure figure, std::initializer_list<std::uint64_t> values)
{
    Rounds rounds;
    for (std::uint64_t value : values) {
        Held held{};
        held[figure] = figure == kResidentBytes ? value << 18 : value;
        rounds.push_back(held);
    }
    return rounds;
}

TEST(Remains, WhatGrowsInEachRoundIsLost)
{
    for (std::size_t figure = 0; figure < kFigureCount; ++figure) {
        const auto fault = [&](std::initializer_list<std::uint64_t> values, bool strict) {
            return remains_fault(rounds_of(static_cast<Figure>(figure), values), strict, 4);
        };
        EXPECT_THAT(
            fault({5, 6, 7, 8, 9}, true),
            HasSubstr(figure == kResidentBytes ? " after each round: 1310720 1572864" : " after each round: 5 6 7 8 9"))
            << figure;
        EXPECT_EQ(fault({6, 7, 8, 9}, true), "") << "too few rounds";
        EXPECT_EQ(fault({5, 9, 9, 9, 9}, true), "") << "caches fill in the first round";
        EXPECT_NE(fault({1, 2, 3, 4, 5, 6, 7, 8, 9}, false), "");
        EXPECT_EQ(fault({2, 3, 4, 5, 6, 7, 8, 9}, false), "") << "too few rounds";
        EXPECT_EQ(fault({1, 2, 3, 4, 5, 5, 6, 7, 8}, false), "") << "it stopped once";
        EXPECT_EQ(fault({1, 2, 3, 4, 5, 6, 7, 8, 8}, false), "") << "at the end";
    }
}

TEST(Remains, AFewResidentPagesARoundAreNoLeak)
{
    constexpr std::uint64_t least = 4 * (std::uint64_t{64} << 10);
    for (std::uint64_t step : {least, least - 1}) {
        Rounds rounds(9);
        for (std::size_t i = 0; i < rounds.size(); ++i) rounds[i][kResidentBytes] = i * step;
        EXPECT_EQ(remains_fault(rounds, false, 4) != "", step == least) << step;
    }
}

TEST(Remains, AStrictRunEndsWhereItsSecondRoundEnded)
{
    const auto fault = [](Figure figure, std::uint64_t more, bool strict) {
        return remains_fault(rounds_of(figure, {0, 100, 100, 100, 100, 100, 100, 100, 100 + more}), strict, 4);
    };
    for (Figure figure : {kDescriptors, kKeys, kThreads}) EXPECT_NE(fault(figure, 1, true), "") << figure;
    for (Figure figure : {kOpenMappings, kClosedMappings}) {
        EXPECT_EQ(fault(figure, 8, true), "") << figure;
        EXPECT_THAT(fault(figure, 9, true), HasSubstr("; the last may be 8 above the second")) << figure;
        EXPECT_EQ(fault(figure, 9, false), "") << figure;
    }
    EXPECT_EQ(fault(kBytes, 16 << 20, true), "");
    EXPECT_NE(fault(kBytes, (16 << 20) + 1, true), "");
    for (Figure figure : {kFileMappings, kFileBytes, kUsedBytes}) EXPECT_EQ(fault(figure, 1 << 30, true), "") << figure;
}

TEST(Remains, MappingsByKind)
{
    Held held{};
    for (const char *line :
         {"7f0000000000-7f0000002000 rw-p 00000000 00:00 0 \n", "7f0000002000-7f0000003000 ---p 00000000 00:00 0 \n",
          "7f0000003000-7f0000007000 -w-p 00000000 00:00 0                  [heap]\n",
          "7f0000007000-7f0000008000 ---p 00001000 08:01 77    /usr/lib/a b.so\n",
          "7f0000008000-7f0000009000 --xp 00000000 00:00 0 \n", "nonsense\n"})
        held_add_mapping(held, line);
    EXPECT_EQ(held, (Held{2, 2, 1, 0x8000, 0x1000}));
    for (unsigned long start : {0x010000000000ul, 0x012345000000ul, 0x340000000000ul}) EXPECT_TRUE(is_shadow(start));
    for (unsigned long start : {0x400000ul, 0x555555554000ul, 0x720000000000ul, 0x7ffff7fff000ul})
        EXPECT_FALSE(is_shadow(start));
}

// Everything that a round can leave changes its figure, and a second look changes nothing.
TEST(Remains, OfThisProcess)
{
    if (kSanitized) GTEST_SKIP() << "a sanitizer maps memory of its own";
    const auto wait = [](void *latch) -> void * { return static_cast<std::latch *>(latch)->wait(), nullptr; };
    const auto threads_with_one_more = [wait] {
        std::latch end(1);
        pthread_t thread{};
        EXPECT_EQ(pthread_create(&thread, nullptr, wait, &end), 0);
        const std::uint64_t count = held_now()[kThreads];
        end.count_down();
        pthread_join(thread, nullptr);
        return count;
    };
    threads_with_one_more(); // so that libc has the memory that two threads take
    held_now();
    const Held before = held_now();
    // All figures are as before. libc's heap ends at another page when more threads are ending at once.
    const auto expect_before = [&before] {
        Held now = held_now();
        EXPECT_NEAR(static_cast<double>(now[kBytes]), static_cast<double>(before[kBytes]), 64 << 10);
        EXPECT_NEAR(static_cast<double>(now[kResidentBytes]), static_cast<double>(before[kResidentBytes]), 64 << 10);
        now[kBytes] = before[kBytes];
        now[kResidentBytes] = before[kResidentBytes];
        EXPECT_EQ(now, before);
    };
    expect_before();

    // Of threads that run at once, libc keeps each stack.
    std::latch end(1);
    pthread_t at_once[3];
    for (pthread_t &thread : at_once) ASSERT_EQ(pthread_create(&thread, nullptr, wait, &end), 0);
    end.count_down();
    for (pthread_t thread : at_once) pthread_join(thread, nullptr);
    expect_before();

    constexpr std::size_t part_bytes = 1 << 20;
    char *pages = static_cast<char *>(mmap(nullptr, 3 * part_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(mprotect(pages + part_bytes, part_bytes, PROT_READ), 0);
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_key_t key{};
    ASSERT_EQ(pthread_key_create(&key, nullptr), 0);
    const Held after = held_now();
    EXPECT_EQ(after[kOpenMappings], before[kOpenMappings] + 1);
    EXPECT_GT(after[kClosedMappings], before[kClosedMappings]);
    EXPECT_NEAR(static_cast<double>(after[kBytes]), static_cast<double>(before[kBytes] + 3 * part_bytes), 64 << 10);
    EXPECT_EQ(after[kDescriptors], before[kDescriptors] + 1);
    EXPECT_EQ(after[kKeys], before[kKeys] + 1);
    EXPECT_EQ(after[kThreads], before[kThreads]);

    // Threads without an object of std::thread, for whose end libc would make an arena.
    pthread_t thread{};
    for (int i = 0; i < 10; ++i) { // a thread that was joined is none
        ASSERT_EQ(pthread_create(&thread, nullptr, [](void *nothing) { return nothing; }, nullptr), 0);
        pthread_join(thread, nullptr);
        ASSERT_EQ(held_now()[kThreads], before[kThreads]) << i;
    }
    EXPECT_EQ(threads_with_one_more(), before[kThreads] + 1);

    pthread_key_delete(key);
    close(fd);
    munmap(pages, 3 * part_bytes);
    expect_before();
}

} // namespace
} // namespace stress

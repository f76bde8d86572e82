#include "engine/judge/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <latch>
#include <thread>
#include <vector>

#include "engine/base/file.h"
#include "engine/judge/memory_law.h"

namespace stress {
namespace {

TEST(Memory, ResidentBytesCountWhatIsTouched)
{
    const std::size_t before = process_resident_bytes();
    ASSERT_GT(before, 0u);
    const Mapped<char> own(16u << 20);
    EXPECT_GE(process_resident_bytes(), before + (15u << 20));
    EXPECT_GE(harness_resident_bytes(), 16u << 20);
}

#define SKIP_WITHOUT_PLACES() \
    if (kSanitized || kEmulated) GTEST_SKIP() << "a sanitizer or an emulator may use the addresses"

// Where the kernel puts a mapping that asks for no place, as those of a malloc do.
void *place_of_a_mapping(std::size_t size_bytes)
{
    void *start = mmap(nullptr, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(start, size_bytes);
    return start;
}

TEST(Memory, TheHarnessDoesNotMoveWhatTheSubjectMaps)
{
    SKIP_WITHOUT_PLACES();
    constexpr std::size_t small_bytes = 4096, large_bytes = std::size_t{4} << 20;
    void *const small = place_of_a_mapping(small_bytes), *const large = place_of_a_mapping(large_bytes);
    for (std::size_t size_bytes : {std::size_t{1}, std::size_t{12288}, std::size_t{9} << 20}) {
        const Mapped<char> first(size_bytes), second(2 * size_bytes);
        EXPECT_EQ(place_of_a_mapping(small_bytes), small) << size_bytes;
        EXPECT_EQ(place_of_a_mapping(large_bytes), large) << size_bytes;
        void *third = harness_mmap(size_bytes, MAP_NORESERVE);
        EXPECT_EQ(place_of_a_mapping(small_bytes), small) << size_bytes;
        munmap(third, size_bytes);
    }
}

TEST(Memory, RoundsThatUnmapEverythingGetTheSamePlaces)
{
    SKIP_WITHOUT_PLACES();
    const auto round = [] {
        const Mapped<char> first(5000), second(1);
        return second.begin();
    };
    EXPECT_EQ(round(), round());
}

TEST(Memory, MappingsAreCounted)
{
    const std::size_t before = process_mapping_count();
    ASSERT_GT(before, 5u);
    // The kernel cannot merge neighbours with different rights into one mapping.
    constexpr std::size_t pages = 200, page_bytes = 4096;
    void *start = mmap(nullptr, pages * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(start, MAP_FAILED);
    for (std::size_t i = 0; i < pages; i += 2)
        ASSERT_EQ(mprotect(static_cast<char *>(start) + i * page_bytes, page_bytes, PROT_READ), 0);
    EXPECT_GE(process_mapping_count(), before + pages - 2);
    munmap(start, pages * page_bytes);
    EXPECT_LE(process_mapping_count(), before + 5);
}

// Each call gives back the descriptors that it takes, but for the one that stays from the first on.
TEST(Memory, NoDescriptorIsLost)
{
    const auto look = [] {
        return process_resident_bytes() != 0 && process_mapping_count() != 0 && process_thread_count() != 0 &&
               process_peak_resident_bytes() != 0 && mapping_limit_count() != 0;
    };
    EXPECT_TRUE(look());
    const std::size_t before = directory_names("/proc/self/fd").size();
    EXPECT_TRUE(look());
    process_peak_begin();
    EXPECT_EQ(directory_names("/proc/self/fd").size(), before);
    rlimit usual{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
    const rlimit none{0, usual.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0); // nothing below may end the test before the limit is back
    EXPECT_EQ(process_mapping_count() + process_thread_count() + process_peak_resident_bytes(), 0u);
    EXPECT_EQ(mapping_limit_count(), 65530u);
    process_peak_begin();
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
}

// What seats allocate and free, less what the harness has; the peaks stay.
TEST(Memory, ASampleIsOfTheSubject)
{
    Counters one, other;
    Mapped<const Counters *> counters(2);
    counters[0] = &one;
    counters[1] = &other;
    ClaimMap claims;
    MemoryMeter meter(claims, counters);
    bump(one.bytes_allocated, 100);
    bump(other.bytes_allocated, 50);
    bump(other.bytes_freed, 30);
    EXPECT_EQ(meter.sample().live_bytes, 120u);
    bump(other.bytes_freed, 70);
    EXPECT_EQ(meter.sample().live_bytes, 50u) << "freed by another seat";
    bump(other.bytes_freed, 51);
    EXPECT_EQ(meter.sample().live_bytes, 0u) << "it is being counted";
    EXPECT_EQ(meter.peak_live_bytes(), 120u);
    const std::uint64_t before = meter.sample().rss_bytes;
    EXPECT_GT(before, 1u << 20);
    {
        const Mapped<char> own(64u << 20);
        EXPECT_LT(meter.sample().rss_bytes, before + (8 << 20)) << "the harness's own";
        harness_count_resident(std::size_t{1} << 40);
        EXPECT_EQ(meter.sample().rss_bytes, 0u);
        harness_count_resident(-(std::size_t{1} << 40));
    }
    EXPECT_LT(meter.peak_rss_bytes(), before + (8 << 20));
    constexpr std::size_t more = 64u << 20;
    void *subject = mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    ASSERT_NE(subject, MAP_FAILED);
    EXPECT_GE(meter.sample().rss_bytes + (8 << 20), before + more);
    const std::uint64_t peak = meter.peak_rss_bytes();
    EXPECT_GE(peak + (8 << 20), before + more);
    munmap(subject, more);
    EXPECT_LT(meter.sample().rss_bytes, before + (8 << 20));
    EXPECT_EQ(meter.peak_rss_bytes(), peak);
}

TEST(Memory, ThePeakBeginsAgain)
{
    process_peak_begin();
    const std::size_t before = process_peak_resident_bytes();
    if (before == 0) GTEST_SKIP() << "the system does not tell the peak";
    EXPECT_GE(before + (4 << 20), process_resident_bytes());
    {
        const Mapped<char> own(32u << 20);
    }
    EXPECT_GE(process_peak_resident_bytes(), before + (30u << 20));
    process_peak_begin();
    EXPECT_LT(process_peak_resident_bytes(), before + (16u << 20));
}

TEST(Memory, StacksOfThreadsAreNotMappingsOfTheSubject)
{
    constexpr std::size_t threads = 40;
    const Mapped<const Counters *> counters(0);
    const ClaimMap claims;
    MemoryMeter meter(claims, counters);
    const std::size_t threads_before = process_thread_count(), before = meter.sample_mappings();
    ASSERT_GE(threads_before, 1u);
    std::latch all_live(threads + 1), over(1);
    std::vector<std::jthread> waiting;
    for (std::size_t i = 0; i < threads; ++i) {
        waiting.emplace_back([&] {
            all_live.count_down();
            over.wait();
        });
    }
    all_live.arrive_and_wait();
    EXPECT_EQ(process_thread_count(), threads_before + threads);
    const std::size_t with_threads = meter.sample_mappings();
    EXPECT_LE(with_threads, before + threads / 2) << "but for what malloc itself maps for them";
    EXPECT_EQ(meter.peak_mapping_count(), std::max(before, with_threads));
    over.count_down();
}

}  // namespace
}  // namespace stress

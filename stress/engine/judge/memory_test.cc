#include "engine/judge/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <latch>
#include <thread>
#include <vector>

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
    EXPECT_LE(meter.sample_mappings(), before + threads / 2) << "but for what malloc itself maps for them";
    over.count_down();
}

}  // namespace
}  // namespace stress

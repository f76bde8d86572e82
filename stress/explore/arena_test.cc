// Tests which pages have memory, and copies that give them none.
#include "explore/inside/arena.h"
#include "explore/inside/arena_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "engine/base/rng.h"
#include "explore/explore_test_support.h"
#include "explore/inside/resident.h"
#include "explore/fibers/zero_page.h"

namespace stress {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPages = 3000;  // more than one look covers

// The numbers of those of the kPages pages that have memory.
std::vector<std::size_t> resident(const unsigned char *start)
{
    const auto first = reinterpret_cast<std::uintptr_t>(start);
    std::vector<std::size_t> pages;
    resident_range ranges[7];
    for (std::uintptr_t at = first, end = first + kPages * kPageBytes; at < first + kPages * kPageBytes;) {
        const std::uint32_t count = resident_ranges(at, &end, ranges, std::size(ranges));
        for (std::uint32_t i = 0; i < count; ++i)
            for (std::uintptr_t page = ranges[i].start; page < ranges[i].end; page += kPageBytes)
                pages.push_back((page - first) / kPageBytes);
        at = end;
        end = first + kPages * kPageBytes;
    }
    return pages;
}

// With each of the two ways to ask; a kernel may have only one.
class Resident : public testing::TestWithParam<bool> {
  protected:
    Resident() { resident_scan_allow(GetParam()); }
    ~Resident() override { resident_scan_allow(true); }
};

TEST_P(Resident, FindsThePagesThatWereTouchedAndNoOthers)
{
    void *start = mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(start, MAP_FAILED);
    auto *bytes = static_cast<unsigned char *>(start);
    ASSERT_EQ(madvise(start, kPages * kPageBytes, MADV_NOHUGEPAGE), 0);
    std::vector<std::size_t> touched;
    Rng rng(1, 0);
    for (std::size_t page = rng.below(3); page < kPages; page += 1 + rng.below(40)) {
        bytes[page * kPageBytes + rng.below(kPageBytes)] = 1;
        touched.push_back(page);
    }
    EXPECT_EQ(resident(bytes), touched);
    munmap(start, kPages * kPageBytes);
}

TEST(ZeroPage, EachByteIsLookedAt)
{
    alignas(kPageBytes) static unsigned char page[kPageBytes];
    EXPECT_TRUE(stress_page_is_zero(page));
    for (unsigned char &byte : page) {
        byte = 0x80;
        EXPECT_FALSE(stress_page_is_zero(page)) << &byte - page;
        byte = 0;
    }
}

class SparseCopy : public Resident {
  protected:
    SparseCopy()
    {
        explorer();  // it makes the arena
        from = reinterpret_cast<unsigned char *>(arena_start() + (std::uintptr_t{12} << 30));
        to = from + 4 * kBytes;
        madvise(from, 8 * kBytes, MADV_DONTNEED);
        madvise(from, 8 * kBytes, MADV_NOHUGEPAGE);
    }

    // Writes a few bytes to memory that had none, and to its model. Reading the memory would give it pages.
    void scatter(unsigned char *start, std::vector<unsigned char> &model)
    {
        madvise(start, kBytes, MADV_DONTNEED);
        model.assign(kBytes, 0);
        for (int i = 0; i < 12; ++i) mark(start, model, rng.below(kBytes));
    }

    void mark(unsigned char *start, std::vector<unsigned char> &model, std::size_t at)
    {
        start[at] = model[at] = static_cast<unsigned char>(1 + rng.below(255));
    }

    // Marks bytes just outside of a part, and at its ends.
    void mark_edges(unsigned char *start, std::vector<unsigned char> &model, std::size_t first, std::size_t end)
    {
        for (const std::size_t at : {first - 1, first, end - 1, end}) mark(start, model, at);
    }

    static constexpr std::size_t kBytes = kPages * kPageBytes;
    unsigned char *from, *to;
    std::vector<unsigned char> from_model, to_model;
    Rng rng{2, 0};
};

TEST_P(SparseCopy, IsMemcpys)
{
    for (int round = 0; round < 60; ++round) {
        scatter(from, from_model);
        scatter(to, to_model);
        const std::size_t size = 1 + rng.below(kBytes / 3), source = 1 + rng.below(kBytes / 2),
                          target = 1 + rng.below(kBytes / 2);
        mark_edges(from, from_model, source, source + size);
        mark_edges(to, to_model, target, target + size);
        std::memcpy(to_model.data() + target, from_model.data() + source, size);
        ASSERT_EQ(stress_fiber_memcpy(to + target, from + source, size), to + target);
        ASSERT_EQ(std::memcmp(to, to_model.data(), kBytes), 0) << size << " bytes from " << source << " to " << target;
    }
}

TEST_P(SparseCopy, IsMemsets)
{
    for (int round = 0; round < 60; ++round) {
        scatter(to, to_model);
        const std::size_t size = 1 + rng.below(kBytes / 3), target = 1 + rng.below(kBytes / 2);
        mark_edges(to, to_model, target, target + size);
        const int value = rng.one_in(8) ? 7 : 0;
        std::memset(to_model.data() + target, value, size);
        ASSERT_EQ(stress_fiber_memset(to + target, value, size), to + target);
        ASSERT_EQ(std::memcmp(to, to_model.data(), kBytes), 0) << value << ", " << size << " bytes to " << target;
    }
}

TEST_P(SparseCopy, GivesNoMemoryToWhatIsZero)
{
    from[5 * kPageBytes] = 1;
    to[9 * kPageBytes] = 1;
    stress_fiber_memcpy(to, from, kBytes);
    EXPECT_EQ(resident(to), (std::vector<std::size_t>{5, 9}));
    stress_fiber_memset(from, 0, kBytes);
    EXPECT_EQ(resident(from), (std::vector<std::size_t>{5}));
}

INSTANTIATE_TEST_SUITE_P(Arena, Resident, testing::Bool());
INSTANTIATE_TEST_SUITE_P(Arena, SparseCopy, testing::Bool());

}  // namespace
}  // namespace stress

// fresh_limit_test.cc: address space that is limited (RLIMIT_AS) when the heap starts, or soon after, and a purge delay of 0
// from the start: each time in a child of a process that has not used the heap.
#include "heap/heap_test_support.h"

#include <sys/syscall.h>

extern "C" {
#include "os/os.h"
#include "superslab/pagemap.h"
#include "superslab/purge.h"
#include "superslab/tight.h"
}

namespace {

size_t address_space_peak_bytes()
{
    size_t kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    for (char line[256]; status != nullptr && fgets(line, sizeof line, status) != nullptr;)
        sscanf(line, "VmPeak: %zu kB", &kib);
    if (status != nullptr) fclose(status);
    EXPECT_GT(kib, 0u);
    return kib << 10;
}

} // namespace

TEST(FreshLimit, TheFirstSuperslabsTakeRunsUnderAnyLimit)
{
    SKIP_UNDER_SANITIZER("it needs terabytes of address space itself");
    EXPECT_TRUE(test::in_child([] {
        std::vector<void *> runs = {hak_malloc(PAGE_BYTES)};
        test::limit_address_space(test::address_space_bytes() + (64 << 20));
        for (size_t superslabs = 1; superslabs <= TIGHT_SUPERSLABS_MIN; superslabs++) {
            while (pool_figures().claimed_pages < superslabs * SUPERSLAB_PAGES) runs.push_back(hak_malloc(PAGE_BYTES));
            ASSERT_EQ(pool_figures().superslab_count, superslabs);
            runs.push_back(hak_malloc(100000));
            EXPECT_EQ(pagemap_tag(runs.back()), (uint32_t)(superslabs < TIGHT_SUPERSLABS_MIN ? CLASS_RUN : CLASS_HUGE));
        }
        for (void *run : runs) hak_free(run);
        test::expect_at_rest();
    }));
}

// The page map, with what is readable of it, takes at most 2 MiB, and under the validating library a 64th of the limit more.
TEST(FreshLimit, ThePageMapTakesLittleOfAnyLimit)
{
    SKIP_UNDER_SANITIZER("the map is reserved whole");
    for (size_t limit = 32 * test::MIB; limit <= 4096 * test::MIB; limit *= 2)
        EXPECT_TRUE(test::in_child([limit] {
            const size_t before = test::address_space_bytes();
            test::limit_address_space(before + limit);
            ASSERT_EQ(pagemap_start(), 0);
            const size_t taken = test::address_space_bytes() - before;
            printf("limit %zu MiB: %zu KiB\n", limit >> 20, taken >> 10);
            EXPECT_LE(taken, 2 * test::MIB + (VALIDATE ? (before + limit) / 64 : 0));
        }));
}

// Its places are few: a block gets a mapping of its own where TIGHT_WINDOW_MAPPINGS_MAX of them would take all of the
// limit.
TEST(FreshLimit, OnlyLongBlocksGetMappingsInTheWindow)
{
    SKIP_UNDER_SANITIZER("it needs terabytes of address space itself");
    EXPECT_TRUE(test::in_child([] {
        pagemap_test_window_bits = 36;
        test::limit_address_space((size_t)TIGHT_WINDOW_MAPPINGS_MAX * 300000);
        std::vector<void *> runs(1000);
        for (void *&run : runs) run = hak_malloc(PAGE_BYTES);
        ASSERT_TRUE(pagemap_is_window());
        while (pool_figures().claimed_pages < pool_figures().superslab_count * SUPERSLAB_PAGES)
            runs.push_back(hak_malloc(PAGE_BYTES));
        runs.push_back(hak_malloc(300000));
        EXPECT_EQ(pagemap_tag(runs.back()), (uint32_t)CLASS_HUGE);
        runs.push_back(hak_malloc(299999));
        EXPECT_EQ(pagemap_tag(runs.back()), (uint32_t)CLASS_RUN);
        for (void *run : runs) hak_free(run);
        test::expect_at_rest();
    }));
}

// A filter may refuse mprotect with an error; the page map must grow all the same, the window's too.
TEST(FreshLimit, TheMapGrowsWithoutMprotect)
{
    SKIP_UNDER_SANITIZER("its runtime needs the call that is refused");
    if (!test::in_child([] { EXPECT_TRUE(test::refuse_call(SYS_mincore, EPERM)); }))
        GTEST_SKIP() << "the kernel lets no process refuse calls to itself (seccomp)";
    for (uint32_t window_bits : {0u, 36u})
        EXPECT_TRUE(test::in_child([=] {
            pagemap_test_window_bits = window_bits;
            hak_free(hak_malloc(1));
            ASSERT_EQ(pagemap_is_window(), window_bits != 0);
            ASSERT_TRUE(test::refuse_call(SYS_mprotect, EPERM));
            for (int i = 0; i < 1000; i++) ASSERT_NE(hak_malloc(4 << 20), nullptr) << i; // its tags fill four slices
        }));
}

// A filter may refuse mmap with an address. What the kernel places near to its first mapping is entered without: the start has
// reserved its tags and descriptors, wherever the slices end.
TEST(FreshLimit, TheMapGrowsNearTheFirstMappingWithoutAddresses)
{
    SKIP_UNDER_SANITIZER("the map is reserved whole");
    for (uintptr_t phase = 0; phase < 16; phase++)
        EXPECT_TRUE(test::in_child([phase] {
            static uintptr_t place;
            static const os_ops *system_ops;
            static int with_address;
            const uintptr_t gib = (uintptr_t)1 << 30, first = ((uintptr_t)126 << 40) + phase * gib;
            system_ops = os;
            os_ops ops = *os;
            ops.reserve = [](void *wanted, size_t bytes, size_t align_bytes) {
                if (wanted == nullptr) return reinterpret_cast<void *>(place);
                with_address++;
                return system_ops->reserve(wanted, bytes, align_bytes);
            };
            ops.release = [](void *start, size_t bytes) {
                return start == reinterpret_cast<void *>(place) ? 0 : system_ops->release(start, bytes);
            };
            os = &ops;
            place = first;
            ASSERT_EQ(pagemap_start(), 0);
            EXPECT_GT(with_address, 0);
            with_address = 0;
            for (place = first + gib; place >= first - 6 * gib; place -= gib) {
                auto *start = static_cast<char *>(pagemap_reserve(SUPERSLAB_BYTES, SUPERSLAB_BYTES));
                ASSERT_EQ((uintptr_t)start, place);
                pagemap_descriptor_set(start, &place);
                pagemap_tag_set(start, SUPERSLAB_PAGES, CLASS_RUN);
                EXPECT_EQ(pagemap_descriptor(start), (void *)&place);
                EXPECT_EQ(with_address, 0) << (first - place) / gib;
            }
            os = system_ops;
        }));
}

TEST(FreshLimit, FreedHugeMemoryServesSmallBlocksUnderALimit)
{
    SKIP_UNDER_SANITIZER("it needs terabytes of address space itself");
    EXPECT_TRUE(test::in_child([] {
        test::limit_address_space((size_t)1 << 30);
        std::vector<void *> huge, small;
        huge.reserve(1000);
        small.reserve(4 << 20);
        while (void *block = hak_malloc(24 << 20)) huge.push_back(block);
        ASSERT_GT(huge.size(), 10u);
        while (void *block = hak_malloc(1000)) small.push_back(block);
        hak_free(huge.back()); // 24 MiB go to the cache of mappings
        huge.pop_back();
        size_t before = small.size();
        while (void *block = hak_malloc(1000)) small.push_back(block);
        EXPECT_GE((small.size() - before) * 1000, (size_t)16 << 20)
            << "24 MiB were freed, and small blocks are refused";
        for (void *block : small) hak_free(block);
        // The reverse: memory of small blocks serves a huge one.
        void *block = hak_malloc(20 << 20);
        EXPECT_NE(block, nullptr) << "24 MiB of small blocks were freed";
        hak_free(block);
        for (void *each : huge) hak_free(each);
    }));
}

// A mapping made to find the limit would take address space that other threads map meanwhile. The peak shows one.
TEST(FreshLimit, NothingIsTriedUnderALimitThatWasThereAtTheStart)
{
    SKIP_UNDER_SANITIZER("it needs terabytes of address space itself");
    for (size_t limit : {(size_t)1 << 30, (size_t)8 << 30, (size_t)1 << 40})
        EXPECT_TRUE(test::in_child([limit] {
            const size_t before = address_space_peak_bytes();
            test::limit_address_space(limit);
            std::vector<void *> runs;
            runs.reserve(1 << 12);
            for (size_t i = 0; i < 2000; i++) runs.push_back(hak_malloc(i % 8 == 0 ? 100000 : PAGE_BYTES));
            ASSERT_GT(pool_figures().superslab_count, (size_t)TIGHT_SUPERSLABS_MIN);
            const size_t now = test::address_space_bytes(), peak = address_space_peak_bytes();
            EXPECT_LE(peak, std::max(before, now) + 4 * SUPERSLAB_BYTES) << limit;
            for (void *run : runs) hak_free(run);
            test::expect_at_rest();
        }));
}

// Without a delay nothing is dirty, so no later round would release what is empty: a free does.
TEST(FreshDelay, OfZeroReleasesEmptySuperslabs)
{
    EXPECT_TRUE(test::in_child([] {
        pool_set_purge_delay_ms(0);
        std::vector<void *> runs(200);
        for (void *&run : runs) run = hak_malloc(RUN_BYTES_MAX);
        ASSERT_GE(pool_figures().superslab_count, 100u);
        for (void *run : runs) hak_free(run);
        const uint64_t begin_ms = os_now_ms();
        while (pool_figures().superslab_count > EMPTY_SUPERSLABS_MIN + 1) {
            ASSERT_LT(os_now_ms() - begin_ms, 20'000u) << pool_figures().superslab_count << " superslabs stayed";
            usleep(PURGE_DELAY_MS * 1000 / 4);
            hak_free(hak_malloc(RUN_BYTES_MAX));
        }
    }));
}

// guard_test.cc: sampled blocks: where they lie, what faults, when an address is reused.
// guard_rate_test.cc tests how often malloc returns one, guard_report_test.cc misuse.
#include "guard/guard_test_support.h"

#include <sys/mman.h>

extern "C" {
#include "os/lock.h"
#include "os/os.h"
#include "os/os_fault.h"
#include "os/peek.h"
}

namespace {

using test::as_bytes;
using test::is_sampled;

constexpr size_t kRounded = 16;

size_t rounded(size_t size)
{
    return (size + kRounded - 1) / kRounded * kRounded;
}

bool is_readable(const void *address)
{
    char byte;
    return os_peek(address, &byte, 1);
}

// The first block that is sampled; frees the blocks before it.
void *sampled_malloc(size_t size)
{
    std::vector<void *> others;
    void *block = nullptr;
    for (int i = 0; i < 1000000 && block == nullptr; i++) {
        void *next = hak_malloc(size);
        if (is_sampled(next)) block = next;
        else others.push_back(next);
    }
    for (void *other : others) hak_free(other);
    EXPECT_NE(block, nullptr) << "no block of " << size << " bytes was sampled";
    return block;
}

class Guard : public test::GuardTest {};

} // namespace

TEST_F(Guard, EverySizeEndsAtTheEndOfItsPage)
{
    with(3, 0, [] {
        for (size_t size = 1; size <= GUARD_BYTES_MAX; size++) {
            char *block = as_bytes(guard_alloc(size));
            ASSERT_NE(block, nullptr);
            char *end = block + rounded(size);
            ASSERT_TRUE(test::is_aligned(block, 16) && test::is_aligned(end, os_page_bytes())) << size;
            ASSERT_EQ(hak_malloc_usable_size(block), rounded(size));
            test::pattern_fill(block, rounded(size), size);
            ASSERT_TRUE(is_readable(end - 1) && !is_readable(end) && !is_readable(end - os_page_bytes() - 1)) << size;
            ASSERT_TRUE(test::pattern_holds(block, rounded(size), size));
            hak_free(block);
            ASSERT_FALSE(is_readable(block) || is_readable(end - 1)) << size;
            ASSERT_EQ(hak_malloc_usable_size(block), 0u);
        }
    });
}

TEST_F(Guard, NoneWhenEverySlotIsLive)
{
    with(4, 1, [] {
        std::vector<void *> guarded, all;
        while (void *block = guard_alloc(100)) guarded.push_back(block);
        EXPECT_EQ(guarded.size(), 4u);
        for (int i = 0; i < 5000; i++) {
            all.push_back(hak_malloc(100));
            ASSERT_NE(all.back(), nullptr);
            ASSERT_FALSE(is_sampled(all.back()));
        }
        hak_free(guarded[2]);
        EXPECT_EQ(guard_figures().live, 3u);
        void *block = sampled_malloc(100);
        EXPECT_EQ(block, guarded[2]);
        EXPECT_EQ(guard_figures().live, 4u);
        EXPECT_EQ(guard_figures().sampled, 5u);
        for (void *one : all) hak_free(one);
    });
}

TEST_F(Guard, OnePageOfAddressSpaceIsEnough)
{
    with(1, 0, [] {
        void *block = guard_alloc(1);
        EXPECT_EQ(guard_alloc(1), nullptr);
        hak_free(block);
        EXPECT_EQ(guard_alloc(1), block);
    });
    with(GUARD_SLOTS_MAX, 0, [] {
        std::vector<void *> blocks;
        while (void *block = guard_alloc(16)) blocks.push_back(block);
        const size_t pages = ((size_t)1 << 30) / os_page_bytes(); // of the range, at most: two a slot, and one
        EXPECT_EQ(blocks.size(), pages > 2 * GUARD_SLOTS_MAX ? (size_t)GUARD_SLOTS_MAX : pages / 4)
            << "or the system refuses that many mappings";
        for (void *block : blocks) hak_free(block);
    });
}

namespace {

size_t mappings()
{
    size_t lines = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    for (int c; maps != nullptr && (c = fgetc(maps)) != EOF;) lines += c == '\n';
    if (maps != nullptr) fclose(maps);
    return lines;
}

} // namespace

TEST_F(Guard, FreedSlotsAreOneMapping)
{
    with(500, 0, [] {
        std::vector<void *> blocks(500, nullptr);
        size_t before = mappings();
        for (int round = 0; round < 2; round++) {
            for (void *&block : blocks) {
                block = guard_alloc(100);
                memset(block, 'x', 100);
            }
            EXPECT_GE(mappings(), before + 900);
            for (void *block : blocks) hak_free(block);
            EXPECT_LE(mappings(), before + 20);
        }
    });
}

TEST_F(Guard, ReallocStaysOnlyWhereItEndsAtTheSamePlace)
{
    with(16, 0, [] {
        for (size_t size : {16u, 17u, 100u, 1000u, 4096u})
            for (size_t next : {1u, 16u, 17u, 33u, 99u, 112u, 113u, 500u, 4096u, 4097u, 40000u, 3000000u}) {
                void *block = guard_alloc(size);
                test::pattern_fill(block, size, size);
                void *moved = hak_realloc(block, next);
                ASSERT_NE(moved, nullptr);
                EXPECT_EQ(moved == block, rounded(size) == rounded(next)) << size << " " << next;
                EXPECT_EQ(is_readable(block), moved == block);
                EXPECT_GE(hak_malloc_usable_size(moved), next);
                EXPECT_TRUE(moved == block || test::pattern_holds(moved, 1, size));
                size_t kept = size < next ? size : next;
                std::vector<unsigned char> bytes(size);
                test::pattern_fill(bytes.data(), size, size);
                EXPECT_EQ(memcmp(moved, bytes.data(), kept), 0) << size << " " << next;
                hak_free(moved);
            }
        void *block = guard_alloc(100);
        EXPECT_EQ(hak_realloc(block, 0), nullptr);
        EXPECT_FALSE(is_readable(block));
        block = guard_alloc(100);
        errno = 0;
        EXPECT_EQ(hak_realloc(block, SIZE_MAX), nullptr);
        EXPECT_EQ(errno, ENOMEM);
        EXPECT_TRUE(is_readable(block));
    });
}

TEST_F(Guard, CallocIsZeroAndSizedFreesTakeIt)
{
    with(4, 1, [] {
        int seen = 0;
        for (int i = 0; i < 20000; i++) {
            const size_t bytes = i % 4 < 2 ? 210 : 1100; // whose class has 1152
            void *block = hak_calloc(1, bytes);
            ASSERT_TRUE(test::is_zero(block, bytes));
            memset(block, 'x', bytes);
            seen += is_sampled(block);
            if (i % 2 == 0) hak_free_sized(block, bytes);
            else hak_free_aligned_sized(block, 16, bytes);
        }
        EXPECT_GT(seen, 100);
    });
}

TEST_F(Guard, WhatIsNeverSampled)
{
    with(64, 1, [] {
        std::vector<void *> blocks;
        for (int i = 0; i < 3000; i++) {
            for (size_t align : {32u, 64u, 128u, 1024u, 4096u}) {
                blocks.push_back(hak_aligned_alloc(align, 100));
                ASSERT_TRUE(test::is_aligned(blocks.back(), align));
                ASSERT_FALSE(is_sampled(blocks.back()));
            }
            for (size_t size : {(size_t)0, (size_t)GUARD_BYTES_MAX + 1, (size_t)SMALL_BYTES_MAX}) {
                blocks.push_back(hak_malloc(size));
                ASSERT_FALSE(is_sampled(blocks.back())) << size;
            }
            hak_free(hak_malloc(50));
        }
        for (void *block : blocks) hak_free(block);
        hak_free(sampled_malloc(50));
    });
}

TEST_F(Guard, ForkedChildHasItsOwn)
{
    with(4, 1, [] {
        void *block = guard_alloc(100), *before = guard_alloc(100);
        memset(block, 'p', 100);
        hak_free(before);
        std::atomic<int> step{0};
        std::thread holder([&] { // the child does not have this thread, which holds the lock
            lock_acquire(LOCK_GUARD);
            step = 1;
            while (step == 1) usleep(1000);
            lock_release(LOCK_GUARD);
        });
        while (step == 0) usleep(1000);
        EXPECT_TRUE(test::in_child([&] {
            EXPECT_EQ(as_bytes(block)[99], 'p');
            memset(block, 'c', 100);
            hak_free(block);
            EXPECT_FALSE(is_readable(block));
            std::vector<void *> blocks;
            while (void *next = guard_alloc(10)) blocks.push_back(next);
            EXPECT_EQ(blocks.size(), 4u) << "no slot was lost";
            for (void *next : blocks) hak_free(next);
            hak_free(sampled_malloc(200));
        }));
        step = 2;
        holder.join();
        EXPECT_TRUE(is_readable(block));
        EXPECT_EQ(as_bytes(block)[99], 'p');
        hak_free(block);
    });
}

TEST_F(Guard, ThreadsEndAndOthersFree)
{
    with(64, 1, [] {
        std::vector<void *> blocks(8);
        test::in_threads(8, [&](int i) {
            blocks[static_cast<size_t>(i)] = sampled_malloc(100);
            memset(blocks[static_cast<size_t>(i)], 'a' + i, 100);
        });
        for (size_t i = 0; i < 8; i++) EXPECT_EQ(as_bytes(blocks[i])[99], 'a' + static_cast<int>(i));
        for (size_t i = 0; i < 4; i++) hak_free(blocks[i]);
        test::in_threads(4, [&](int i) { hak_free(blocks[4 + static_cast<size_t>(i)]); }); // their first call
        for (void *block : blocks) EXPECT_FALSE(is_readable(block));
        sampling_guard_set(0);
        test::expect_at_rest();
    });
}

TEST_F(Guard, PurgeLeavesLiveOnes)
{
    with(8, 0, [] {
        void *live = guard_alloc(100), *freed = guard_alloc(100);
        memset(live, 'l', 100);
        hak_free(freed);
        hak_purge();
        EXPECT_EQ(as_bytes(live)[99], 'l');
        EXPECT_FALSE(is_readable(freed));
        hak_free(live);
        test::expect_at_rest();
    });
}

TEST_F(Guard, ManyThreadsOneQueue)
{
    with(32, 1, [] {
        std::atomic<uint64_t> sampled{0};
        test::in_threads(8, [&](int thread) {
            test::Rng rng(static_cast<uint64_t>(thread) + 1);
            std::vector<std::pair<void *, size_t>> blocks;
            for (int i = 0; i < test::rounds(20000); i++) {
                size_t size = rng.between(1, 5000);
                void *block = hak_malloc(size);
                sampled += is_sampled(block);
                test::pattern_fill(block, size, size, 61);
                blocks.emplace_back(block, size);
                if (blocks.size() < 200) continue;
                std::swap(blocks[rng.below(200)], blocks.back());
                ASSERT_TRUE(test::pattern_holds(blocks.back().first, blocks.back().second, blocks.back().second, 61));
                hak_free(blocks.back().first);
                blocks.pop_back();
            }
            for (auto [block, size] : blocks) hak_free(block);
        });
        EXPECT_GT(sampled, 100u);
        sampling_guard_set(0);
        std::vector<void *> all;
        while (void *block = guard_alloc(16)) all.push_back(block);
        EXPECT_EQ(all.size(), 32u) << "a slot was lost, or is there twice";
        std::sort(all.begin(), all.end());
        EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
        for (void *block : all) hak_free(block);
        test::expect_at_rest();
    });
}

TEST_F(Guard, SystemThatRefuses)
{
    with(2, 0, [] {
        os_fault_install(1, true);
        EXPECT_EQ(guard_alloc(100), nullptr);
        sampling_guard_set(1);
        hak_free(hak_malloc(100));
        os_fault_remove();
        sampling_guard_set(0);
        void *block = guard_alloc(100), *other = guard_alloc(100);
        EXPECT_TRUE(block != nullptr && other != nullptr) << "no slot was lost";
        os_fault_install(1, true);
        hak_free(block); // the page stays readable; all else works
        EXPECT_EQ(guard_alloc(100), nullptr);
        os_fault_remove();
        guard_history history;
        EXPECT_TRUE(guard_find(reinterpret_cast<uintptr_t>(block), &history));
        EXPECT_EQ(history.freed.thread, (uint32_t)gettid()) << "it is still the block that was freed here";
        EXPECT_EQ(guard_alloc(100), block);
    });
    EXPECT_TRUE(test::in_child([] {
        os_fault_install(1, true);
        bool started = guard_start(1 << 14); // so large that the records need a mapping of their own
        os_fault_remove();
        EXPECT_FALSE(started);
        EXPECT_TRUE(guard_start(2));
    }));
    constexpr uint64_t most = 12; // more calls than a start makes
    for (uint64_t nth = 1; nth <= most; nth++) // one of them fails: it starts or it does not
        EXPECT_TRUE(test::in_child([nth] {
            os_fault_install(nth, false);
            const bool started = guard_start(1 << 14);
            EXPECT_TRUE(os_fault_remove() >= nth || started);
            EXPECT_TRUE(nth < most || started);
            void *block = guard_alloc(100);
            EXPECT_EQ(block != nullptr, started);
            hak_free(block);
        })) << nth;
}

// However many are asked for, the range has as many slots as fit into a GiB, or more than half of that.
TEST_F(Guard, AsManySlotsAsFit)
{
    with(1u << 24, 0, [] {
        const char *first = as_bytes(guard_alloc(16));
        size_t pages = 0;
        for (const char *at = first; pagemap_tag_checked(at) == CLASS_GUARD; at += PAGE_BYTES) pages++;
        EXPECT_LE(pages, ((size_t)1 << 30) / PAGE_BYTES);
        EXPECT_GE(pages, ((size_t)1 << 29) / PAGE_BYTES);
    });
}

// Wherever there is room, the range lies in one GiB of addresses, whose tags alone are backed.
TEST_F(Guard, TheRangeLiesInOneGiB)
{
    constexpr size_t step_bytes = 128 * test::MIB;
    std::vector<void *> gaps;
    for (int i = 0; i < 8; i++) {
        with(1u << 24, 0, [] {
            const char *const first = as_bytes(guard_alloc(16)), *last = first;
            while (pagemap_tag_checked(last + PAGE_BYTES) == CLASS_GUARD) last += PAGE_BYTES;
            EXPECT_EQ((uintptr_t)first >> 30, (uintptr_t)last >> 30);
        });
        gaps.push_back(mmap(nullptr, step_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        ASSERT_NE(gaps.back(), MAP_FAILED);
    }
    for (void *gap : gaps) munmap(gap, step_bytes);
}

// own_limit_test.cc: heaps of the program's own at their limit, and where the system has no memory.
#include "heap/own_test_support.h"

#include <deque>
#include <unistd.h>

extern "C" {
#include "heap/huge_cache.h"
#include "os/os.h"
#include "os/os_fault.h"
#include "superslab/limit.h"
}

namespace {

using test::own_draw_size;
using test::own_figures_of;
using test::OwnHeld;

class OwnLimit : public test::OwnTest {};

TEST_F(OwnLimit, TheLimitHolds)
{
    bool asked = false;
    hak_limit_callback([](size_t, void *context) { return *(bool *)context = true, false; }, &asked);
    for (size_t limit : {size_t{100000}, 3 * test::MIB, 20 * test::MIB}) {
        hak_heap *heap = hak_heap_new();
        hak_heap_limit_set(heap, limit);
        EXPECT_EQ(hak_heap_limit_get(heap), limit);
        test::Rng rng(limit);
        for (int round = 0; round < 10; round++) {
            std::vector<OwnHeld> held;
            for (int failures = 0; failures < 20;) {
                OwnHeld each{nullptr, own_draw_size(rng), rng.next()};
                errno = 0;
                each.block = hak_heap_malloc(heap, each.size);
                ASSERT_LE(own_figures_of(heap).resident_bytes, limit);
                if (each.block == nullptr) {
                    EXPECT_EQ(errno, ENOMEM);
                    failures++;
                    continue;
                }
                each.fill();
                held.push_back(each);
            }
            uint64_t used_bytes = 0;
            for (const OwnHeld &each : held) used_bytes += hak_malloc_usable_size(each.block);
            EXPECT_EQ(own_figures_of(heap).used_bytes, used_bytes);
            EXPECT_GT(used_bytes, limit / 8) << "of " << limit;
            rng.shuffle(held);
            for (const OwnHeld &each : held) {
                ASSERT_TRUE(each.holds());
                hak_free(each.block);
            }
        }
        expect_empty(heap);
        hak_heap_destroy(heap);
    }
    EXPECT_FALSE(asked);
    hak_limit_callback(nullptr, nullptr);
}

// If other classes' blocks make room at the limit, a slab that is not carved to its end gives more.
TEST_F(OwnLimit, ASlabIsUsedToItsEndAtTheLimit)
{
    hak_heap *heap = hak_heap_new();
    hak_heap_limit_set(heap, 100000);
    const uint32_t c = sizeclass_of(1008);
    std::vector<void *> blocks, others;
    blocks.push_back(hak_heap_malloc(heap, 1008));
    while (void *other = hak_heap_malloc(heap, 2048)) others.push_back(other);
    for (void *other : others) hak_free(other);
    for (int i = 0; i < 40; i++) {
        blocks.push_back(hak_heap_malloc(heap, 1008));
        ASSERT_NE(blocks.back(), nullptr);
    }
    const slab *first = heap->owner.slabs[c];
    EXPECT_EQ(first->next, first) << "it has one slab";
    for (void *block : blocks) hak_free(block);
    expect_empty(heap);
    hak_heap_destroy(heap);
}

// What lies free is less than the block needs, and so is the room below the limit; both together are enough.
TEST_F(OwnLimit, WhatLiesFreeAndTheRoomThatIsThereMakeABlock)
{
    hak_heap *heap = hak_heap_new();
    std::vector<void *> blocks;
    for (size_t i = 0; i < 2 * PAGE_BYTES / 2048; i++) blocks.push_back(hak_heap_malloc(heap, 2048));
    for (void *block : blocks) hak_free(block);
    const size_t free_bytes = own_figures_of(heap).resident_bytes / PAGE_BYTES * PAGE_BYTES;
    ASSERT_GE(free_bytes, (size_t)PAGE_BYTES);
    hak_heap_limit_set(heap, own_figures_of(heap).resident_bytes + 12 * PAGE_BYTES);
    const size_t frame_bytes = 64; // at most, where blocks have frames
    void *most = hak_heap_malloc(heap, 10 * PAGE_BYTES - frame_bytes);
    void *rest = hak_heap_malloc(heap, 2 * PAGE_BYTES + free_bytes - frame_bytes);
    EXPECT_NE(most, nullptr);
    EXPECT_NE(rest, nullptr);
    hak_free(most);
    hak_free(rest);
    expect_empty(heap);
    hak_heap_destroy(heap);
}

// A cache that evicts its oldest block when malloc fails: few calls to the system are made for it, and it holds most of what it may.
TEST_F(OwnLimit, WhatIsEvictedServesTheNextBlock)
{
    if (VALIDATE) GTEST_SKIP() << "a freed block is in the quarantine";
    for (auto [least, most] : {std::pair{16, 2000}, {1000, 8000}, {1000, 30000}}) {
        constexpr size_t LIMIT = 32 * test::MIB;
        constexpr int INSERTS = 6000;
        hak_heap *heap = hak_heap_new();
        hak_heap_limit_set(heap, LIMIT);
        test::Rng rng(test::seed());
        std::deque<void *> cache;
        uint64_t live_least = LIMIT;
        bool is_full = false;
        size_t size = rng.between(least, most);
        for (int inserts = 0; inserts < INSERTS;) {
            void *block = hak_heap_malloc(heap, size);
            if (block != nullptr) {
                cache.push_back(block);
                size = rng.between(least, most);
                if (is_full && ++inserts % 100 == 0) live_least = std::min(live_least, own_figures_of(heap).used_bytes);
                continue;
            }
            if (!is_full) os_fault_install(UINT64_MAX, false); // counts
            is_full = true;
            hak_free(cache.front());
            cache.pop_front();
        }
        const uint64_t calls = os_fault_remove();
        printf("%d to %d bytes: %zu calls in %d inserts, at least %zu KiB live\n", least, most, (size_t)calls, INSERTS,
               (size_t)live_least >> 10);
        EXPECT_LE(calls, INSERTS * 2u / 5);
        EXPECT_GE(live_least, LIMIT / 100 * 90);
        for (void *block : cache) hak_free(block);
        expect_empty(heap);
        hak_heap_destroy(heap);
    }
}

// Every call to the system fails once, or for ever from then on, until all of it runs without a failure.
TEST_F(OwnLimit, NothingIsLostWhenTheSystemRefuses)
{
    hak_heap *heap = hak_heap_new();
    int asked = 0;
    hak_limit_callback([](size_t, void *context) { return ++*(int *)context, false; }, &asked);
    for (bool for_ever : {false, true}) {
        for (uint64_t nth = 1, failures = 1; failures > 0; nth++) {
            std::vector<OwnHeld> held;
            asked = 0;
            os_fault_install(nth, for_ever);
            auto keep = [&](void *block, size_t size) {
                EXPECT_EQ(asked, block == nullptr) << "the callback is asked where nothing else helps";
                asked = 0;
                if (block == nullptr) return;
                held.push_back({block, size, held.size()});
                held.back().fill();
            };
            for (size_t size : {20u, 1000u, 9000u, 32768u})
                for (int i = 0; i < 10; i++) keep(hak_heap_malloc(heap, size), size);
            for (int i = 0; i < 8; i++) keep(hak_heap_malloc(heap, RUN_BYTES_MAX), RUN_BYTES_MAX);
            for (size_t mib : {3, 9}) keep(hak_heap_calloc(heap, 1, mib << 20), mib << 20);
            keep(hak_heap_aligned_alloc(heap, 8 << 20, 100), 100);
            for (size_t i = 0; i < held.size(); i += 3) {
                // A huge block whose move fails may leave its target behind, since kernels differ (os->move).
                if (held[i].size > RUN_BYTES_MAX) continue;
                size_t size = held[i].size * 2;
                void *block = hak_realloc(held[i].block, size);
                asked = 0;
                if (block == nullptr) continue;
                held[i] = {block, size, i};
                held[i].fill();
            }
            failures = os_fault_failures();
            os_fault_remove();
            uint64_t used_bytes = 0;
            for (const OwnHeld &each : held) {
                ASSERT_TRUE(each.holds()) << nth;
                used_bytes += hak_malloc_usable_size(each.block);
            }
            ASSERT_EQ(own_figures_of(heap).used_bytes, used_bytes) << nth;
            if (nth % 2 == 0) {
                hak_heap_free_all(heap);
            } else {
                for (const OwnHeld &each : held) hak_free(each.block);
            }
            if (VALIDATE) own_dead_free_all();
            expect_empty(heap);
            test::inspected();
            hak_purge();
        }
    }
    hak_limit_callback(nullptr, nullptr);
    hak_heap_destroy(heap);
}

// If the limit was lowered below what is in use, blocks that shrink give back what they had.
TEST_F(OwnLimit, LargeBlocksShrinkAboveTheLimit)
{
    hak_heap *heap = hak_heap_new();
    for (size_t size : {size_t{RUN_BYTES_MAX}, 20 * test::MIB}) {
        OwnHeld held{hak_heap_malloc(heap, size), size / 5, size};
        held.fill();
        hak_heap_limit_set(heap, PAGE_BYTES);
        EXPECT_EQ(hak_heap_realloc(heap, held.block, held.size), held.block);
        EXPECT_EQ(own_figures_of(heap).resident_bytes, (held.size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
        EXPECT_TRUE(held.holds());
        EXPECT_EQ(hak_heap_realloc(heap, held.block, held.size + PAGE_BYTES), nullptr) << "the limit holds";
        hak_heap_limit_set(heap, SIZE_MAX);
        hak_free(held.block);
    }
    hak_heap_destroy(heap);
}

// A block grows where it stands if the limit has room for the pages that it takes, to the byte. It never has more.
TEST_F(OwnLimit, ABlockGrowsByTheRoomThatIsLeft)
{
    for (const size_t pages : {(size_t)1, (size_t)5, 3 * test::MIB / PAGE_BYTES})
        for (const size_t room :
             {(size_t)0, (size_t)1, (size_t)PAGE_BYTES - 1, (size_t)PAGE_BYTES, (size_t)PAGE_BYTES + 1})
            for (const size_t more : {(size_t)1, (size_t)PAGE_BYTES - 1, (size_t)PAGE_BYTES, (size_t)PAGE_BYTES + 1}) {
                hak_heap *heap = hak_heap_new();
                void *above = hak_heap_malloc(heap, PAGE_BYTES), *block = hak_heap_malloc(heap, pages * PAGE_BYTES);
                ASSERT_NE(block, nullptr);
                hak_free(above); // a run grows into its place
                const size_t limit = own_figures_of(heap).resident_bytes + room;
                const size_t peak = own_figures_of(heap).resident_peak_bytes;
                hak_heap_limit_set(heap, limit);
                void *grown = hak_heap_realloc(heap, block, pages * PAGE_BYTES + more);
                const bool fits = (more + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES <= room;
                EXPECT_EQ(grown != nullptr, fits) << pages << " pages, room " << room << ", more " << more;
                EXPECT_LE(own_figures_of(heap).resident_bytes, limit);
                EXPECT_LE(own_figures_of(heap).resident_peak_bytes, std::max(limit, peak));
                hak_heap_destroy(heap);
                if (VALIDATE) own_dead_free_all();
            }
}

// A block of another heap that has no room in this one stays where it is, and the caller learns it, whatever the size.
TEST_F(OwnLimit, ABlockThatCannotMoveHereStaysInItsHeap)
{
    hak_heap *heap = hak_heap_new(), *other = hak_heap_new();
    hak_heap_limit_set(heap, 1);
    for (void *block : {hak_heap_malloc(other, 1000), hak_malloc(1000), hak_heap_malloc(other, 100000)})
        for (size_t size : {hak_malloc_usable_size(block), size_t{10}}) {
            hak_heap *before = own_of(block);
            errno = 0;
            EXPECT_EQ(hak_heap_realloc(heap, block, size), nullptr);
            EXPECT_EQ(errno, ENOMEM);
            EXPECT_EQ(own_of(block), before);
            if (size == 10) hak_free(block);
        }
    expect_empty(other);
    for (hak_heap *each : {heap, other}) hak_heap_destroy(each);
}

// A new mapping is made longer than its block, for later blocks, and with it the soft limit is exceeded: then nothing is to
// spare any more, and the block has the length that was asked for all the same. Only where the system does not take back the
// rest the heap has more, and says so.
TEST_F(OwnLimit, AHugeBlockHasNoMoreBeyondTheSoftLimit)
{
    EXPECT_TRUE(test::in_child([] {
        const size_t size = 4 * test::MIB + PAGE_BYTES, longer = 5 * test::MIB;
        hak_heap *heap = hak_heap_new();
        hak_heap_limit_set(heap, size);
        for (bool is_exceeded : {false, true})
            for (bool is_refused : {false, true}) {
                huge_purge_all();
                huge_keep_bytes = 32 * test::MIB;
                huge_keep_live_bytes = 0;
                const size_t committed_bytes = limit_committed_bytes();
                if (is_exceeded) hak_limit_soft_set(committed_bytes + size);
                const os_ops *before = os;
                os_ops refusing = *os;
                refusing.release = [](void *, size_t) { return ENOMEM; };
                if (is_refused) os = &refusing;
                void *block = hak_heap_malloc(heap, size);
                os = before;
                ASSERT_NE(block, nullptr);
                EXPECT_EQ(limit_committed_bytes() - committed_bytes, is_exceeded && !is_refused ? size : longer);
                const size_t usable = is_exceeded && is_refused ? longer : size;
                EXPECT_EQ(hak_malloc_usable_size(block), usable);
                hak_heap_figures figures = own_figures_of(heap);
                EXPECT_EQ(figures.resident_bytes, usable);
                EXPECT_EQ(figures.resident_peak_bytes, usable);
                test::inspected();
                hak_free(block);
            }
        hak_heap_destroy(heap);
    }));
}

// The limit stays as it is while another thread has the heap's lock: an allocation reads it more than once.
TEST_F(OwnLimit, TheLimitChangesUnderTheLock)
{
    hak_heap *heap = hak_heap_new();
    std::atomic<bool> is_begun{false};
    lock_word_acquire(&heap->lock, LOCK_OWN);
    std::thread setter([&] {
        is_begun = true;
        hak_heap_limit_set(heap, test::MIB);
    });
    while (!is_begun) usleep(1000);
    usleep(20000);
    EXPECT_EQ(heap->limit_bytes, SIZE_MAX);
    lock_word_release(&heap->lock, LOCK_OWN);
    setter.join();
    EXPECT_EQ(hak_heap_limit_get(heap), test::MIB);
    hak_heap_destroy(heap);
}

// A new heap that has the body of a destroyed one is as one that has a fresh body, byte by byte, whatever the other did. What may
// differ: the links, and what is counted over all lives.
TEST_F(OwnLimit, ANewHeapKnowsNothingOfTheOneBefore)
{
    constexpr size_t HEAPS = 40; // more than wait before a body is used again
    static hak_heap fresh, again;
    const auto image_of = [](const hak_heap *heap, hak_heap &image) {
        memcpy(static_cast<void *>(&image), static_cast<const void *>(heap), sizeof image);
        image.next = image.next_spare = nullptr;
        memset(static_cast<void *>(image.owner.events), 0, sizeof image.owner.events);
    };
    for (int life = 0; life < 4; life++) {
        std::vector<hak_heap *> heaps;
        while (heaps.size() < HEAPS || own_first() != heaps.back()) heaps.push_back(hak_heap_new());
        image_of(heaps.back(), fresh); // the newest of all: no heap had its body
        for (hak_heap *heap : heaps) {
            test::Rng rng(life);
            hak_heap_limit_set(heap, life % 2 != 0 ? 2 * test::MIB : SIZE_MAX);
            std::vector<void *> held;
            for (int i = 0; i < 300; i++) held.push_back(hak_heap_malloc(heap, own_draw_size(rng)));
            for (size_t i = 0; i < held.size(); i++)
                if (life < 2 || i % 8 != 0) hak_free(std::exchange(held[i], nullptr));
            while (life % 2 != 0 && hak_heap_malloc(heap, 5000) != nullptr) {}
            if (life == 2) hak_purge_all();
        }
        for (hak_heap *heap : heaps) hak_heap_destroy(heap);
        for (size_t i = 0; i < HEAPS; i++) {
            heaps[i] = hak_heap_new();
            image_of(heaps[i], again);
            const auto *one = reinterpret_cast<const unsigned char *>(&fresh);
            const auto *other = reinterpret_cast<const unsigned char *>(&again);
            size_t at = 0;
            while (at < sizeof fresh && one[at] == other[at]) at++;
            ASSERT_EQ(at, sizeof fresh) << "the byte at this offset is of the heap before; life " << life;
        }
        for (size_t i = 0; i < HEAPS; i++) hak_heap_destroy(heaps[i]);
    }
}

} // namespace

// own_test.cc: heaps of the program's own: every kind of block, threads, and the price of destroy.
#include "heap/own_test_support.h"

#include <sys/mman.h>
#include <time.h>

#include <mutex>

extern "C" {
#include "os/os.h"
}

namespace {

using test::own_draw_size;
using test::own_figures_of;
using test::OwnHeld;

class Own : public test::OwnTest {};

TEST_F(Own, EveryKindOfBlock)
{
    hak_heap *heap = hak_heap_new();
    ASSERT_NE(heap, nullptr);
    std::vector<OwnHeld> held;
    uint64_t used_bytes = 0;
    for (size_t size : test::all_kinds_of_sizes()) {
        for (size_t align : {0u, 64u, 4096u, 1u << 16, 4u << 20}) {
            if (align > PAGE_BYTES && size > 1000) continue;
            errno = 7;
            void *block = align == 0 ? hak_heap_malloc(heap, size) : hak_heap_aligned_alloc(heap, align, size);
            EXPECT_EQ(errno, 7);
            ASSERT_NE(block, nullptr);
            EXPECT_TRUE(test::is_aligned(block, std::max<size_t>(align, 16)));
            EXPECT_GE(hak_malloc_usable_size(block), size);
            used_bytes += hak_malloc_usable_size(block);
            held.push_back({block, size, held.size()});
            held.back().fill();
            if (align != 0) continue;
            void *zero = hak_heap_calloc(heap, 1, size);
            EXPECT_TRUE(test::is_zero(zero, size));
            used_bytes += hak_malloc_usable_size(zero);
            memset(zero, 1, std::min<size_t>(size, 4096));
            held.push_back({zero, size, held.size()});
            held.back().fill();
        }
    }
    void *aligned = hak_heap_aligned_alloc(heap, SMALL_BYTES_MAX, 100);
    EXPECT_EQ(hak_malloc_usable_size(aligned), (size_t)SMALL_BYTES_MAX) << "the largest class is aligned so";
    hak_free(aligned);
    aligned = hak_heap_aligned_alloc(heap, RUN_BYTES_MAX, PAGE_BYTES);
    EXPECT_EQ(pagemap_tag_checked(aligned), (uint32_t)CLASS_OWN) << "the largest run is aligned so";
    hak_free(aligned);
    EXPECT_EQ(own_figures_of(heap).used_bytes, used_bytes);
    EXPECT_GE(own_figures_of(heap).resident_bytes, used_bytes);
    EXPECT_GE(own_figures_of(heap).committed_bytes, own_figures_of(heap).resident_bytes);
    hak_figures all;
    hak_figures_get(&all, sizeof all);
    EXPECT_EQ(all.own_heaps, 1u);
    EXPECT_GE(all.used_bytes, used_bytes);
    test::inspected();
    for (OwnHeld &each : held) {
        ASSERT_TRUE(each.holds()) << each.size;
        hak_free(each.block);
    }
    hak_figures_get(&all, sizeof all);
    void *blocks[64];
    for (void *&block : blocks) block = hak_heap_malloc(heap, 1008);
    for (void *block : blocks) hak_free(block);
    hak_figures after;
    hak_figures_get(&after, sizeof after);
    EXPECT_GE(after.idle_bytes, all.idle_bytes + 32 * 1008) << "what lies free in slabs; less, what is in bins";
    expect_empty(heap);
    hak_heap_destroy(heap);
    hak_heap_destroy(nullptr);
}

TEST_F(Own, ReallocKeepsTheHeap)
{
    hak_heap *heap = hak_heap_new(), *other = hak_heap_new();
    void *block = hak_heap_realloc(heap, nullptr, 10);
    for (size_t size : {10u, 500u, 100u, 40000u, 90000u, 50000u, 3u << 20, 9u << 20, 4u << 20, 60000u, 30u}) {
        OwnHeld before{block, std::min<size_t>(size, hak_malloc_usable_size(block)), size};
        before.fill();
        block = size % 3 == 0 ? hak_realloc(block, size) : hak_heap_realloc(heap, block, size);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(own_of(block), heap) << size;
        before.block = block;
        EXPECT_TRUE(before.holds()) << size;
        hak_heap_figures figures = own_figures_of(heap);
        EXPECT_EQ(figures.used_bytes, hak_malloc_usable_size(block)) << size;
    }
    block = hak_heap_realloc(other, block, 30); // the same size, and yet it moves
    EXPECT_EQ(own_of(block), other);
    EXPECT_EQ(own_figures_of(heap).used_bytes, 0u);
    void *common = hak_malloc(100);
    EXPECT_EQ(own_of(common), nullptr);
    common = hak_heap_realloc(heap, common, 100);
    EXPECT_EQ(own_of(common), heap);
    EXPECT_EQ(hak_heap_realloc(heap, common, 0), nullptr);
    EXPECT_EQ(own_figures_of(heap).used_bytes, 0u);
    errno = 0;
    EXPECT_EQ(hak_heap_realloc(heap, block, SIZE_MAX), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(hak_heap_calloc(heap, SIZE_MAX / 2, 3), nullptr);
    EXPECT_EQ(hak_heap_malloc(heap, SIZE_MAX), nullptr);
    errno = 0;
    EXPECT_EQ(hak_heap_aligned_alloc(heap, 48, 10), nullptr);
    EXPECT_EQ(errno, EINVAL);
    hak_heap_destroy(heap);
    hak_heap_destroy(other);
}

TEST_F(Own, PagesOfADestroyedHeapGiveTheirMemoryBack)
{
    SKIP_WITHOUT_VALIDATE();
    SKIP_UNDER_SANITIZER("it reports the reads of this test");
    hak_heap *heap = hak_heap_new();
    constexpr size_t size = 3 * PAGE_BYTES;
    unsigned char *block = static_cast<unsigned char *>(hak_heap_malloc(heap, size));
    memset(block, 0xaa, size);
    hak_heap_destroy(heap);
    ASSERT_EQ(pagemap_tag(block), (uint32_t)CLASS_OWN_DEAD);
    EXPECT_TRUE(test::is_zero(block, size));
    EXPECT_GE(own_dead_bytes(), size);
    hak_stats stats;
    hak_stats_get(&stats);
    EXPECT_EQ(stats.run_bytes, 0u) << "pages that are remembered are not in use";
}

TEST_F(Own, AllGoesBackAtOnce)
{
    hak_heap *heap = hak_heap_new();
    size_t claimed_pages = pool_figures().claimed_pages; // of slabs that this test's process keeps
    for (int round = 0; round < 3; round++) {
        test::Rng rng(round);
        for (int i = 0; i < test::rounds(20000); i++) {
            OwnHeld each{nullptr, own_draw_size(rng), rng.next()};
            each.block = hak_heap_malloc(heap, each.size);
            each.fill();
            if (rng.below(3) == 0) hak_free(each.block);
        }
        test::inspected();
        hak_heap_free_all(heap);
        EXPECT_EQ(own_figures_of(heap).used_bytes, 0u);
        EXPECT_EQ(own_figures_of(heap).committed_bytes, 0u);
        EXPECT_GT(own_figures_of(heap).resident_peak_bytes, 0u);
        if (VALIDATE) own_dead_free_all();
        test::expect_at_rest();
        EXPECT_LE(pool_figures().claimed_pages, claimed_pages);
    }
    // The peak of what is gone does not make a free that finds its bin full look like one in a heap that has shrunk.
    std::vector<void *> few;
    for (int i = 0; i < 200; i++) few.push_back(hak_heap_malloc(heap, 100));
    size_t before = 0;
    do {
        before = own_binned_bytes(heap);
        hak_free(few.back());
        few.pop_back();
    } while (own_binned_bytes(heap) > before && !few.empty());
    EXPECT_LT(own_binned_bytes(heap), before) << "a bin is never full";
    EXPECT_GT(own_binned_bytes(heap), 0u) << "the bins were emptied";
    hak_heap_destroy(heap);
    if (VALIDATE) return; // a body is not taken again at once
    hak_heap *next = hak_heap_new();
    EXPECT_EQ(hak_heap_limit_get(next), SIZE_MAX);
    EXPECT_EQ(own_figures_of(next).resident_peak_bytes, 0u);
    hak_heap_destroy(next);
}

// Threads allocate from a few heaps, and free and resize each other's blocks.
TEST_F(Own, ManyThreads)
{
    constexpr int kThreads = 6, kHeaps = 2;
    hak_heap *heaps[kHeaps];
    for (hak_heap *&heap : heaps) heap = hak_heap_new();
    for (int round = 0; round < 4; round++) {
        std::mutex lock;
        std::vector<OwnHeld> shared;
        test::in_threads(kThreads, [&](int thread) {
            test::Rng rng(round * kThreads + thread);
            for (int i = 0; i < test::rounds(6000); i++) {
                OwnHeld each{nullptr, std::min<size_t>(own_draw_size(rng), 200000), rng.next()};
                each.block = hak_heap_malloc(heaps[rng.below(kHeaps)], each.size);
                each.fill();
                OwnHeld other{};
                {
                    std::lock_guard guard(lock);
                    shared.push_back(each);
                    if (shared.size() < 50) continue;
                    std::swap(shared[rng.below(shared.size())], shared.back());
                    other = shared.back();
                    shared.pop_back();
                }
                EXPECT_TRUE(other.holds());
                if (rng.below(4) == 0) other.block = hak_realloc(other.block, other.size / 2 + 1);
                hak_free(other.block);
                if (rng.below(1000) == 0) hak_purge_all();
            }
        });
        test::inspected();
        if (round % 2 == 0) {
            for (hak_heap *heap : heaps) hak_heap_free_all(heap);
            continue;
        }
        for (const OwnHeld &each : shared) {
            EXPECT_TRUE(each.holds());
            hak_free(each.block);
        }
        for (hak_heap *heap : heaps) expect_empty(heap);
    }
    for (hak_heap *heap : heaps) hak_heap_destroy(heap);
}

// Large blocks change the heap's sums under its lock: none is lost between two threads.
TEST_F(Own, ThreadsFreeLargeBlocksAtOnce)
{
    hak_heap *heap = hak_heap_new();
    for (size_t size : {size_t{100000}, 3 * test::MIB})
        test::in_threads(2, [&](int) {
            for (int i = 0; i < test::rounds(20000); i++) hak_free(hak_heap_malloc(heap, size));
        });
    expect_empty(heap);
    hak_heap_destroy(heap);
}

// A block was freed while another thread purged the heap. That thread has given the lock back, and has not yet looked
// whether a block was posted meanwhile.
TEST_F(Own, AllGoesBackWithABlockThatIsStillPosted)
{
    hak_heap *heap = hak_heap_new();
    for (size_t size : {100u, 20000u}) {
        void *block = hak_heap_malloc(heap, size), *kept = hak_heap_malloc(heap, size);
        std::thread([=] {
            own_lock(heap);
            std::thread([=] { hak_free(block); }).join();
            lock_word_release(&heap->lock, LOCK_OWN);
        }).join();
        ASSERT_EQ((void *)heap->posted, block);
        hak_heap_free_all(heap);
        EXPECT_EQ((void *)heap->posted, nullptr);
        EXPECT_EQ(own_figures_of(heap).used_bytes, 0u);
        test::inspected();
        EXPECT_EQ(own_figures_of(heap).committed_bytes, 0u) << kept;
    }
    hak_heap_destroy(heap);
}

// To unmap a huge block may take long. Other threads use its heap meanwhile.
TEST_F(Own, TheHeapIsFreeWhileAHugeBlockGoesBack)
{
    static const os_ops *before;
    static hak_heap *heap;
    static std::atomic<bool> is_done;
    static std::thread other;
    heap = hak_heap_new();
    is_done = false;
    void *huge = hak_heap_malloc(heap, 100 * test::MIB); // too large for the cache
    os_ops slow = *(before = os);
    slow.release = [](void *start, size_t size_bytes) {
        if (!other.joinable()) {
            other = std::thread([] {
                hak_free(hak_heap_malloc(heap, 100));
                is_done = true;
            });
            for (int i = 0; i < 1000 && !is_done; i++) usleep(10000);
            EXPECT_TRUE(is_done);
        }
        return before->release(start, size_bytes);
    };
    os = &slow;
    hak_free(huge);
    ASSERT_TRUE(other.joinable());
    other.join();
    os = before;
    expect_empty(heap);
    hak_heap_destroy(heap);
}

// OWN_DEAD_RANGES_MAX, OWN_DEAD_PAGES_MAX: with nothing, one, full, one beyond.
TEST_F(Own, PagesOfDestroyedHeapsAreRememberedUpToABound)
{
    SKIP_WITHOUT_VALIDATE();
    for (size_t pages : {1u, 32u}) {
        const size_t runs_max = pages == 1 ? size_t{OWN_DEAD_RANGES_MAX} : OWN_DEAD_PAGES_MAX / pages;
        hak_heap *heap = hak_heap_new();
        std::vector<void *> blocks;
        auto count_dead = [&] {
            return std::count_if(blocks.begin(), blocks.end(),
                                 [](void *block) { return pagemap_tag(block) == CLASS_OWN_DEAD; });
        };
        EXPECT_EQ(count_dead(), 0);
        while (blocks.size() <= runs_max) {
            blocks.push_back(hak_heap_malloc(heap, pages * PAGE_BYTES));
            hak_heap_free_all(heap);
            EXPECT_EQ((size_t)count_dead(), std::min(blocks.size(), runs_max));
        }
        EXPECT_NE(pagemap_tag(blocks.front()), (uint32_t)CLASS_OWN_DEAD);
        hak_heap_destroy(heap);
        own_dead_free_all();
        EXPECT_EQ(count_dead(), 0);
    }
}

// --- the price -------------------------------------------------------------------------------------------------

double now_s()
{
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// What it costs is printed for docs/use.md, and judged by nothing: time is no gate. What keeps it cheap is judged below.
TEST_F(Own, DestroyCostsByTheSlab)
{
    if (VALIDATE) GTEST_SKIP() << "the debug-validation build keeps the pages of destroyed heaps";
    std::vector<void *> blocks(test::rounds(1000000));
    double cost_s[2];
    for (bool at_once : {false, true}) {
        hak_heap *heap = hak_heap_new();
        test::Rng rng;
        for (void *&block : blocks) block = hak_heap_malloc(heap, rng.between(16, 128));
        rng.shuffle(blocks);
        double begin_s = now_s();
        if (!at_once)
            for (void *block : blocks) hak_free(block);
        hak_heap_destroy(heap);
        cost_s[at_once] = now_s() - begin_s;
    }
    printf("%zu blocks freed: %.1f ms, destroyed: %.3f ms\n", blocks.size(), 1e3 * cost_s[0], 1e3 * cost_s[1]);
}

// Blocks in use, freed ones in bins and slabs, runs, huge blocks: no page of them can be read any more, and destroy works.
TEST_F(Own, DestroyTouchesNoBlock)
{
    EXPECT_TRUE(test::in_child([] {
        hak_heap *heap = hak_heap_new();
        test::Rng rng;
        std::vector<void *> blocks(20000);
        for (void *&block : blocks) block = hak_heap_malloc(heap, own_draw_size(rng));
        for (size_t i = 0; i < blocks.size(); i += 3) hak_free(blocks[i]);
        for (size_t i = 0; i < blocks.size(); i++) {
            if (i % 3 == 0) continue;
            uintptr_t start = (uintptr_t)blocks[i] & -(uintptr_t)PAGE_BYTES;
            uintptr_t end = (uintptr_t)blocks[i] + hak_malloc_usable_size(blocks[i]);
            ASSERT_EQ(mprotect((void *)start, end - start, PROT_NONE), 0);
        }
        hak_heap_destroy(heap);
    }));
}

} // namespace

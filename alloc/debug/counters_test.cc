// counters_test.cc: each stage of a refill and each way of a free is counted once, in its class.
#include "heap/heap_test_support.h"

#include <map>

extern "C" {
#include "cache/credits.h"
#include "debug/counters_print.h"
#include "report/output.h"
}

namespace {

const size_t BYTES = 2048; // a class without colours, so that all its slabs hold the same number of blocks
const uint32_t C = sizeclass_of(BYTES);

const char *const NAMES[] = {
#define X(name, text) #name,
    COUNTERS(X)
#undef X
};

class Counters : public test::HeapTest {
  protected:
    void SetUp() override
    {
        HeapTest::SetUp();
        for (int counter = 0; counter < COUNTER_COUNT; counter++)
            for (uint32_t c = 0; c < COUNTED_COUNT; c++)
                before[{counter, c}] = counters_of_class((enum counter)counter, c);
    }
    uint64_t since(enum counter counter, uint32_t class_index)
    {
        return counters_of_class(counter, class_index) - before[{(int)counter, class_index}];
    }
    static std::vector<void *> take(size_t size, size_t count)
    {
        std::vector<void *> blocks;
        for (size_t i = 0; i < count; i++) blocks.push_back(hak_malloc(size));
        return blocks;
    }
    static void give_back(const std::vector<void *> &blocks)
    {
        for (void *b : blocks) hak_free(b);
    }
    std::map<std::pair<int, uint32_t>, uint64_t> before;
};

} // namespace

TEST_F(Counters, FreshMemoryThenTheSlabsList)
{
    uint32_t per_carve = CARVE_BYTES / BYTES, per_slab = (uint32_t)(PAGE_BYTES / BYTES);
    std::vector<void *> blocks = take(BYTES, 2 * per_slab);
    EXPECT_EQ(since(COUNTER_slab_pool, C) + since(COUNTER_slab_superslab, C), 2u);
    EXPECT_EQ(since(COUNTER_refill_carved, C), 2 * per_slab / per_carve);
    EXPECT_EQ(since(COUNTER_refill_slab, C), 0u);
    void *kept = blocks.back();
    blocks.pop_back();
    give_back(blocks);
    EXPECT_EQ(since(COUNTER_free_own, C), blocks.size());
    tcache_flush(tcache_self());
    void *again = hak_malloc(BYTES);
    EXPECT_EQ(since(COUNTER_refill_slab, C), 1u);
    EXPECT_EQ(counters_of_all(COUNTER_free_own), [] {
        uint64_t sum = 0;
        for (uint32_t c = 0; c < COUNTED_COUNT; c++) sum += counters_of_class(COUNTER_free_own, c);
        return sum;
    }());
    hak_free(kept);
    hak_free(again);
}

TEST_F(Counters, ParkedListsAndMagazines)
{
    uint32_t credit = sizeclass_credit(C);
    heap_credits_decay(tcache_self()->heap);
    tcache_fill_credits(tcache_self());
    std::vector<void *> blocks = take(BYTES, (MAGAZINES_MAX + 1) * credit + 1);
    give_back(blocks);
    EXPECT_EQ(since(COUNTER_free_own, C), (MAGAZINES_MAX + 1) * credit + 1);
    EXPECT_EQ(since(COUNTER_free_parked, C), MAGAZINES_MAX + 1u);
    EXPECT_EQ(since(COUNTER_free_overflow, C), 1u);
    give_back(take(BYTES, 3 * credit));
    EXPECT_GT(since(COUNTER_refill_magazine, C), 0u);
}

TEST_F(Counters, TrimmedMemoryIsCountedWhenItComesBack)
{
    std::vector<void *> blocks = take(BYTES, 320), kept;
    for (size_t i = 0; i < blocks.size(); i++) {
        if (i % 32 == 0) kept.push_back(blocks[i]);
        else hak_free(blocks[i]);
    }
    hak_purge();
    EXPECT_EQ(since(COUNTER_refill_hollow, C), 0u);
    std::vector<void *> again = take(BYTES, 315);
    EXPECT_GT(since(COUNTER_refill_hollow, C), 0u);
    give_back(again);
    give_back(kept);
}

TEST_F(Counters, FreesOfAnotherHeapsBlocks)
{
    uint32_t stage = sizeclass_stage_blocks(C);
    std::vector<void *> blocks = take(BYTES, PAGE_BYTES / BYTES);
    size_t staged = blocks.size() - EARLY_FREES_MAX;
    test::in_thread([&] { give_back(blocks); });
    EXPECT_EQ(since(COUNTER_free_unstaged, C), (uint64_t)EARLY_FREES_MAX);
    EXPECT_EQ(since(COUNTER_free_staged, C), staged);
    EXPECT_GE(since(COUNTER_free_posted, C), (staged + stage - 1) / stage);
    EXPECT_EQ(since(COUNTER_free_own, C), 0u);
    while (since(COUNTER_refill_drained, C) == 0 && blocks.size() < 10000) blocks.push_back(hak_malloc(BYTES));
    EXPECT_EQ(since(COUNTER_refill_drained, C), 1u);
    for (size_t i = PAGE_BYTES / BYTES; i < blocks.size(); i++) hak_free(blocks[i]);
}

TEST_F(Counters, LargeAndHuge)
{
    hak_free(hak_malloc(PAGE_BYTES));
    hak_free(hak_malloc(RUN_BYTES_MAX + 1));
    hak_free(hak_calloc(1, 3 * PAGE_BYTES));
    EXPECT_EQ(since(COUNTER_alloc_large, COUNTED_RUN), 2u);
    EXPECT_EQ(since(COUNTER_free_large, COUNTED_RUN), 2u);
    EXPECT_EQ(since(COUNTER_alloc_large, COUNTED_HUGE), 1u);
    EXPECT_EQ(since(COUNTER_free_large, COUNTED_HUGE), 1u);
}

TEST_F(Counters, Printed)
{
    hak_free(hak_malloc(BYTES));
    const std::string all = test::printed(hak_stats_print);
    for (const char *name : {"counter refill_magazine", "counter free_posted", "class   2048", "free_own="})
        EXPECT_NE(all.find(name), std::string::npos) << name << "\n" << all;
}

// A line for each class that has counted something, with what it has counted.
TEST_F(Counters, EachClassHasItsLine)
{
    for (uint32_t c : {1u, CLASS_ALIGNED_FIRST - 1u, (uint32_t)CLASS_ALIGNED_FIRST, CLASS_COUNT - 1u,
                       (uint32_t)COUNTED_RUN, (uint32_t)COUNTED_HUGE}) {
        counters_heapless_add(COUNTER_free_unstaged, c);
        counters_heapless_add((enum counter)(COUNTER_COUNT - 1), c);
    }
    std::string wanted;
    for (uint32_t c = 0; c < COUNTED_COUNT; c++) {
        std::string counted;
        for (int counter = 0; counter < COUNTER_COUNT; counter++)
            if (uint64_t value = counters_of_class((enum counter)counter, c); value != 0)
                counted += " " + std::string(NAMES[counter]) + "=" + std::to_string(value);
        if (counted.empty()) continue;
        std::string name = c == COUNTED_RUN ? "run" : c == COUNTED_HUGE ? "huge" : std::to_string(sizeclass_bytes(c));
        wanted += "hakmem: class " + std::string(6 - name.size(), ' ') + name +
                  (c >= CLASS_ALIGNED_FIRST && c < CLASS_COUNT ? " aligned" : "") + counted + "\n";
    }
    const std::string all = test::printed([](FILE *stream) {
        struct output out;
        output_begin(&out, stream, -1);
        counters_print(&out);
    });
    EXPECT_EQ(all.substr(all.find("hakmem: class")), wanted);
}

// Threads that run side by side, which shows where one sees that another was here since its own last turn. On a machine
// that is too busy for that they end after some seconds.
TEST_F(Counters, ThreadsWithoutAHeapLoseNone)
{
    const int threads = 3, meetings_wanted = 20'000;
    const time_t end = time(nullptr) + 3;
    std::atomic<int> ready{0}, meetings{0}, last{0};
    std::atomic<uint64_t> added{0};
    test::in_threads(threads, [&](int thread) {
        for (ready++; ready < threads;) {}
        uint64_t mine = 0;
        for (; meetings.load(std::memory_order_relaxed) < meetings_wanted && time(nullptr) <= end; mine += 64)
            for (int i = 0; i < 64; i++) {
                counters_heapless_add(COUNTER_free_unstaged, C);
                if (i % 8 == 0 && last.exchange(thread, std::memory_order_relaxed) != thread)
                    meetings.fetch_add(1, std::memory_order_relaxed);
            }
        added += mine;
    });
    EXPECT_EQ(since(COUNTER_free_unstaged, C), added.load());
    if (meetings < meetings_wanted / 200) GTEST_SKIP() << "the threads met " << meetings << " times only";
}

// huge_cache_test.cc: what loops teach the cache of mappings: how much it keeps, and how long; what it counts as given
// back. More than 400 lines: all are loops of one model, and share its clock.
#include "heap/heap_test_support.h"

#include <sys/mman.h>

extern "C" {
#include "heap/huge.h"
#include "heap/huge_cache.h"
#include "os/os.h"
#include "os/os_fault.h"
}

namespace {

using test::is_mapped;
using test::MIB;

class HugeLoop : public test::HeapTest {
  protected:
    static inline uint64_t now = 0; // the time of ticks; it only grows
    // So far ahead of the clock that no free of a test on a busy machine is a tick.
    virtual uint64_t ahead_ms() const { return 3600 * 1000; }
    void SetUp() override
    {
        HeapTest::SetUp();
        now = std::max(now, os_now_ms() + ahead_ms()) + 4 * PURGE_DELAY_MS;
        huge_tick(now);
        huge_tick(now += PURGE_DELAY_MS); // nothing was used: it has learned nothing
    }
    void TearDown() override
    {
        EXPECT_EQ(huge_figures().slack_bytes, 0u) << "no block is live";
        HeapTest::TearDown();
    }
    // As if loops had taught it that.
    static void learn(size_t bytes, size_t live_bytes)
    {
        huge_keep_bytes = bytes;
        huge_keep_live_bytes = live_bytes;
    }
    static char *allocated(size_t size) { return static_cast<char *>(hak_malloc(size)); }
    // Replaces random blocks of 2 to 32 MiB. Returns the calls for memory of the second half.
    static uint64_t replace(size_t live, int pairs)
    {
        test::Rng rng(7);
        std::vector<char *> blocks(live);
        for (int i = 0; i < pairs; i++) {
            if (i == pairs / 2) os_fault_install(0, false); // counts calls, and fails none
            char *&block = blocks[rng.below(live)];
            hak_free(block);
            size_t size = 2 * MIB + 1 + rng.below(30 * MIB);
            block = allocated(size);
            EXPECT_GE(hak_malloc_usable_size(block), size);
            EXPECT_LT(hak_malloc_usable_size(block), size + PAGE_BYTES);
            block[0] = block[size - 1] = 1;
        }
        uint64_t calls = os_fault_remove();
        for (char *block : blocks) hak_free(block);
        return calls;
    }
};

enum class Order { First, Last, Random };

class HugeRest : public test::HeapTest {
  protected:
    void TearDown() override
    {
        huge_set_cache_bytes(HUGE_CACHE_BYTES_MAX);
        HeapTest::TearDown();
    }

    struct Case {
        size_t limit, least, most; // bytes: of the cache, of the blocks
        Order order;
        int threads;
    };

    // Replaces each half of the blocks in turn, so that the cache learns to keep more than its limit. Nothing is touched.
    static std::vector<void *> taught(const Case &each, test::Rng &rng)
    {
        std::vector<void *> blocks(16);
        for (int round = 0; round < 24; round++) {
            const size_t first = round % 2 * blocks.size() / 2;
            for (size_t i = first; i < first + blocks.size() / 2; i++) hak_free(blocks[i]), blocks[i] = nullptr;
            for (size_t i = first; i < first + blocks.size() / 2; i++) {
                blocks[i] = hak_malloc(rng.between(each.least, each.most));
                EXPECT_NE(blocks[i], nullptr);
            }
        }
        return blocks;
    }

    static void free_all(std::vector<void *> &blocks, const Case &each, test::Rng &rng)
    {
        if (each.order == Order::Last) std::reverse(blocks.begin(), blocks.end());
        if (each.order == Order::Random) rng.shuffle(blocks);
        test::in_threads(each.threads, [&](int thread) {
            for (size_t i = static_cast<size_t>(thread); i < blocks.size(); i += static_cast<size_t>(each.threads))
                hak_free(blocks[i]);
        });
    }

    // Returns whether the cache held more than its limit while blocks were in use, as it may.
    static bool expect_at_limit(const Case &each, uint64_t stream)
    {
        hak_purge();
        huge_set_cache_bytes(each.limit);
        test::Rng rng(stream);
        std::vector<void *> blocks = taught(each, rng);
        const bool kept_more = huge_learned_bytes() > each.limit;
        free_all(blocks, each, rng);
        EXPECT_EQ(huge_figures().live_count, 0u);
        EXPECT_LE(huge_figures().cached_bytes, each.limit)
            << each.limit / MIB << " MiB, blocks of " << each.least / MIB << " to " << each.most / MIB << " MiB, order "
            << static_cast<int>(each.order) << ", threads " << each.threads;
        return kept_more;
    }
};

} // namespace

// A block at a time, and several. Once they are freed, the limit in bytes holds again at once.
TEST_F(HugeLoop, OfManyLengthsMakesNoCalls)
{
    if (HAK_SANITIZE_ADDRESS) GTEST_SKIP() << "AddressSanitizer marks each byte of a block: gigabytes in all";
    for (size_t live : {1u, 4u}) {
        EXPECT_EQ(replace(live, 6000), 0u) << live;
        EXPECT_LE(huge_figures().cached_bytes, (size_t)HUGE_CACHE_BYTES_MAX) << live;
        hak_purge();
        EXPECT_EQ(huge_figures().cached_bytes, 0u);
    }
}

// If each round frees nearly all, more than the limit stays, up to a bound, until the loop rests for a delay, or until
// nothing is left in use.
TEST_F(HugeLoop, OfRoundsKeepsMoreUntilItRests)
{
    if (HAK_SANITIZE_ADDRESS) GTEST_SKIP() << "AddressSanitizer marks each byte of a block: gigabytes in all";
    std::vector<char *> blocks(24);
    char *stays = allocated(3 * MIB);
    auto round = [&] {
        for (char *&block : blocks) block = allocated(16 * MIB);
        for (char *block : blocks) hak_free(block);
    };
    round();
    EXPECT_EQ(huge_figures().cached_bytes, (size_t)HUGE_CACHE_BYTES_MAX) << "one round teaches nothing";
    for (int i = 0; i < 40; i++) round();
    os_fault_install(0, false);
    round();
    EXPECT_EQ(os_fault_remove(), 0u);
    EXPECT_EQ(huge_figures().cached_bytes, blocks.size() * 16 * MIB);
    for (int i = 0; i < 8; i++) {
        huge_tick(now += PURGE_DELAY_MS);
        round();
    }
    EXPECT_EQ(huge_figures().cached_bytes, blocks.size() * 16 * MIB) << "older than a delay, and in use";
    for (char *&block : blocks) block = allocated(16 * MIB);
    huge_tick(now += PURGE_DELAY_MS);
    for (char *block : blocks) hak_free(block); // all that the loop does in this delay
    huge_tick(now += PURGE_DELAY_MS);
    EXPECT_GT(huge_figures().cached_bytes, (size_t)HUGE_CACHE_BYTES_MAX) << "a free is a use";
    for (int i = 0; i < 40; i++) {
        for (char *&block : blocks) block = allocated(32 * MIB);
        for (char *block : blocks) hak_free(block);
        ASSERT_LE(huge_figures().cached_bytes, (size_t)HUGE_KEEP_FACTOR * HUGE_CACHE_BYTES_MAX);
    }
    EXPECT_GT(huge_figures().cached_bytes, (size_t)HUGE_KEEP_FACTOR * HUGE_CACHE_BYTES_MAX - 32 * MIB);
    now = std::max(now, os_now_ms());
    huge_tick(now += PURGE_DELAY_MS); // the loop ran in this delay
    EXPECT_GT(huge_figures().cached_bytes, (size_t)HUGE_CACHE_BYTES_MAX);
    for (int i = 0; i < WINDOW_DELAYS; i++) huge_tick(now += PURGE_DELAY_MS); // it was not in these
    EXPECT_EQ(huge_figures().cached_bytes, 0u);
    EXPECT_FALSE(huge_any_cached());
    round();
    EXPECT_EQ(huge_figures().cached_bytes, (size_t)HUGE_CACHE_BYTES_MAX) << "forgotten";
    for (int i = 0; i < 40; i++) round();
    EXPECT_GT(huge_figures().cached_bytes, (size_t)HUGE_CACHE_BYTES_MAX);
    hak_free(stays);
    EXPECT_LE(huge_figures().cached_bytes, (size_t)HUGE_CACHE_BYTES_MAX) << "the process may sleep from now on";
    for (int i = 0; i < 40; i++) {
        round();
        ASSERT_LE(huge_figures().cached_bytes, (size_t)HUGE_CACHE_BYTES_MAX) << i;
    }
}

// A loop that frees all of its blocks in each round is back at the limit in bytes each time, however often it runs. What it
// leaves goes back as if it had learned nothing, once less is in use than half of what was when it learned.
TEST_F(HugeLoop, OfRoundsThatFreeAllKeepsTheLimit)
{
    if (HAK_SANITIZE_ADDRESS) GTEST_SKIP() << "AddressSanitizer marks each byte of a block: gigabytes in all";
    std::vector<char *> blocks(24);
    const auto round = [&] {
        for (char *&block : blocks) block = allocated(16 * MIB);
        for (char *block : blocks) hak_free(block);
    };
    for (int i = 0; i < 40; i++) {
        round();
        ASSERT_EQ(huge_figures().cached_bytes, (size_t)HUGE_CACHE_BYTES_MAX) << i;
    }
    for (int ways = 0; ways < 2; ways++) {
        hak_purge();
        char *stays = allocated(3 * MIB);
        for (int i = 0; i < 40; i++) round();
        ASSERT_GT(huge_learned_bytes(), (size_t)HUGE_CACHE_BYTES_MAX);
        char *next = ways == 0 ? allocated(5 * MIB) : nullptr;
        hak_free(stays);
        now = std::max(now, os_now_ms());
        huge_tick(now += PURGE_DELAY_MS);
        huge_tick(now += 1 + PURGE_DELAY_MS / 2);
        if (ways == 0) EXPECT_GT(huge_figures().cached_bytes, (size_t)HUGE_CACHE_BYTES_MAX) << "more than half";
        else EXPECT_EQ(huge_figures().cached_bytes, 0u) << "nothing is in use";
        hak_free(next);
    }
}

// A loop over one block that fits the limit makes no calls, however near to the limit it is.
TEST_F(HugeLoop, OfOneBlockMakesNoCalls)
{
    constexpr size_t FRAME = VALIDATE ? 1 : 0; // MiB; the mapping is longer than the block
    for (size_t size : {3 * MIB, 31 * MIB, 33 * MIB, 50 * MIB, (64 - FRAME) * MIB}) {
        hak_purge();
        for (int i = 0; i < 3; i++) hak_free(allocated(size));
        os_fault_install(0, false);
        for (int i = 0; i < 3; i++) hak_free(allocated(size));
        EXPECT_EQ(os_fault_remove(), 0u) << size;
        EXPECT_LE(huge_figures().cached_bytes, (size_t)HUGE_CACHE_BYTES_MAX);
    }
}

// How much of its mapping a block may have to spare: what there is to keep, to the byte, of all blocks together.
TEST_F(HugeLoop, TheBytesToSpareAreBounded)
{
    const size_t keep = 3 * MIB;
    for (size_t more : {keep - PAGE_BYTES, keep, keep + PAGE_BYTES}) {
        hak_purge();
        hak_free(allocated(8 * MIB));
        learn(keep, 0);
        char *block = allocated(8 * MIB - more);
        EXPECT_EQ(huge_figures().live_bytes == 8 * MIB, more <= keep) << "else it has a mapping of its own";
        hak_free(block);
        hak_purge();
        learn(keep, 0);
        block = allocated(8 * MIB);
        EXPECT_EQ(static_cast<char *>(hak_realloc(block, 8 * MIB - more)), block);
        EXPECT_EQ(huge_figures().slack_bytes, more <= keep ? more : 0) << "else the system takes it back";
        EXPECT_EQ(huge_figures().live_bytes, more <= keep ? 8 * MIB : 8 * MIB - more);
        hak_free(block);
        hak_purge();
        learn(keep, 0);
        block = allocated(20 * MIB - more); // of the four lengths a doubling this is the next
        EXPECT_EQ(huge_figures().live_bytes, more <= keep ? 20 * MIB : 20 * MIB - more);
        hak_free(block);
    }
    hak_purge();
}

// One slow path after a sleep gives back what loops have taught to keep, with a block still in use.
TEST_F(HugeLoop, OneTickAfterASleepIsEnough)
{
    char *stays = allocated(3 * MIB);
    std::vector<char *> blocks(24);
    for (int i = 0; i < 40; i++) {
        for (char *&block : blocks) block = allocated(16 * MIB);
        for (char *block : blocks) hak_free(block);
    }
    EXPECT_GT(huge_figures().cached_bytes, (size_t)HUGE_CACHE_BYTES_MAX);
    huge_tick(now = std::max(now, os_now_ms()) + (WINDOW_DELAYS + 1) * PURGE_DELAY_MS);
    EXPECT_EQ(huge_figures().cached_bytes, 0u);
    hak_free(stays);
}

// What is cached and what is in use stay below the most that was in use lately, until the program wants again what that
// took back.
TEST_F(HugeLoop, TheCacheAddsNothingToThePeak)
{
    std::vector<char *> blocks{allocated(8 * MIB)};
    char *first = allocated(8 * MIB), *second = allocated(8 * MIB); // the peak: 24 MiB
    hak_free(first);
    hak_free(second);
    EXPECT_EQ(huge_figures().cached_bytes, 16 * MIB);
    blocks.push_back(allocated(6 * MIB - PAGE_BYTES)); // a block of 8 MiB would waste too much on it
    EXPECT_EQ(huge_figures().cached_bytes, 8 * MIB);
    EXPECT_FALSE(is_mapped(first)) << "the oldest goes, and no more than that";
    blocks.push_back(allocated(2 * MIB + PAGE_BYTES));
    EXPECT_EQ(huge_figures().cached_bytes, 8 * MIB) << "24 MiB in all";
    blocks.push_back(allocated(2 * MIB + PAGE_BYTES));
    EXPECT_EQ(huge_figures().cached_bytes, 0u) << "and now more";
    EXPECT_FALSE(is_mapped(second));
    char *again = allocated(8 * MIB); // so they were taken back too early
    hak_free(again);
    blocks.push_back(allocated(16 * MIB));
    EXPECT_EQ(huge_figures().cached_bytes, 8 * MIB);
    EXPECT_TRUE(is_mapped(again));
    for (char *block : blocks) hak_free(block);
}

// Other blocks that take new memory take the place of cached mappings. Those that find free memory do not.
TEST_F(HugeLoop, TheRestOfTheHeapGrowsInThePlaceOfTheCache)
{
    char *run = allocated(MIB), *huge = allocated(8 * MIB);
    hak_free(huge);
    for (int i = 0; i < 8; i++) {
        hak_free(run);
        run = allocated(MIB);
    }
    EXPECT_EQ(huge_figures().cached_bytes, 8 * MIB) << "the run is where it was";
    char *more[] = {allocated(MIB), allocated(MIB)}; // the second one's slow path sees the first
    EXPECT_EQ(huge_figures().cached_bytes, 0u);
    EXPECT_FALSE(is_mapped(huge));
    for (char *block : {run, more[0], more[1]}) hak_free(block);
}

// What went back for a huge block is committed no more: other blocks may not grow by as much beside what is still cached.
TEST_F(HugeLoop, TheRestOfTheHeapDoesNotGrowInThePlaceOfWhatWentBack)
{
    std::vector<char *> blocks{allocated(8 * MIB)};
    for (char *each : {allocated(8 * MIB), allocated(8 * MIB)}) hak_free(each);
    huge_cache_tick(now += PURGE_DELAY_MS, PURGE_DELAY_MS); // from here on the most is what is committed now
    EXPECT_EQ(huge_figures().cached_bytes, 16 * MIB);
    blocks.push_back(allocated(6 * MIB - PAGE_BYTES)); // one of the two goes back: 2 MiB and a page less
    EXPECT_EQ(huge_figures().cached_bytes, 8 * MIB);
    for (int i = 0; i < 3; i++) blocks.push_back(allocated(MIB)); // the third one's slow path sees two
    EXPECT_EQ(huge_figures().cached_bytes, 8 * MIB);
    for (int i = 0; i < 2; i++) blocks.push_back(allocated(MIB));
    EXPECT_EQ(huge_figures().cached_bytes, 0u);
    for (char *block : blocks) hak_free(block);
}

// In the child of a fork that met the lock: nothing of the lists, which may be half changed, and nothing learned.
TEST_F(HugeLoop, ADropLeavesNothing)
{
    EXPECT_TRUE(test::in_child([] {
        replace(4, 400);
        char *first = allocated(8 * MIB), *second = allocated(8 * MIB);
        for (char *each : {first, second}) hak_free(each);
        EXPECT_TRUE(huge_cache_any());
        EXPECT_TRUE(huge_cache_has(first) && huge_cache_has(second + 8 * MIB - 1));
        EXPECT_GT(huge_learned_bytes(), 0u);
        huge_cache_drop();
        EXPECT_FALSE(huge_cache_any());
        EXPECT_FALSE(huge_cache_has(first));
        EXPECT_EQ(huge_figures().cached_bytes, 0u);
        EXPECT_EQ(huge_learned_bytes(), 0u);
        EXPECT_TRUE(is_mapped(first)) << "its descriptor may be another list's";
        char *next = allocated(8 * MIB);
        EXPECT_NE(next, first);
        EXPECT_NE(next, second);
        hak_free(next);
        EXPECT_EQ(huge_figures().cached_bytes, 8 * MIB);
    }));
}

// A block in a longer mapping than it needs grows there, without a call.
TEST_F(HugeLoop, ABlockGrowsWithinItsMapping)
{
    replace(1, 400);
    std::vector<char *> blocks;
    char *block = nullptr;
    for (int i = 0; i < 64 && block == nullptr; i++) { // until one has much to spare
        size_t before = huge_figures().live_bytes;
        char *next = allocated(3 * MIB);
        if (huge_figures().live_bytes >= before + 6 * MIB) block = next;
        else blocks.push_back(next);
    }
    if (block != nullptr) {
        size_t mapped = huge_figures().live_bytes;
        EXPECT_GE(huge_figures().slack_bytes, 3 * MIB);
        test::pattern_fill(block, 3 * MIB, 3, 4096);
        os_fault_install(0, false);
        EXPECT_EQ(static_cast<char *>(hak_realloc(block, 5 * MIB)), block);
        EXPECT_EQ(os_fault_remove(), 0u);
        EXPECT_GE(hak_malloc_usable_size(block), 5 * MIB);
        EXPECT_EQ(huge_figures().live_bytes, mapped);
        EXPECT_TRUE(test::pattern_holds(block, 3 * MIB, 3, 4096));
    }
    EXPECT_NE(block, nullptr);
    hak_free(block);
    for (char *other : blocks) hak_free(other);
}

// One mapping above the number is one too many.
TEST_F(HugeLoop, TheNumberOfMappingsToKeepIsBounded)
{
    for (size_t count : {HUGE_KEEP_ENTRIES - 1, HUGE_KEEP_ENTRIES + 0, HUGE_KEEP_ENTRIES + 1}) {
        std::vector<char *> blocks(count);
        char *stays = allocated(3 * MIB);
        for (int i = 0; i < 12; i++) {
            for (char *&block : blocks) block = allocated(3 * MIB);
            for (char *block : blocks) hak_free(block);
        }
        EXPECT_EQ(huge_figures().cached_bytes, std::min(count, (size_t)HUGE_KEEP_ENTRIES) * 3 * MIB);
        hak_free(stays);
        hak_purge();
    }
}

// With the bytes to keep ends their number of mappings, also where the bytes of all of them are within the limit.
TEST_F(HugeLoop, TheNumberFallsWithTheBytesToKeep)
{
    huge_set_cache_bytes(1024 * MIB);
    std::vector<char *> blocks(HUGE_KEEP_ENTRIES);
    for (char *&block : blocks) block = allocated(3 * MIB);
    learn(64 * MIB, huge_figures().live_bytes / 2);
    size_t most = 0;
    for (char *block : blocks) {
        hak_free(block);
        most = std::max(most, huge_figures().cached_bytes);
    }
    EXPECT_GE(most, HUGE_KEEP_ENTRIES / 2 * 3 * MIB);
    EXPECT_EQ(huge_figures().cached_bytes, HUGE_CACHE_ENTRIES * 3 * MIB);
    huge_purge_all();
    huge_set_cache_bytes(HUGE_CACHE_BYTES_MAX);
}

// A descriptor belongs to another thread's block as soon as its mapping is gone: while the ones that were refused are
// tried again, for one.
TEST_F(HugeLoop, WhatIsGivenBackIsCountedBeforeAnotherThreadTakesItsDescriptor)
{
    static char *refused, *other;
    refused = allocated(40 * MIB), other = nullptr; // too large for the cache
    huge_tick(now += PURGE_DELAY_MS); // so that none is due in hak_free: it would try again
    os_fault_install(1, false);
    hak_free(refused);
    EXPECT_EQ(os_fault_remove(), 2u);
    hak_free(allocated(8 * MIB));
    static const os_ops *before;
    static os_ops ops;
    before = os;
    ops = *before;
    ops.release = [](void *start, size_t size_bytes) {
        if (start == refused && other == nullptr) test::in_thread([] { other = allocated(20 * MIB); });
        return before->release(start, size_bytes);
    };
    os = &ops;
    EXPECT_EQ(huge_purge_all(), 8 * MIB);
    os = before;
    EXPECT_NE(other, nullptr);
    EXPECT_FALSE(is_mapped(refused));
    hak_free(other);
}

// When all huge blocks were freed, the cache keeps at most its limit in bytes, at once: whatever it has learned, and whichever
// block was freed last.
TEST_F(HugeRest, AtMostTheLimitStaysWhenAllWasFreed)
{
    if (HAK_SANITIZE_ADDRESS) GTEST_SKIP() << "AddressSanitizer marks each byte of a block: gigabytes in all";
    int taught = 0;
    uint64_t stream = 0;
    for (size_t limit : {0 * MIB, 8 * MIB, 64 * MIB})
        for (auto [least, most] : std::vector<std::pair<size_t, size_t>>{
                 {3, 3}, {2, 8}, {4, 5}, {31, 32}, {33, 33}, {57, 60}, {63, 66}, {3, 90}})
            for (Order order : {Order::First, Order::Last, Order::Random})
                for (int threads : {1, 3})
                    taught += expect_at_limit({limit, least * MIB + 1, most * MIB + 1, order, threads}, ++stream);
    EXPECT_GE(taught, 60) << "in the others there was nothing to keep";
}

// tcache_test.cc: bins, credits, magazines, and the stages of a refill.
#include "heap/heap_test_support.h"

#include <set>

extern "C" {
#include "cache/credits.h"
#include "cache/owed.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
}

namespace {

class Tcache : public test::HeapTest {
  protected:
    std::vector<void *> take(size_t size, size_t count)
    {
        std::vector<void *> blocks;
        for (size_t i = 0; i < count; i++) {
            blocks.push_back(hak_malloc(size));
            EXPECT_NE(blocks.back(), nullptr);
        }
        return blocks;
    }
    static void give_back(const std::vector<void *> &blocks)
    {
        for (void *b : blocks) hak_free(b);
    }
    void SetUp() override
    {
        HeapTest::SetUp();
        hak_free(hak_malloc(16)); // the thread has a heap, also where a test runs alone
    }
    tcache *self = tcache_self();
};

void credits_at_first(tcache *self)
{
    heap_credits_decay(self->heap);
    tcache_fill_credits(self);
}

} // namespace

TEST_F(Tcache, APopAndAPush)
{
    void *first = hak_malloc(64);
    void *second = hak_malloc(64);
    EXPECT_NE(first, second);
    hak_free(first);
    EXPECT_EQ((void *)self->heads[4], first);
    EXPECT_EQ(hak_malloc(64), first) << "last in, first out";
    hak_free(second);
    hak_free(first);
}

// The credit of small blocks is CREDIT_MAX; the lists have none, one, and as many blocks as the credit, and one more.
TEST_F(Tcache, SpentCreditParksTheList)
{
    for (size_t size : {16u, 256u, 1024u, 2048u, 32768u}) {
        hak_purge();
        credits_at_first(self);
        uint32_t c = sizeclass_of(size), credit = sizeclass_credit(c);
        std::vector<void *> blocks = take(size, credit * 3);
        // A clean start: the bin is empty and has its full credit.
        hak_purge();
        self->credits[c] = credit;
        size_t i = 0;
        for (; i < credit; i++) hak_free(blocks[i]);
        EXPECT_EQ(parking_count(&self->heap->parking[c]), 0);
        EXPECT_EQ(self->credits[c], 0);
        hak_free(blocks[i++]);
        EXPECT_EQ(parking_count(&self->heap->parking[c]), 1) << "the list was parked";
        EXPECT_EQ((void *)self->heads[c], blocks[i - 1]) << "and a new one begun";
        EXPECT_EQ(self->heads[c]->next, nullptr);
        EXPECT_EQ(self->credits[c], credit - 1);
        for (; i < 2 * credit; i++) hak_free(blocks[i]);
        EXPECT_EQ(parking_count(&self->heap->parking[c]), 1);
        hak_free(blocks[i++]);
        EXPECT_EQ(parking_count(&self->heap->parking[c]), 2);
        for (; i < blocks.size(); i++) hak_free(blocks[i]);
    }
}

// Up to CREDIT_GROWN_MAX (16 bytes), and no further in more rounds.
TEST_F(Tcache, CreditGrowsWhereParkedListsAreWantedAgain)
{
    hak_free(hak_malloc(16)); // the thread has a heap
    // 5120: doubling its credit would exceed its limit, which is no power of two times the first credit.
    for (size_t size : {16u, 64u, 1024u, 4096u, 5120u, 32768u}) {
        uint32_t c = sizeclass_of(size);
        credits_at_first(self);
        uint32_t start = self->heap->parking[c].credit, most = sizeclass_credit_grown(c);
        ASSERT_EQ(start, sizeclass_credit(c));
        credit_grow(self, c); // of small blocks not to the most
        heap_credits_decay(self->heap);
        ASSERT_EQ(self->heap->parking[c].credit, start) << size;
        for (int round = 0; round < 40; round++) {
            uint32_t before = self->heap->parking[c].credit;
            give_back(take(size, 4 * most)); // parks lists and takes them back
            ASSERT_GE(self->heap->parking[c].credit, before);
            ASSERT_LE(self->heap->parking[c].credit, most);
            ASSERT_GE(self->heap->parking[c].count_max, parking_count(&self->heap->parking[c]));
        }
        EXPECT_EQ(self->heap->parking[c].credit, most);
        EXPECT_EQ(self->heap->parking[c].count_max, sizeclass_magazines(c, most));
        heap_credits_decay(self->heap); // as a visit does
        EXPECT_EQ(self->heap->parking[c].credit, start) << size;
        EXPECT_EQ(self->heap->parking[c].count_max, sizeclass_magazines(c, start)) << size;
    }
    // Frees alone do not grow the credit.
    uint32_t c = sizeclass_of(128);
    credits_at_first(self);
    std::vector<void *> blocks = take(128, 20000);
    uint32_t before = self->heap->parking[c].credit;
    give_back(blocks);
    EXPECT_EQ(self->heap->parking[c].credit, before);
}

// A thread that only frees blocks of others takes a heap once they are more than EARLY_FREES_MAX.
TEST_F(Tcache, AThreadThatFreesTakesAHeapAfterSomeBlocks)
{
    for (size_t frees :
         {size_t{0}, size_t{1}, size_t{EARLY_FREES_MAX} - 1, size_t{EARLY_FREES_MAX}, size_t{EARLY_FREES_MAX} + 1}) {
        std::vector<void *> blocks = take(512, frees);
        test::in_thread([&] {
            give_back(blocks);
            EXPECT_EQ(tcache_self()->heap != nullptr, frees > EARLY_FREES_MAX) << frees;
        });
    }
}

TEST_F(Tcache, ASwingWithinTheGrownCreditLeavesTheSlabsAlone)
{
    for (size_t size : {512u, 1024u, 1040u, 2048u}) {
        uint32_t c = sizeclass_of(size), swing = 2 * sizeclass_credit_grown(c) - 24;
        for (int round = 0; round < 40; round++) give_back(take(size, swing));
        // If slabs gave or got back a block, the count of blocks in use would change. Each round parks its lists 24
        // blocks later than the last, so 140 rounds pass through every way to divide the swing.
        uint64_t used = test::inspected().used_blocks;
        for (int round = 0; round < 140; round++) {
            std::vector<void *> blocks = take(size, swing);
            ASSERT_EQ(test::inspected().used_blocks, used) << size << ", round " << round;
            give_back(blocks);
            ASSERT_EQ(test::inspected().used_blocks, used) << size << ", round " << round;
        }
        EXPECT_GE(self->heap->parking[c].credit, 128u);
    }
}

TEST_F(Tcache, MagazinesAreBounded)
{
    for (size_t size : {16u, 1024u, 4096u}) {
        hak_purge();
        credits_at_first(self);
        uint32_t c = sizeclass_of(size), credit = sizeclass_credit(c);
        std::vector<void *> blocks = take(size, credit * (MAGAZINES_MAX + 8));
        size_t freed = 0, cached_max = 0;
        for (void *b : blocks) {
            hak_free(b);
            ASSERT_LE(parking_count(&self->heap->parking[c]), MAGAZINES_MAX);
            if (++freed % credit != 0) continue;
            // The other blocks are back in the slabs.
            hak_inspect_report report = test::inspected();
            cached_max = std::max<size_t>(cached_max, report.used_blocks - (blocks.size() - freed));
        }
        EXPECT_EQ(parking_count(&self->heap->parking[c]), sizeclass_magazines(c, credit));
        // Two lists more than magazines: the bin, and blocks that were carved but never handed out.
        EXPECT_LE(cached_max, (size_t)credit * (MAGAZINES_MAX + 2) + CARVE_BYTES / sizeclass_bytes(c) + 1);
    }
}

TEST_F(Tcache, RefillTakesAMagazineFirst)
{
    uint32_t c = sizeclass_of(1024), credit = sizeclass_credit(c);
    std::vector<void *> blocks = take(1024, credit * 3 + 1);
    hak_purge();
    credits_at_first(self);
    self->credits[c] = 0;
    give_back(blocks);
    EXPECT_EQ(parking_count(&self->heap->parking[c]), 3);
    std::set<void *> known(blocks.begin(), blocks.end());
    size_t claimed = pool_figures().claimed_pages;
    std::vector<void *> again;
    for (size_t i = 0; i < blocks.size(); i++) {
        again.push_back(hak_malloc(1024));
        EXPECT_TRUE(known.erase(again.back())) << "not one of those in the cache";
    }
    EXPECT_EQ(parking_count(&self->heap->parking[c]), 0);
    EXPECT_EQ(pool_figures().claimed_pages, claimed);
    give_back(again);
}

TEST_F(Tcache, RefillTakesWhatOtherThreadsGaveBack)
{
    uint32_t c = sizeclass_of(512);
    std::vector<void *> blocks = take(512, 64);
    while (self->heads[c] != nullptr) blocks.push_back(hak_malloc(512));
    std::set<void *> freed(blocks.begin(), blocks.begin() + 20);
    test::in_thread([&] { give_back({blocks.begin(), blocks.begin() + 20}); });
    EXPECT_TRUE(remote_is_pending(&self->heap->owner));
    void *block = hak_malloc(512);
    EXPECT_TRUE(freed.count(block)) << "fresh memory was carved though blocks had come back";
    EXPECT_FALSE(remote_is_pending(&self->heap->owner));
    hak_free(block);
    give_back({blocks.begin() + 20, blocks.end()});
}

TEST_F(Tcache, AThreadWhoseOwnListsSufficeTakesWhatOthersGaveBack)
{
    std::vector<void *> blocks = take(512, 200);
    test::in_thread([&] { give_back(blocks); });
    EXPECT_TRUE(remote_is_pending(&self->heap->owner));
    uint32_t c = sizeclass_of(64);
    for (uint32_t i = 0; i <= sizeclass_credit_grown(c) + 1; i++) hak_free(hak_malloc(64));
    EXPECT_FALSE(remote_is_pending(&self->heap->owner));
}

// The heap shrinks with that, in steps: a slow path drains DRAIN_SLABS_MAX slabs, once or twice.
TEST_F(Tcache, WhatOthersGaveBackShrinksTheHeapAtTheNextPark)
{
    std::vector<void *> blocks = take(512, 2 * SHRINK_BYTES_MIN / 512);
    void *own = hak_malloc(64);
    test::in_thread([&] { give_back(blocks); });
    ASSERT_FALSE(owner_has_shrunk(&self->heap->owner));
    self->credits[sizeclass_of(64)] = 0;
    const uint64_t drains = self->heap->owner.events[OWNER_EVENT_drains];
    hak_free(own); // parks, and makes the tick
    EXPECT_TRUE(heap_owes(self->heap));
    EXPECT_LE(self->heap->owner.events[OWNER_EVENT_drains], drains + 2 * DRAIN_SLABS_MAX);
    for (int steps = 0; steps < 2 * SHRINK_BYTES_MIN / PAGE_BYTES && heap_owes(self->heap); steps++) {
        self->credits[sizeclass_of(64)] = 0;
        hak_free(hak_malloc(64));
    }
    EXPECT_LT(self->heap->owner.used_bytes_peak, (size_t)SHRINK_BYTES_MIN) << "since the last shrink";
}

TEST_F(Tcache, FlushGivesEverythingBack)
{
    std::vector<void *> blocks;
    for (int round = 0; round < 3; round++)
        for (size_t size : test::all_kinds_of_sizes()) blocks.push_back(hak_malloc(size));
    test::Rng().shuffle(blocks);
    std::vector<void *> kept(blocks.begin(), blocks.begin() + 50);
    give_back({blocks.begin() + 50, blocks.end()});
    hak_purge();
    hak_inspect_report report = test::inspected();
    uint64_t small = 0;
    for (void *b : kept)
        if (hak_malloc_usable_size(b) <= SMALL_BYTES_MAX) small++;
    EXPECT_EQ(report.used_blocks, small);
    if (VALIDATE) EXPECT_EQ(report.live_blocks, small + report.run_count);
    for (uint32_t c = 0; c < CLASS_COUNT; c++) {
        EXPECT_EQ(self->heads[c], nullptr);
        EXPECT_EQ(parking_count(&self->heap->parking[c]), 0);
    }
    for (const stage &each : self->heap->staging.stages) EXPECT_EQ(each.count, 0u);
    give_back(kept);
}

TEST_F(Tcache, FlushTakesWhatOtherThreadsGaveBack)
{
    std::vector<void *> blocks = take(100, 500);
    test::in_thread([&] { give_back(blocks); });
    EXPECT_TRUE(remote_is_pending(&self->heap->owner));
    tcache_flush(self);
    EXPECT_FALSE(remote_is_pending(&self->heap->owner));
    EXPECT_EQ(test::inspected().used_blocks, 0u);
}

TEST_F(Tcache, TheEmptyBinStaysEmpty)
{
    void *blocks[100];
    for (void *&b : blocks) {
        b = hak_malloc(0);
        EXPECT_EQ(hak_malloc_usable_size(b), 16u);
        EXPECT_EQ(self->heads[CLASS_EMPTY], nullptr);
    }
    for (void *b : blocks) hak_free(b);
    EXPECT_EQ(self->heads[CLASS_EMPTY], nullptr);
    for (int i = 0; i < 70000; i++) hak_free(nullptr); // more than the credit of a bin can count
    EXPECT_EQ(self->heads[CLASS_EMPTY], nullptr);
}

TEST_F(Tcache, BusyIsZeroAtRest)
{
    EXPECT_EQ(self->busy.load(), 0u);
    tcache_busy_begin(self);
    tcache_busy_begin(self);
    EXPECT_EQ(self->busy.load(), 2u);
    tcache_busy_end(self);
    tcache_busy_end(self);
    EXPECT_EQ(self->busy.load(), 0u);
}

TEST_F(Tcache, ALoopThatEmptiesItsSlabKeepsIt)
{
    size_t claimed = 0;
    for (int i = 0; i < 1000; i++) {
        give_back(take(32768, 40));
        if (i == 10) claimed = pool_figures().claimed_pages;
        if (i > 10) ASSERT_EQ(pool_figures().claimed_pages, claimed);
    }
}

// OVERFLOWS_MAX: each list in a row that cannot be parked halves the next one, eight times at most, and never below
// sizeclass_credit_least (CREDIT_LEAST blocks where they are large).
TEST_F(Tcache, ListsInARowThatGoBackHalveTheNext)
{
    hak_free(hak_malloc(16)); // the thread has a heap
    for (size_t size : {16u, 64u, 1024u, 32768u}) {
        hak_purge();
        credits_at_first(self);
        uint32_t c = sizeclass_of(size), grown = sizeclass_credit_grown(c);
        for (int round = 0; round < 20; round++) give_back(take(size, 4 * grown)); // longer lists halve more often
        std::vector<void *> blocks = take(size, (MAGAZINES_MAX + 14) * grown);
        std::vector<void *> rest = take(SMALL_BYTES_MAX, blocks.size() * size / SMALL_BYTES_MAX); // no shrink
        self->heap->parking[c].overflows = 0;
        uint32_t lists = 0;
        for (void *each : blocks) {
            uint32_t parked = parking_count(&self->heap->parking[c]), before = self->credits[c];
            bool is_list = self->heads[c] != nullptr, owed = heap_owes_soon(self->heap) || purge_is_owed();
            hak_free(each);
            if (before != 0 || !is_list) continue;
            if (parking_count(&self->heap->parking[c]) == parked) lists++;
            uint32_t halved = self->heap->parking[c].credit >> std::min<uint32_t>(lists, OVERFLOWS_MAX);
            uint32_t credit = std::max(halved, lists == 0 ? 0 : sizeclass_credit_least(c));
            const bool is_short = (owed || purge_is_owed()) && self->credits[c] + 1u == CREDIT_OWING;
            if (is_short) continue;
            ASSERT_EQ(self->credits[c] + 1u, credit) << size << ", after " << lists << " lists";
        }
        EXPECT_GT(lists, OVERFLOWS_MAX + 1u) << size;
        EXPECT_GE(sizeclass_credit_least(c), (uint32_t)CREDIT_LEAST);
        // A parked list that is wanted again ends that.
        blocks = take(size, grown);
        EXPECT_EQ(self->heap->parking[c].overflows, 0) << size;
        give_back(blocks);
        give_back(rest);
    }
}

// PARKED_MIN: a heap with little in use parks 32 lists of all classes together, and one more for each 512 KiB that it
// has given out.
TEST_F(Tcache, ListsOfAllClassesAreBounded)
{
    hak_free(hak_malloc(16)); // the thread has a heap
    hak_purge();
    credits_at_first(self);
    EXPECT_EQ(self->heap->parked, 0u);
    std::vector<void *> blocks;
    uint32_t classes = 12, refused = 0, full = 0, most = 0;
    for (uint32_t c = 1; c <= classes; c++)
        for (void *each : take(sizeclass_bytes(c), sizeclass_credit(c) * (MAGAZINES_MAX + 2))) blocks.push_back(each);
    for (void *each : blocks) {
        uint32_t c = pagemap_tag(each) & TAG_CLASS_MASK;
        const parking &parking = self->heap->parking[c];
        uint32_t parked = self->heap->parked, count = parking_count(&parking), before = self->credits[c];
        bool is_list = self->heads[c] != nullptr;
        size_t bound = PARKED_MIN + (owner_used_bytes(&self->heap->owner) >> PARKED_SHARE_LOG2);
        hak_free(each);
        most = std::max(most, self->heap->parked);
        if (before != 0 || !is_list) continue;
        bool has_room = parked < bound && count < parking.count_max;
        ASSERT_EQ(self->heap->parked, parked + has_room) << "of " << bound;
        full += has_room && parked + 1 == bound;
        refused += parked >= bound && count < parking.count_max;
    }
    EXPECT_GE(most, (uint32_t)PARKED_MIN);
    EXPECT_GT(full, 0u) << "the last place was taken";
    EXPECT_GT(refused, 0u) << "one more was refused";
}

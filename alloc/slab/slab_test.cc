// slab_test.cc: slabs of an owner that the test makes; laws 1 and 3.
#include "base/test_support.h"

#include <algorithm>
#include <set>

extern "C" {
#include "cache/tcache.h"
#include "debug/inspect.h"
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "os/os_fault.h"
#include "slab/take.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
}

namespace {

class Slab : public testing::Test {
  protected:
    void SetUp() override
    {
        // A whole heap, since every registered owner must be the first member of one.
        static struct heap *shared = [] {
            auto *made = static_cast<struct heap *>(aligned_alloc(64, sizeof(struct heap)));
            memset(static_cast<void *>(made), 0, sizeof *made);
            EXPECT_TRUE(owner_register(&made->owner));
            return made;
        }();
        own = &shared->owner;
        own->keeps_empty = true;
        for (uint32_t c = 1; c < CLASS_COUNT; c++) owner_limit_set(own, c, 1); // each keeps one empty slab
        claimed = pool_figures().claimed_pages;
    }
    void TearDown() override
    {
        slab_release_empty(own);
        EXPECT_EQ(own->used_bytes, 0u);
        EXPECT_EQ(pool_figures().claimed_pages, claimed) << "pages were lost";
        inspect();
    }

    static void inspect()
    {
        hak_inspect_report report;
        ASSERT_TRUE(hak_inspect(&report)) << report.broken_law;
    }

    static std::vector<block *> blocks_of(block *list)
    {
        std::vector<block *> blocks;
        for (; list != nullptr; list = list->next) blocks.push_back(list);
        return blocks;
    }

    static std::vector<block *> take_all(slab *s)
    {
        std::vector<block *> all;
        while (!s->full) {
            std::vector<block *> some = blocks_of(slab_take(s));
            EXPECT_FALSE(some.empty());
            all.insert(all.end(), some.begin(), some.end());
        }
        return all;
    }

    owner *own = nullptr;
    size_t claimed = 0;
};

} // namespace

TEST_F(Slab, EveryClassGivesItsBlocks)
{
    test::Rng rng;
    for (uint32_t c = 1; c < CLASS_COUNT; c++) {
        slab *s = slab_make(own, c);
        ASSERT_NE(s, nullptr);
        EXPECT_EQ(own->slabs[c], s);
        EXPECT_FALSE(s->full);
        uint32_t bytes = sizeclass_bytes(c);
        char *start = slab_start(superslab_of(s), s);
        uint32_t colours = sizeclass_colours(c);
        uint32_t align = colours > 1 ? (uint32_t)CACHE_LINE_BYTES : bytes & -bytes;
        size_t slab_bytes = superslab_page_start(superslab_of(s), s) + (size_t)s->page_count * PAGE_BYTES - start;
        EXPECT_EQ(s->page_count, sizeclass_slab_pages(c));
        EXPECT_GE(slab_bytes, (size_t)s->page_count * PAGE_BYTES - (colours - 1) * CACHE_LINE_BYTES);
        EXPECT_EQ(s->capacity, slab_bytes / bytes);

        std::vector<block *> all = take_all(s);
        EXPECT_EQ(all.size(), s->capacity);
        EXPECT_TRUE(s->full) << "it has nothing to give";
        EXPECT_EQ(own->slabs[c], nullptr);
        EXPECT_EQ(s->used_count.load(), s->capacity);
        std::set<block *> distinct(all.begin(), all.end());
        ASSERT_EQ(distinct.size(), all.size());
        for (block *b : all) {
            ptrdiff_t offset = reinterpret_cast<char *>(b) - start;
            ASSERT_GE(offset, 0);
            ASSERT_LE((size_t)offset + bytes, slab_bytes);
            ASSERT_EQ((size_t)offset % bytes, 0u);
            ASSERT_EQ((uintptr_t)b % align, 0u) << "aligned as its class promises";
            ASSERT_EQ(slab_of(b), s);
            ASSERT_EQ(pagemap_tag(b), own->tag | c);
        }
        inspect();
        rng.shuffle(all);
        for (size_t i = 0; i < all.size(); i++) {
            slab_give_back(s, all[i]);
            ASSERT_FALSE(s->full);
            ASSERT_EQ(s->used_count.load(), all.size() - 1 - i);
            if (i % (all.size() / 8 + 1) == 0) inspect();
        }
        EXPECT_EQ(own->slabs[c], s) << "the empty one is kept";
        slab_release_empty(own);
        EXPECT_EQ(own->slabs[c], nullptr);
        EXPECT_EQ(pagemap_tag(start), 0u);
        EXPECT_EQ(pool_figures().claimed_pages, claimed);
    }
}

TEST_F(Slab, BlocksOfOneClassUseEverySetOfTheCache)
{
    for (uint32_t bytes : {128u, 256u, 384u, 512u, 768u, 1024u}) {
        uint32_t c = sizeclass_of(bytes);
        std::vector<slab *> slabs;
        std::set<uintptr_t> lines;
        for (int i = 0; i < 16; i++) {
            slabs.push_back(slab_make(own, c));
            for (block *b : take_all(slabs.back())) lines.insert((uintptr_t)b % 4096 / CACHE_LINE_BYTES);
        }
        EXPECT_EQ(lines.size(), 4096u / CACHE_LINE_BYTES) << bytes;
        for (slab *s : slabs) {
            char *start = slab_start(superslab_of(s), s);
            uint32_t count = s->capacity; // the last block may release the slab
            for (uint32_t i = 0; i < count; i++)
                slab_give_back(s, reinterpret_cast<block *>(start + (size_t)i * bytes));
        }
        slab_release_empty(own);
    }
}

TEST_F(Slab, LawOneAtEveryStep)
{
    test::Rng rng;
    for (uint32_t bytes : {1024u, 3072u, 5120u, 32768u}) {
        uint32_t c = sizeclass_of(bytes);
        std::vector<block *> held;
        for (int step = 0; step < test::rounds(600); step++) {
            if (rng.below(2) == 0) {
                slab *s = own->slabs[c] != nullptr ? own->slabs[c] : slab_make(own, c);
                for (block *b : blocks_of(slab_take(s))) held.push_back(b);
            } else {
                for (size_t n = std::min<size_t>(held.size(), 1 + rng.below(5)); n > 0; n--) {
                    std::swap(held[rng.below(held.size())], held.back());
                    slab_give_back(slab_of(held.back()), held.back());
                    held.pop_back();
                }
            }
            inspect();
        }
        for (block *b : held) slab_give_back(slab_of(b), b);
        slab_release_empty(own);
    }
}

TEST_F(Slab, TakeGivesTheFreeList)
{
    uint32_t c = sizeclass_of(512);
    slab *s = slab_make(own, c);
    std::vector<block *> all = take_all(s);
    for (int i = 0; i < 5; i++) slab_give_back(s, all[(size_t)i]);
    std::vector<block *> again = blocks_of(slab_take(s));
    EXPECT_EQ(std::set<block *>(again.begin(), again.end()), std::set<block *>(all.begin(), all.begin() + 5));
    EXPECT_TRUE(s->full);
    for (block *b : all) slab_give_back(s, b);
}

// What the owner gave back comes out by address, TAKE_MAX blocks or TAKE_BYTES_MAX at a time, whatever the order in which it came.
TEST_F(Slab, WhatTheOwnerGaveBackIsTakenInTheOrderOfTheAddresses)
{
    test::Rng rng(test::seed());
    for (uint32_t c = 1; c < CLASS_COUNT; c++) {
        slab *s = slab_make(own, c);
        std::vector<block *> all = take_all(s);
        for (size_t count : {size_t{1}, size_t{2}, size_t{TAKE_MAX}, size_t{TAKE_MAX} + 1, all.size() - 1}) {
            if (count >= all.size() || count == 0) continue;
            for (size_t i = all.size() - 1; i > 0; i--) std::swap(all[i], all[rng.below(i + 1)]);
            std::vector<block *> expected(all.begin(), all.begin() + (ptrdiff_t)count);
            std::sort(expected.begin(), expected.end());
            for (block *b : std::vector<block *>(all.begin(), all.begin() + (ptrdiff_t)count)) slab_give_back(s, b);
            for (size_t at = 0, end; at < count; at = end) {
                end = std::min(
                    {count, at + TAKE_MAX, at + std::max(size_t{1}, size_t{TAKE_BYTES_MAX} / sizeclass_bytes(c))});
                EXPECT_FALSE(s->full);
                EXPECT_EQ(blocks_of(slab_take(s)),
                          std::vector<block *>(expected.begin() + (ptrdiff_t)at, expected.begin() + (ptrdiff_t)end))
                    << "class " << c << ", " << count << " blocks, from " << at;
                EXPECT_EQ(s->used_count, s->capacity - count + end);
            }
            EXPECT_TRUE(s->full);
        }
        for (block *b : all) slab_give_back(s, b);
        slab_release_empty(own);
    }
}

// A give-back does not touch the block: what the program wrote stays.
TEST_F(Slab, AGiveBackDoesNotTouchTheBlock)
{
    slab *s = slab_make(own, sizeclass_of(64));
    std::vector<block *> all = take_all(s);
    for (block *b : all) b->next = reinterpret_cast<block *>(16);
    for (size_t i = 1; i < all.size(); i++) slab_give_back(s, all[i]);
    for (size_t i = 1; i < all.size(); i++) EXPECT_EQ(all[i]->next, reinterpret_cast<block *>(16));
    EXPECT_EQ(blocks_of(slab_take(s)).size(), size_t{TAKE_MAX});
    while (!s->full) slab_take(s);
    for (block *b : all) slab_give_back(s, b);
}

// A block that came back twice leaves fewer bits than the counts say: a take ends the process, and does not look further.
TEST_F(Slab, ABlockThatCameBackTwiceIsReported)
{
    const auto take = [this](bool one) {
        slab *s = slab_make(own, sizeclass_of(64));
        std::vector<block *> all = take_all(s);
        for (int i = 0; i < 2; i++) slab_give_back(s, all[0]);
        if (one) slab_take_one(s), slab_take_one(s);
        else slab_take(s);
    };
    EXPECT_DEATH(take(false), "free list does not end");
    EXPECT_DEATH(take(true), "free list does not end");
}

TEST_F(Slab, CarvesAPageOfTheSystemAtATime)
{
    for (uint32_t c = 1; c < CLASS_COUNT; c++) {
        pool_purge_all(); // only fresh memory is carved
        own->has_limit = true; // a page, however much the class has in use
        slab *s = slab_make(own, c);
        std::vector<block *> all;
        std::set<uintptr_t> pages; // carved so far
        while (s->carved_count < s->capacity) {
            std::vector<block *> some = blocks_of(slab_take(s));
            ASSERT_EQ(some.size() + all.size(), s->carved_count);
            uintptr_t page = (uintptr_t)some[0] / CARVE_BYTES;
            for (block *b : some) ASSERT_EQ((uintptr_t)b / CARVE_BYTES, page) << "class " << c;
            ASSERT_TRUE(pages.insert(page).second) << "class " << c << ": a page is carved whole";
            all.insert(all.end(), some.begin(), some.end());
        }
        ASSERT_EQ(std::set<block *>(all.begin(), all.end()).size(), s->capacity);
        for (block *b : all) slab_give_back(s, b);
        slab_release_empty(own);
        own->has_limit = false;
    }
}

// A class that has CARVE_MUCH_BYTES in use carves TAKE_BYTES_MAX at a time, and each block once.
TEST_F(Slab, CarvesMoreOnceAClassHasMuch)
{
    for (size_t bytes : {16, 48, 1024, 3072, 8192}) {
        pool_purge_all();
        const uint32_t c = sizeclass_of(bytes);
        std::set<block *> distinct;
        size_t blocks = 0, longest = 0;
        while (blocks * bytes < 4 * CARVE_MUCH_BYTES) {
            const slab *s = slab_make(own, c);
            while (!s->full) {
                const bool is_much = blocks * bytes >= CARVE_MUCH_BYTES;
                const std::vector<block *> some = blocks_of(slab_take(own->slabs[c]));
                const size_t most = is_much ? TAKE_BYTES_MAX : CARVE_BYTES;
                EXPECT_LT((some.size() - 1) * bytes, most) << bytes;
                if (is_much) longest = std::max(longest, some.size());
                distinct.insert(some.begin(), some.end());
                blocks += some.size();
            }
            EXPECT_EQ(s->used_count, s->capacity);
        }
        EXPECT_GT((longest + 2) * bytes, size_t{TAKE_BYTES_MAX}) << bytes;
        EXPECT_EQ(distinct.size(), blocks);
        for (block *b : distinct) slab_give_back(slab_of(b), b);
        slab_release_empty(own);
    }
}

TEST_F(Slab, ListsAreGivenBack)
{
    uint32_t c = sizeclass_of(64);
    slab *s = slab_make(own, c);
    std::vector<block *> all = take_all(s);
    auto link = [&](size_t first, size_t count) {
        for (size_t i = 0; i < count; i++) all[first + i]->next = i + 1 < count ? all[first + i + 1] : nullptr;
        return all[first];
    };
    slab_give_back_list(s, link(0, 1), nullptr, 1); // the slab has no list yet
    slab_give_back_list(s, link(1, 9), all[9], 9);
    inspect();
    EXPECT_EQ(blocks_of(s->free).size(), 10u);
    EXPECT_EQ(s->linked_count, 10u);
    EXPECT_EQ(s->used_count.load(), all.size() - 10);
    slab_give_back(s, all[10]); // beside the list
    inspect();
    EXPECT_EQ(blocks_of(slab_take(s)).size(), 10u) << "the list first";
    EXPECT_EQ(blocks_of(slab_take(s)).size(), 1u);
    slab_give_back_list(s, link(0, all.size()), nullptr, (uint32_t)all.size());
    EXPECT_EQ(s->used_count.load(), 0u);
    EXPECT_EQ(blocks_of(s->free).size(), all.size());
}

TEST_F(Slab, OneEmptySlabIsKeptAndStandsLast)
{
    uint32_t c = sizeclass_of(4096);
    std::vector<slab *> slabs;
    std::vector<std::vector<block *>> blocks;
    for (int i = 0; i < 4; i++) {
        slabs.push_back(slab_make(own, c));
        blocks.push_back(take_all(slabs.back()));
    }
    size_t with_all = pool_figures().claimed_pages;
    // One block of each of the first two slabs goes back: both are listed, neither is empty.
    for (size_t i : {0u, 1u}) {
        slab_give_back(slabs[i], blocks[i].back());
        blocks[i].pop_back();
    }
    auto empty = [&](size_t i) {
        for (block *b : blocks[i]) slab_give_back(slabs[i], b);
    };
    empty(2);
    EXPECT_EQ(own->slabs[c]->prev, slabs[2]) << "the empty one is last";
    EXPECT_NE(own->slabs[c], slabs[2]);
    EXPECT_EQ(pool_figures().claimed_pages, with_all) << "and is kept";
    empty(0);
    EXPECT_EQ(pool_figures().claimed_pages, with_all - 1) << "a second one is not";
    EXPECT_EQ(own->slabs[c]->prev, slabs[2]);
    empty(3);
    EXPECT_EQ(pool_figures().claimed_pages, with_all - 2);
    inspect();
    EXPECT_EQ(own->slabs[c], slabs[1]);
    slab_release_empty(own);
    EXPECT_EQ(own->slabs[c], slabs[1]) << "it has blocks in use";
    EXPECT_EQ(slabs[1]->next, slabs[1]);
    EXPECT_EQ(pool_figures().claimed_pages, with_all - 3);
    empty(1);
}

TEST_F(Slab, AFullSlabComesBackFirst)
{
    uint32_t c = sizeclass_of(2048);
    slab *first = slab_make(own, c);
    std::vector<block *> of_first = take_all(first);
    slab *second = slab_make(own, c);
    std::vector<block *> of_second = take_all(second);
    slab *third = slab_make(own, c);
    slab_give_back(first, of_first.back());
    EXPECT_EQ(own->slabs[c], first);
    slab_give_back(second, of_second.back());
    EXPECT_EQ(own->slabs[c], second);
    EXPECT_EQ(second->next, first);
    EXPECT_EQ(first->next, third);
    EXPECT_EQ(third->next, second);
    of_first.pop_back();
    of_second.pop_back();
    for (block *b : of_first) slab_give_back(first, b);
    for (block *b : of_second) slab_give_back(second, b);
    EXPECT_EQ(own->slabs[c], third) << "it was empty and last all the time";
}

TEST_F(Slab, CarvingStartsElsewhereInEachSlab)
{
    for (size_t bytes : {(size_t)64, (size_t)3584}) { // no block of 3584 bytes starts in a slab's last part
        uint32_t c = sizeclass_of(bytes);
        ASSERT_EQ(sizeclass_bytes(c), bytes);
        std::set<uint32_t> lines; // of a cache of 4 KiB ways
        pool_purge_all();
        std::vector<std::pair<slab *, std::vector<block *>>> all;
        for (int i = 0; i < 32; i++) {
            slab *s = slab_make(own, c);
            ASSERT_LT(s->carve_start, s->capacity);
            std::vector<block *> blocks = take_all(s);
            lines.insert((uint32_t)((uintptr_t)blocks[0] % 4096 / 64));
            all.emplace_back(s, blocks);
        }
        EXPECT_GT(lines.size(), bytes == 64 ? 16u : 4u) << bytes;
        for (auto &[s, blocks] : all)
            for (block *b : blocks) slab_give_back(s, b);
    }
}

TEST_F(Slab, NoMemory)
{
    std::vector<page_range> rest;
    while (pool_figures().superslab_count * SUPERSLAB_PAGES > pool_figures().claimed_pages)
        rest.push_back(pool_claim(1, 1, false));
    os_fault_install(1, true);
    EXPECT_EQ(slab_make(own, 1), nullptr);
    EXPECT_EQ(own->slabs[1], nullptr);
    os_fault_remove();
    for (const page_range &range : rest) pool_free(range.superslab, range.first, 1, 1);
}

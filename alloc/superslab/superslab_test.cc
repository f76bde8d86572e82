// superslab_test.cc: claims and frees in a superslab that the test makes; law 7.
#include "base/test_support.h"

#include <memory>

extern "C" {
#include "base/bits.h"
#include "base/sync_point.h"
#include "os/os.h"
#include "os/os_fault.h"
#include "superslab/superslab.h"
}

namespace {

class Superslab : public testing::Test {
  protected:
    void SetUp() override
    {
        s.base = static_cast<char *>(os->reserve(nullptr, SUPERSLAB_BYTES, SUPERSLAB_BYTES));
        ASSERT_NE(superslab_base(&s), nullptr);
        ASSERT_EQ(os->commit(superslab_base(&s), SUPERSLAB_BYTES), 0);
        s.free_pages = ~0ull;
    }
    void TearDown() override { EXPECT_EQ(os->release(superslab_base(&s), SUPERSLAB_BYTES), 0); }

    int claim(uint32_t pages, uint32_t align_pages = 1, bool from_top = false, uint32_t room_pages = 0)
    {
        page_need need{.pages = pages,
                       .align_pages = align_pages,
                       .room_pages = room_pages,
                       .from_top = from_top,
                       .at_limit = false,
                       .dirty_only = false,
                       .block_bytes = 0};
        int first = superslab_claim(&s, &need, &contended);
        if (first >= 0) zero = (s.dirty_pages & bits_range((uint32_t)first, pages)) == 0; // law 7
        return first;
    }
    static uint32_t purged(superslab *at, uint64_t wanted)
    {
        uint32_t calls = UINT32_MAX;
        return superslab_purge(at, wanted, &calls);
    }
    char *page(uint32_t index) { return superslab_base(&s) + (size_t)index * PAGE_BYTES; }

    std::unique_ptr<superslab> memory = std::make_unique<superslab>();
    superslab &s = *memory;
    bool zero = false, contended = false;
};

} // namespace

TEST_F(Superslab, ClaimFromBothEnds)
{
    EXPECT_EQ(claim(1), 0);
    EXPECT_TRUE(zero);
    EXPECT_EQ(claim(4), 1);
    EXPECT_EQ(claim(1, 1, true), 63);
    EXPECT_EQ(claim(8, 1, true), 55);
    EXPECT_EQ(s.free_pages.load(), ~(bits_range(0, 5) | bits_range(55, 9)));
    EXPECT_EQ(claim(50), 5);
    EXPECT_EQ(s.free_pages.load(), 0u);
}

// Between the look at a page and its claim another thread had the page and has written to it: its bits in free_pages are as
// before, so that the claim succeeds, but the page is not zero any more.
TEST_F(Superslab, WhatAnotherThreadDirtiedInBetweenIsNotZero)
{
    SKIP_WITHOUT_VALIDATE(); // a hook acts as the other thread
    static superslab *shared;
    shared = &s;
    hak_sync_point_hook = [](const char *step) {
        if (strcmp(step, "superslab_claim") != 0) return;
        hak_sync_point_hook = nullptr;
        ASSERT_TRUE(superslab_claim_at(shared, 0, 1));
        superslab_free(shared, 0, 1, true);
    };
    EXPECT_EQ(claim(1), 0);
    EXPECT_EQ(hak_sync_point_hook, nullptr);
    EXPECT_FALSE(zero);
}

// A search for each length begins at its level, of which there are HINT_LEVELS.
TEST_F(Superslab, EveryLengthAndAlignment)
{
    for (uint32_t align = 1; align <= SUPERSLAB_PAGES; align *= 2)
        for (uint32_t pages = 1; pages <= SUPERSLAB_PAGES; pages++)
            for (bool from_top : {false, true}) {
                s.free_pages = ~0ull;
                int expected = from_top ? (int)((SUPERSLAB_PAGES - pages) / align * align) : 0;
                ASSERT_EQ(claim(pages, align, from_top), expected);
                ASSERT_EQ(s.free_pages.load(), ~bits_range((uint32_t)expected, pages));
                s.free_pages = ~0ull & ~1ull; // the first page is taken
                int first = claim(pages, align, false);
                ASSERT_EQ(first, align + pages <= SUPERSLAB_PAGES ? (int)align : -1);
            }
}

TEST_F(Superslab, FullRefuses)
{
    EXPECT_EQ(claim(64), 0);
    EXPECT_EQ(claim(1), -1);
    EXPECT_EQ(claim(1, 1, true), -1);
    superslab_free(&s, 10, 3, false);
    superslab_free(&s, 20, 3, false);
    EXPECT_EQ(claim(4), -1) << "enough pages, but not in a row";
    EXPECT_EQ(claim(3, 4), 20) << "10 is no multiple of 4";
    EXPECT_EQ(claim(3), 10);
}

TEST_F(Superslab, FreeJoinsNeighbours)
{
    ASSERT_EQ(claim(64), 0);
    for (uint32_t i : {33u, 30u, 32u, 31u}) superslab_free(&s, i, 1, false);
    EXPECT_EQ(claim(5), -1);
    EXPECT_EQ(claim(4), 30);
}

TEST_F(Superslab, DirtyPagesArePreferred)
{
    s.dirty_pages = bits_range(20, 2) | bits_range(40, 4);
    EXPECT_EQ(claim(1), 20);
    EXPECT_FALSE(zero);
    EXPECT_EQ(claim(4, 1, true), 40);
    EXPECT_FALSE(zero);
    EXPECT_EQ(claim(2), 0) << "no two dirty ones in a row are left";
    EXPECT_TRUE(zero);
    s.dirty_pages = bits_range(3, 1);
    s.free_pages = bits_range(2, 3);
    EXPECT_EQ(claim(3), 2);
    EXPECT_FALSE(zero) << "one of three is dirty";
}

TEST_F(Superslab, RoomStaysFreeBehindTheClaim)
{
    EXPECT_EQ(claim(4, 1, true, 4), 56);
    EXPECT_EQ(s.free_pages.load(), ~bits_range(56, 4)) << "the room is not claimed";
    EXPECT_EQ(claim(4, 1, true, 5), 47) << "4 pages and 5 of room end before 56";
    EXPECT_EQ(claim(8, 8, false, 8), 0);
    s.dirty_pages = bits_range(60, 4) | bits_range(20, 4);
    EXPECT_EQ(claim(2, 1, true, 2), 60) << "dirty, and the last two give room";
    EXPECT_EQ(claim(2, 1, true, 2), 22) << "of the dirty ones; 62 has no room behind it";
    s.free_pages = bits_range(0, 5);
    EXPECT_EQ(claim(3, 1, true, 3), -1);
    EXPECT_EQ(s.free_pages.load(), bits_range(0, 5)) << "a refusal claims nothing";
    EXPECT_EQ(claim(3, 1, true, 2), 0);
}

TEST_F(Superslab, ClaimAt)
{
    EXPECT_TRUE(superslab_claim_at(&s, 5, 3));
    EXPECT_FALSE(superslab_claim_at(&s, 7, 1));
    EXPECT_FALSE(superslab_claim_at(&s, 4, 2));
    EXPECT_EQ(s.free_pages.load(), ~bits_range(5, 3)) << "a refusal claims nothing";
    EXPECT_TRUE(superslab_claim_at(&s, 4, 1));
    EXPECT_TRUE(superslab_claim_at(&s, 63, 1));
    EXPECT_FALSE(superslab_claim_at(&s, 62, 3)) << "beyond the end";
    EXPECT_FALSE(superslab_claim_at(&s, 64, 1));
    EXPECT_TRUE(superslab_claim_at(&s, 8, 55));
}

TEST_F(Superslab, FreeMarksDirtyAndNotCold)
{
    ASSERT_EQ(claim(4), 0);
    s.cold_pages = ~0ull;
    superslab_free(&s, 0, 2, true);
    EXPECT_EQ(s.dirty_pages.load(), bits_range(0, 2));
    EXPECT_EQ(s.cold_pages.load(), ~bits_range(0, 2));
    superslab_free(&s, 2, 2, false);
    EXPECT_EQ(s.dirty_pages.load(), bits_range(0, 2));
    ASSERT_TRUE(superslab_claim_at(&s, 0, 2));
    s.cold_pages = ~0ull;
    superslab_free(&s, 0, 2, true);
    EXPECT_EQ(s.cold_pages.load(), ~bits_range(0, 2)) << "they were dirty, and have been used again";
}

TEST_F(Superslab, ThreadsThatFreeSideBySideKeepEachOthersMarks)
{
    test::in_threads(4, [this](int thread) {
        for (int i = 0; i < test::rounds(500000) && !HasFailure(); i++) {
            uint32_t index = 16 * (uint32_t)thread + (uint32_t)i % 16;
            uint64_t bit = 1ull << index;
            ASSERT_TRUE(superslab_claim_at(&s, index, 1));
            s.dirty_pages &= ~bit;
            s.cold_pages |= bit;
            superslab_free(&s, index, 1, true);
            ASSERT_NE(s.free_pages & bit, 0u);
            ASSERT_NE(s.dirty_pages & bit, 0u);
            ASSERT_EQ(s.cold_pages & bit, 0u);
        }
    });
}

TEST_F(Superslab, PurgeTakesOnlyFreeDirtyPages)
{
    for (uint32_t i = 0; i < 64; i++) *page(i) = 1;
    s.dirty_pages = bits_range(0, 32);
    ASSERT_TRUE(superslab_claim_at(&s, 8, 2));
    // Pages 8 and 9 are in use, so the whole row around them is refused; pages 32 to 39 are not dirty.
    EXPECT_EQ(purged(&s, bits_range(0, 4) | bits_range(6, 6) | bits_range(30, 10)), 6u);
    EXPECT_EQ(s.dirty_pages.load(), bits_range(4, 26));
    EXPECT_EQ(s.free_pages.load(), ~bits_range(8, 2)) << "given back";
    for (uint32_t i : {0u, 3u, 30u, 31u}) EXPECT_EQ(*page(i), 0);
    for (uint32_t i : {4u, 8u, 9u, 10u, 29u}) EXPECT_EQ(*page(i), 1);
    EXPECT_EQ(purged(&s, 0), 0u);
    EXPECT_EQ(purged(&s, bits_range(40, 24)), 0u) << "all clean";
}

TEST_F(Superslab, PurgeOfAll)
{
    for (uint32_t i = 0; i < 64; i++) *page(i) = 1;
    s.dirty_pages = ~0ull;
    EXPECT_EQ(purged(&s, ~0ull), 64u);
    EXPECT_EQ(s.dirty_pages.load(), 0u);
    EXPECT_EQ(s.free_pages.load(), ~0ull);
    for (uint32_t i = 0; i < 64; i++) EXPECT_EQ(*page(i), 0);
}

TEST_F(Superslab, PurgeThatFailsLeavesThePagesDirty)
{
    s.dirty_pages = bits_range(0, 4) | bits_range(8, 4);
    os_fault_install(1, false);
    EXPECT_EQ(purged(&s, ~0ull), 0u);
    os_fault_remove();
    EXPECT_EQ(s.dirty_pages.load(), bits_range(0, 4) | bits_range(8, 4));
    EXPECT_EQ(s.free_pages.load(), ~0ull);
    // Rows that are refused, since they are locked, say, do not keep the next ones from going: neither by themselves, nor with the
    // clean pages between them.
    static const char *locked;
    static const os_ops *inner;
    inner = os;
    locked = page(8);
    os_ops refusing = *os;
    refusing.purge = [](void *start, size_t size_bytes) {
        const char *at = static_cast<const char *>(start);
        return at <= locked && locked < at + size_bytes ? EINVAL : inner->purge(start, size_bytes);
    };
    os = &refusing;
    EXPECT_EQ(purged(&s, s.dirty_pages), 4u);
    os = inner;
    EXPECT_EQ(s.dirty_pages.load(), bits_range(8, 4));
    EXPECT_EQ(purged(&s, ~0ull), 4u);
}

// One call takes rows with nothing but clean free pages between them, and no call takes a page in use.
TEST_F(Superslab, APurgeMakesACallForEachRowOfFreePages)
{
    test::Rng rng;
    for (int round = 0; round < test::rounds(2000); round++) {
        s.free_pages = rng.next() | rng.next();
        s.dirty_pages = rng.next() & rng.next();
        const uint64_t idle = s.free_pages & s.dirty_pages, wanted = round % 2 != 0 ? idle : idle & rng.next();
        uint32_t rows = 0;
        bool is_in_row = false;
        for (uint32_t i = 0; i < SUPERSLAB_PAGES; i++) {
            const bool is_wanted = (wanted >> i & 1) != 0;
            const bool is_clean = (s.free_pages >> i & 1) != 0 && (s.dirty_pages >> i & 1) == 0;
            rows += is_wanted && !is_in_row;
            is_in_row = is_wanted || (is_in_row && is_clean);
        }
        const uint64_t free_pages = s.free_pages, dirty_pages = s.dirty_pages;
        const uint32_t may = (uint32_t)rng.below(2) != 0 ? UINT32_MAX : (uint32_t)rng.below(rows + 1);
        uint32_t calls = may;
        const uint32_t pages = superslab_purge(&s, wanted, &calls);
        EXPECT_EQ(may - calls, std::min(rows, may));
        EXPECT_EQ(s.free_pages.load(), free_pages);
        EXPECT_EQ(s.dirty_pages & ~dirty_pages, 0u);
        EXPECT_EQ(dirty_pages & ~s.dirty_pages & ~wanted, 0u);
        EXPECT_EQ((uint32_t)__builtin_popcountll(dirty_pages & ~s.dirty_pages), pages);
        if (may >= rows) EXPECT_EQ(s.dirty_pages & wanted, 0u);
    }
    s.free_pages = ~0ull;
    s.dirty_pages = 0;
}

TEST_F(Superslab, Law7OverRandomSteps)
{
    struct Run {
        uint32_t first, pages;
        bool written;
    };
    test::Rng rng;
    std::vector<Run> runs;
    constexpr size_t STEP = 8192;
    for (int step = 0; step < test::rounds(20000); step++) {
        switch (rng.below(8)) {
        case 0: purged(&s, rng.next()); break;
        case 1:
        case 2:
        case 3: {
            uint32_t pages = (uint32_t)rng.between(1, 12);
            uint32_t align = 1u << rng.below(4);
            int first = claim(pages, align, rng.below(2) != 0);
            if (first < 0) break;
            ASSERT_EQ((uint32_t)first % align, 0u);
            for (const Run &run : runs)
                ASSERT_TRUE((uint32_t)first + pages <= run.first || run.first + run.pages <= (uint32_t)first);
            if (zero) {
                ASSERT_TRUE(test::is_zero(page((uint32_t)first), pages * PAGE_BYTES, STEP));
            }
            bool write = rng.below(3) != 0;
            if (write) test::pattern_fill(page((uint32_t)first), pages * PAGE_BYTES, 1, STEP);
            // Not written, but not zero either, so it counts as dirty.
            runs.push_back({(uint32_t)first, pages, write || !zero});
            break;
        }
        default:
            if (runs.empty()) break;
            size_t i = rng.below(runs.size());
            superslab_free(&s, runs[i].first, runs[i].pages, runs[i].written);
            runs[i] = runs.back();
            runs.pop_back();
        }
    }
    for (const Run &run : runs) superslab_free(&s, run.first, run.pages, run.written);
    EXPECT_EQ(s.free_pages.load(), ~0ull);
    for (uint32_t i = 0; i < 64; i++)
        if ((s.dirty_pages.load() >> i & 1) == 0) EXPECT_TRUE(test::is_zero(page(i), PAGE_BYTES, STEP));
}

TEST_F(Superslab, ThreadsNeverShareAPage)
{
    static std::atomic<int> holders[SUPERSLAB_PAGES];
    static std::atomic<int> shared, claims;
    shared = claims = 0;
    test::in_threads(4, [this](int thread) {
        test::Rng rng((uint64_t)thread);
        std::vector<std::pair<uint32_t, uint32_t>> mine;
        for (int i = 0; i < test::rounds(20000); i++) {
            if (mine.size() < 4 && rng.below(2) == 0) {
                uint32_t pages = (uint32_t)rng.between(1, 8);
                bool own_contended = false;
                page_need need{.pages = pages,
                               .align_pages = 1u << rng.below(3),
                               .room_pages = (uint32_t)rng.below(4),
                               .from_top = rng.below(2) != 0,
                               .at_limit = false,
                               .dirty_only = false,
                               .block_bytes = 0};
                int first = superslab_claim(&s, &need, &own_contended);
                if (first < 0) continue;
                claims++;
                for (uint32_t p = 0; p < pages; p++)
                    if (holders[(uint32_t)first + p].exchange(thread + 1) != 0) shared++;
                mine.emplace_back(first, pages);
            } else if (rng.below(16) == 0) {
                purged(&s, rng.next());
            } else if (!mine.empty()) {
                auto [first, pages] = mine.back();
                mine.pop_back();
                for (uint32_t p = 0; p < pages; p++)
                    if (holders[first + p].exchange(0) != thread + 1) shared++;
                superslab_free(&s, first, pages, rng.below(2) != 0);
            }
        }
        for (auto [first, pages] : mine) {
            for (uint32_t p = 0; p < pages; p++) holders[first + p] = 0;
            superslab_free(&s, first, pages, true);
        }
    });
    EXPECT_EQ(shared, 0);
    EXPECT_GT(claims, 1000);
    EXPECT_EQ(s.free_pages.load(), ~0ull);
}

TEST_F(Superslab, DescriptorsFindTheirWay)
{
    slab *first = &s.slabs[10];
    first->page_index = 10;
    for (uint32_t i = 0; i < 4; i++) s.slabs[10 + i].page_offset = (uint8_t)i;
    EXPECT_EQ(superslab_of(first), &s);
    EXPECT_EQ(superslab_page_start(&s, first), page(10));
    EXPECT_EQ(superslab_slab_of(&s, page(10)), first);
    EXPECT_EQ(superslab_slab_of(&s, page(14) - 1), first);
    EXPECT_EQ(superslab_slab_of(&s, page(14)), &s.slabs[14]);
}

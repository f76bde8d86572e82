// pool_test.cc: the search for pages over many superslabs, and the purge, by one thread. pool_threads_test.cc has
// those that meet.
#include "superslab/pool_test_support.h"

#include <cerrno>
#include <set>

extern "C" {
#include "os/os.h"
#include "os/os_fault.h"
#include "superslab/limit.h"
#include "superslab/pagemap.h"
}

namespace {

using test::claim;
using test::Claimed;
using test::free_run;
using test::start_of;
using test::touch;

size_t dirty_max()
{
    return std::max<size_t>(DIRTY_PAGES_MIN, pool_figures().claimed_pages >> DIRTY_SHARE_LOG2);
}

class Pool : public test::PoolTest {};

} // namespace

TEST_F(Pool, ManyRuns)
{
    std::vector<Claimed> runs;
    std::set<superslab *> seen;
    size_t claimed = before.claimed_pages;
    for (int i = 0; i < 60; i++) {
        for (uint32_t pages : {32u, 7u, 1u, 20u}) {
            runs.push_back(claim(pages, 1, pages != 1));
            claimed += pages;
            seen.insert(runs.back().range.superslab);
        }
        ASSERT_EQ(pool_figures().claimed_pages, claimed);
    }
    EXPECT_GE(seen.size(), 60u * 60 / SUPERSLAB_PAGES);
    EXPECT_LE(seen.size(), 60u * 60 / SUPERSLAB_PAGES + 8) << "gaps are filled";
    std::vector<std::pair<char *, char *>> ranges;
    for (const Claimed &run : runs)
        ranges.emplace_back(start_of(run.range), start_of(run.range) + run.pages * PAGE_BYTES);
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 1; i < ranges.size(); i++) ASSERT_LE(ranges[i - 1].second, ranges[i].first);
    for (superslab *s : seen) EXPECT_EQ(pagemap_descriptor(superslab_base(s)), s);

    test::Rng().shuffle(runs);
    for (const Claimed &run : runs) {
        free_run(run);
        claimed -= run.pages;
        ASSERT_EQ(pool_figures().claimed_pages, claimed);
        ASSERT_LE(pool_figures().dirty_pages, dirty_max());
    }
}

TEST_F(Pool, EveryAlignment)
{
    for (uint32_t align = 1; align <= SUPERSLAB_PAGES; align *= 2)
        for (uint32_t pages : {1u, 3u, 32u, 64u}) {
            Claimed first = claim(pages, align), second = claim(pages, align, false);
            EXPECT_TRUE(test::is_aligned(start_of(first.range), (size_t)align * PAGE_BYTES));
            EXPECT_TRUE(test::is_aligned(start_of(second.range), (size_t)align * PAGE_BYTES));
            free_run(first);
            free_run(second);
        }
}

TEST_F(Pool, EmptySuperslabsBeyondTheLimitAreReleased)
{
    std::vector<Claimed> runs;
    for (int i = 0; i < EMPTY_SUPERSLABS_MIN + 16; i++) runs.push_back(claim(64));
    size_t at_most = pool_figures().superslab_count;
    EXPECT_GE(at_most, (size_t)EMPTY_SUPERSLABS_MIN + 16);
    for (const Claimed &run : runs) free_run(run);
    pool_purge_all();
    EXPECT_LE(pool_figures().superslab_count, before.claimed_pages + EMPTY_SUPERSLABS_MIN);
    EXPECT_GE(pool_figures().superslab_count, (size_t)EMPTY_SUPERSLABS_MIN) << "some are kept";
    uint32_t present = 0;
    pool_for_each(
        [](superslab *s, void *context) {
            EXPECT_NE(superslab_base(s), nullptr);
            ++*static_cast<uint32_t *>(context);
        },
        &present);
    EXPECT_EQ(present, pool_figures().superslab_count);
    // The descriptors are used again.
    runs.clear();
    for (int i = 0; i < EMPTY_SUPERSLABS_MIN + 16; i++) {
        runs.push_back(claim(64));
        EXPECT_EQ(*start_of(runs.back().range), 0);
    }
    for (const Claimed &run : runs) free_run(run);
}

// The books of superslabs are kept in chunks of 64: the last of the first chunk, the first of the second, and the first of
// a third. No memory is touched, only address space.
TEST_F(Pool, BooksOfMoreThanTwoChunks)
{
    constexpr size_t CHUNK = 64, MOST = 2 * CHUNK + 1;
    std::vector<Claimed> runs;
    std::set<char *> bases;
    std::set<uint32_t> indices;
    const size_t at_first = pool_figures().superslab_count; // they are free: the first claims take them
    while (runs.size() < MOST) {
        runs.push_back(claim(SUPERSLAB_PAGES));
        bases.insert(start_of(runs.back().range));
        indices.insert(runs.back().range.superslab->index);
        ASSERT_EQ(bases.size(), runs.size());
        ASSERT_EQ(indices.size(), runs.size());
        ASSERT_EQ(pool_figures().superslab_count, std::max(at_first, runs.size()));
    }
    EXPECT_EQ(*indices.rbegin(), MOST - 1) << "the lowest free books are taken";
    std::vector<uint32_t> up, down;
    auto note = [](superslab *s, void *seen) { static_cast<std::vector<uint32_t> *>(seen)->push_back(s->index); };
    pool_for_each(note, &up);
    EXPECT_EQ(up, std::vector<uint32_t>(indices.begin(), indices.end()));
    auto note_three = [](superslab *s, void *seen) {
        static_cast<std::vector<uint32_t> *>(seen)->push_back(s->index);
        return static_cast<std::vector<uint32_t> *>(seen)->size() < 3;
    };
    pool_for_each_below(POOL_TOP, note_three, &down);
    EXPECT_EQ(down, (std::vector<uint32_t>{MOST - 1, MOST - 2, MOST - 3}));
    // Free ones are found in each chunk, and no superslab is made meanwhile.
    for (size_t which : {CHUNK - 1, CHUNK, MOST - 1}) free_run(runs[which]);
    for (size_t which : {CHUNK - 1, CHUNK, MOST - 1}) {
        runs[which] = claim(SUPERSLAB_PAGES);
        EXPECT_EQ(bases.count(start_of(runs[which].range)), 1u);
    }
    EXPECT_EQ(pool_figures().superslab_count, MOST);
    for (const Claimed &run : runs) free_run(run);
    pool_purge_all();
    EXPECT_EQ(pool_figures().superslab_count, (size_t)EMPTY_SUPERSLABS_MIN);
    // The books of those that are gone serve again, in each chunk.
    for (Claimed &run : runs) EXPECT_LT((run = claim(SUPERSLAB_PAGES)).range.superslab->index, MOST);
    for (const Claimed &run : runs) free_run(run);
}

TEST_F(Pool, DirtyIsBoundedAndPurgeAllEndsIt)
{
    std::vector<Claimed> runs;
    for (int i = 0; i < 40; i++) {
        runs.push_back(claim(16));
        *start_of(runs.back().range) = 1;
    }
    for (const Claimed &run : runs) {
        free_run(run);
        ASSERT_LE(pool_figures().dirty_pages, dirty_max());
    }
    size_t dirty = pool_figures().dirty_pages;
    EXPECT_GT(dirty, 0u) << "some is kept for reuse";
    EXPECT_EQ(pool_purge_all(), dirty * PAGE_BYTES);
    EXPECT_EQ(pool_figures().dirty_pages, 0u);
    EXPECT_EQ(pool_purge_all(), 0u);
    Claimed run = claim(16);
    EXPECT_EQ(run.range.dirty, 0u);
    EXPECT_EQ(*start_of(run.range), 0) << "law 7";
    free_run(run);
}

TEST_F(Pool, ReusesDirtyPagesAndSaysSo)
{
    Claimed run = claim(8);
    touch(run);
    free_run(run);
    EXPECT_EQ(pool_figures().dirty_pages, 8u);
    Claimed again = claim(8);
    EXPECT_EQ(start_of(again.range), start_of(run.range));
    EXPECT_EQ(again.range.dirty, 0xffu);
    EXPECT_EQ(pool_figures().dirty_pages, 0u);
    free_run(again);
}

TEST_F(Pool, PagesFreedSinglyAreFoundAsARun)
{
    test::Rng rng;
    for (uint32_t pages = 1; pages <= 64; pages *= 2) {
        // Every superslab is full, so that only the pages freed here can serve a claim.
        std::vector<Claimed> rest;
        Claimed full = claim(64);
        while (pool_figures().superslab_count * SUPERSLAB_PAGES > pool_figures().claimed_pages)
            rest.push_back(claim(1));
        size_t superslabs = pool_figures().superslab_count;
        std::vector<uint32_t> order;
        uint32_t first = (64 - pages) / 2;
        for (uint32_t i = 0; i < pages; i++) order.push_back(first + i);
        rng.shuffle(order);
        for (uint32_t page : order) {
            if (page == order.back() && pages > 1) {
                // One page is missing: the search finds nothing here and lowers the superslab's word.
                rest.push_back(claim(pages));
                ASSERT_NE(rest.back().range.superslab, full.range.superslab);
                if (pages < 64) rest.push_back(claim(64 - pages)); // fills the new superslab
                superslabs = pool_figures().superslab_count;
            }
            pool_free(full.range.superslab, page, 1, 0);
        }
        Claimed found = claim(pages);
        EXPECT_EQ(found.range.superslab, full.range.superslab);
        EXPECT_EQ(found.range.first, first);
        EXPECT_EQ(pool_figures().superslab_count, superslabs) << "a new one was made for nothing";
        free_run(full);
        for (const Claimed &run : rest) free_run(run);
        pool_purge_all();
    }
}

TEST_F(Pool, Extend)
{
    Claimed run = claim(64);
    superslab *s = run.range.superslab;
    pool_free(s, run.range.first + 20, 10, 0);
    EXPECT_FALSE(pool_extend(s, 0, 20, 31)) << "one page too many";
    EXPECT_TRUE(pool_extend(s, 0, 20, 25));
    EXPECT_FALSE(pool_extend(s, 0, 20, 25)) << "taken";
    EXPECT_TRUE(pool_extend(s, 0, 25, 30));
    EXPECT_FALSE(pool_extend(s, 60, 4, 5)) << "beyond the superslab";
    EXPECT_EQ(pool_figures().claimed_pages, before.claimed_pages + 64);
    EXPECT_EQ(pool_figures().dirty_pages, 0u);
    free_run(run);
}

// A run that grows in place claims memory like any other, up to the limit to the byte.
TEST_F(Pool, ExtendAtTheLimit)
{
    Claimed run = claim(64);
    superslab *s = run.range.superslab;
    pool_free(s, 20, 10, 0);
    pool_purge_all();
    limit_set(limit_committed_bytes() + 5 * PAGE_BYTES);
    EXPECT_FALSE(pool_extend(s, 0, 20, 26));
    EXPECT_EQ(pool_figures().claimed_pages, before.claimed_pages + 54);
    EXPECT_TRUE(pool_extend(s, 0, 20, 25));
    EXPECT_FALSE(pool_extend(s, 0, 25, 26));
    limit_set(SIZE_MAX);
    EXPECT_TRUE(pool_extend(s, 0, 25, 30));
    free_run(run);
}

TEST_F(Pool, DelayZeroPurgesAtOnce)
{
    pool_set_purge_delay_ms(0);
    Claimed run = claim(8);
    touch(run);
    free_run(run);
    EXPECT_EQ(pool_figures().dirty_pages, 0u);
    Claimed again = claim(8);
    EXPECT_EQ(again.range.dirty, 0u);
    EXPECT_EQ(*start_of(again.range), 0);
    free_run(again);
    pool_tick(os_now_ms()); // nothing is left to do
}

TEST_F(Pool, TickPurgesWhatWasColdForADelay)
{
    uint64_t now = os_now_ms() + 10 * PURGE_DELAY_MS;
    while (!pool_tick(now)) now += PURGE_DELAY_MS; // another test's clock ran ahead
    Claimed cold = claim(4), warm = claim(4);
    touch(cold);
    touch(warm);
    free_run(cold);
    EXPECT_EQ(pool_figures().dirty_pages, 4u);
    pool_tick(now + PURGE_DELAY_MS - 1);
    pool_tick(now += PURGE_DELAY_MS);
    EXPECT_EQ(pool_figures().dirty_pages, 4u) << "dirty for less than a delay";
    free_run(warm);
    EXPECT_EQ(pool_figures().dirty_pages, 8u);
    pool_tick(now + PURGE_DELAY_MS - 1);
    EXPECT_EQ(pool_figures().dirty_pages, 8u) << "no delay has passed";
    pool_tick(now += PURGE_DELAY_MS);
    EXPECT_EQ(pool_figures().dirty_pages, 4u) << "the cold ones are gone, the warm ones not";
    pool_tick(now += PURGE_DELAY_MS);
    EXPECT_EQ(pool_figures().dirty_pages, 0u);
}

// If only a superslab is refused, the pages are all that is taken. Under AddressSanitizer none are.
TEST_F(Pool, RefusedByTheSystem)
{
    std::vector<Claimed> rest;
    for (bool for_ever : {false, true}) {
        while (test::free_pages() > 0) rest.push_back(claim(1));
        const auto full = pool_figures();
        os_fault_install(1, for_ever);
        const page_range part = pool_claim(4, 1, true);
        EXPECT_GE(os_fault_failures(), 1u);
        os_fault_remove();
        const size_t parts = part.superslab != nullptr;
        EXPECT_EQ(pool_figures().superslab_count, full.superslab_count + parts);
        EXPECT_EQ(pool_figures().missing_pages, full.missing_pages + parts * (SUPERSLAB_PAGES - 4));
        ASSERT_EQ(parts, for_ever || ASAN ? 0u : 1u);
        rest.push_back(parts != 0 ? Claimed{part, 4, true} : claim(4));
    }
    for (const Claimed &each : rest) free_run(each);
}

TEST_F(Pool, ReleaseRefusedByTheSystem)
{
    std::vector<Claimed> runs;
    for (int i = 0; i < EMPTY_SUPERSLABS_MIN + 3; i++) runs.push_back(claim(64));
    size_t superslabs = pool_figures().superslab_count;
    os_fault_install(1, true); // every purge and every release fails
    for (const Claimed &run : runs) {
        *start_of(run.range) = 1;
        free_run(run);
    }
    pool_purge_all();
    os_fault_remove();
    EXPECT_EQ(pool_figures().superslab_count, superslabs);
    EXPECT_GE(pool_figures().dirty_pages, runs.size() * 64) << "not purged, so dirty still";
    pool_purge_all();
    EXPECT_EQ(pool_figures().dirty_pages, 0u);
    EXPECT_LE(pool_figures().superslab_count, (size_t)EMPTY_SUPERSLABS_MIN + before.superslab_count);
    Claimed run = claim(64);
    EXPECT_EQ(*start_of(run.range), 0);
    free_run(run);
}

// As where there are too many mappings: the memory goes back, and the address space serves again, although another thread
// has looked for it in vain meanwhile.
TEST_F(Pool, WhatCannotBeReleasedServesAgain)
{
    free_run(claim(64));
    pool_purge_all();
    superslab *empty = nullptr;
    auto first_empty = [](superslab *each, void *found) {
        if (each->free_pages == ~0ull && *static_cast<superslab **>(found) == nullptr)
            *static_cast<superslab **>(found) = each;
    };
    pool_for_each(first_empty, &empty);
    ASSERT_NE(empty, nullptr);

    const os_ops *below = os;
    os_ops refusing = *os;
    refusing.release = [](void *, size_t) {
        std::vector<Claimed> all;
        for (size_t made = pool_figures().made_count; pool_figures().made_count == made;) all.push_back(claim(64));
        for (const Claimed &run : all) free_run(run);
        return ENOMEM;
    };
    os = &refusing;
    pool_release(empty);
    os = below;

    size_t made = pool_figures().made_count, empties = 0;
    pool_for_each([](superslab *each, void *count) { *static_cast<size_t *>(count) += each->free_pages == ~0ull; },
                  &empties);
    std::vector<Claimed> runs;
    while (runs.size() < empties) runs.push_back(claim(64));
    EXPECT_EQ(pool_figures().made_count, made) << "each empty one is found";
    for (const Claimed &run : runs) free_run(run);
}

TEST_F(Pool, EachCallOfAPurgeRefusedByTheSystem)
{
    uint64_t refused = 1;
    for (uint64_t call = 1; refused != 0; call++) {
        std::vector<std::pair<Claimed, char *>> runs;
        for (int i = 0; i < EMPTY_SUPERSLABS_MIN + 3; i++) {
            Claimed run = claim(64);
            runs.emplace_back(run, start_of(run.range));
            *runs.back().second = 1;
        }
        for (const auto &[run, start] : runs) free_run(run);
        os_fault_install(call, false);
        pool_purge_all();
        refused = os_fault_failures();
        os_fault_remove();
        for (const auto &[run, start] : runs) // each superslab is kept or released as a whole
            EXPECT_EQ(pagemap_descriptor(start),
                      superslab_base(run.range.superslab) == start ? run.range.superslab : nullptr);
        pool_purge_all();
        EXPECT_EQ(pool_figures().dirty_pages, 0u) << "call " << call;
        EXPECT_LE(pool_figures().superslab_count, (size_t)EMPTY_SUPERSLABS_MIN + before.superslab_count)
            << "call " << call;
        ASSERT_LT(call, 1000u);
    }
}

TEST_F(Pool, AReleasedSuperslabLeavesThePageMap)
{
    std::vector<std::pair<Claimed, char *>> runs;
    for (int i = 0; i < EMPTY_SUPERSLABS_MIN + 3; i++) {
        Claimed run = claim(64);
        runs.emplace_back(run, start_of(run.range));
    }
    for (const auto &[run, start] : runs) free_run(run);
    pool_purge_all();
    size_t released = 0;
    for (const auto &[run, start] : runs) {
        const bool is_released = superslab_base(run.range.superslab) != start && ++released > 0;
        EXPECT_EQ(pagemap_descriptor(start), is_released ? nullptr : run.range.superslab);
    }
    EXPECT_GT(released, 0u);
}

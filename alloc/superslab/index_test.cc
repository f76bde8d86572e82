// index_test.cc: searches of the index against a look at each superslab, for every length and alignment.
#include "superslab/pool_test_support.h"

extern "C" {
#include "base/bits.h"
#include "superslab/index.h"
}

namespace {

using test::claim;
using test::Claimed;
using test::free_run;

class Index : public test::PoolTest {};

// Bit i: `pages` free pages in a row start at page i, a multiple of align_pages.
bool can_serve(uint64_t free_pages, uint32_t pages, uint32_t align_pages)
{
    for (uint32_t first = 0; first + pages <= SUPERSLAB_PAGES; first += align_pages)
        if ((free_pages & bits_range(first, pages)) == bits_range(first, pages)) return true;
    return false;
}

// What a look at each of the superslabs [from, end) finds, the first or the last.
uint32_t look(uint32_t from, uint32_t end, uint32_t pages, uint32_t align_pages, bool last = false)
{
    uint32_t found = INDEX_NONE;
    for (uint32_t i = from; i < end && (last || found == INDEX_NONE); i++)
        if (can_serve(superslab_at(i)->free_pages, pages, align_pages)) found = i;
    return found;
}

uint32_t end_of_all()
{
    return chunk_count() * CHUNK_SUPERSLABS;
}

// A claim may leave one superslab's word too high until this thread claims elsewhere.
void settle()
{
    for (uint32_t i = 0; i < end_of_all(); i++)
        if (superslab_at(i)->index == i) index_lower(superslab_at(i)); // the others were never used
}

void expect_each_search_right(test::Rng &rng)
{
    settle();
    const uint32_t end = end_of_all(), from = (uint32_t)rng.below(end);
    for (uint32_t align = 1; align <= SUPERSLAB_PAGES / 2; align *= 2)
        for (uint32_t pages = 1; pages <= SUPERSLAB_PAGES; pages++) {
            const uint32_t byte = index_byte(align);
            ASSERT_EQ(index_find(byte, pages, 0), look(0, end, pages, align)) << pages << " at " << align;
            ASSERT_EQ(index_find(byte, pages, from), look(from, end, pages, align)) << pages << " at " << align;
            ASSERT_EQ(index_find_last(byte, pages, from), look(0, from, pages, align, true))
                << pages << " at " << align;
        }
}

} // namespace

// Runs of all lengths and alignments, in more superslabs than one node of the level above the chunks has below it. No memory
// is touched.
TEST_F(Index, EachSearchFindsWhatALookFinds)
{
    test::Rng rng;
    std::vector<Claimed> held;
    for (uint32_t superslabs : {3u, 9u, 70u, 64u * 8 + 70}) {
        while (pool_figures().superslab_count < superslabs) held.push_back(claim(SUPERSLAB_PAGES));
        for (int round = 0; round < 4; round++) {
            for (int i = 0; i < 200; i++) {
                if (rng.below(3) != 0 && !held.empty()) {
                    std::swap(held[rng.below(held.size())], held.back());
                    free_run(held.back());
                    held.pop_back();
                } else {
                    const uint32_t align = 1u << rng.below(6);
                    held.push_back(claim((uint32_t)rng.between(1, 40), align, rng.below(2) != 0));
                }
            }
            ASSERT_NO_FATAL_FAILURE(expect_each_search_right(rng)) << superslabs;
        }
    }
    for (const Claimed &run : held) free_run(run);
    pool_purge_all();
    expect_each_search_right(rng);
}

// What a purge and a new superslab look for: dirty pages, superslabs that are free and clean, descriptors that are free.
TEST_F(Index, WhatLiesIdle)
{
    std::vector<Claimed> held;
    for (int i = 0; i < 12; i++) held.push_back(claim(SUPERSLAB_PAGES));
    settle();
    EXPECT_EQ(index_find(INDEX_IDLE, INDEX_EMPTY, 0), look(0, end_of_all(), SUPERSLAB_PAGES, 1));
    EXPECT_EQ(index_find(INDEX_IDLE, INDEX_DIRTY, 0), INDEX_NONE);
    const uint32_t at = held[7].range.superslab->index;
    pool_free(held[7].range.superslab, 9, 1, 0);
    EXPECT_EQ(index_find(INDEX_IDLE, INDEX_DIRTY, 0), at);
    EXPECT_EQ(index_find_last(INDEX_IDLE, INDEX_DIRTY, end_of_all()), at);
    pool_purge_all();
    settle();
    EXPECT_EQ(index_find(INDEX_IDLE, INDEX_DIRTY, 0), INDEX_NONE);
    pool_free(held[7].range.superslab, 0, 9, 0);
    pool_free(held[7].range.superslab, 10, SUPERSLAB_PAGES - 10, 0);
    held.erase(held.begin() + 7);
    pool_purge_all();
    EXPECT_EQ(index_find(INDEX_IDLE, INDEX_EMPTY, 0), look(0, end_of_all(), SUPERSLAB_PAGES, 1));
    for (uint32_t i = 0; i < end_of_all(); i++) {
        const bool is_absent = superslab_base(superslab_at(i)) == nullptr;
        EXPECT_EQ(index_find(INDEX_ABSENT, 1, i) == i, is_absent) << i;
    }
    for (const Claimed &run : held) free_run(run);
}

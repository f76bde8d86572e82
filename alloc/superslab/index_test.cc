// index_test.cc: searches of the index against a look at each superslab, for every length and alignment.
#include "superslab/pool_test_support.h"

#include <algorithm>
#include <cstring>

extern "C" {
#include "base/bits.h"
#include "base/sync_point.h"
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

// The first of the superslabs [from, end) that a look at each finds.
uint32_t look(uint32_t from, uint32_t end, uint32_t pages, uint32_t align_pages)
{
    for (uint32_t i = from; i < end; i++)
        if (can_serve(superslab_at(i)->free_pages, pages, align_pages)) return i;
    return INDEX_NONE;
}

uint32_t end_of_all()
{
    return chunk_count() * CHUNK_SUPERSLABS;
}

// A claim leaves the superslab's word too high until a search has failed there.
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

// What a new superslab looks for.
TEST_F(Index, DescriptorsWithoutAddressSpace)
{
    std::vector<Claimed> held;
    for (int i = 0; i < 12; i++) held.push_back(claim(SUPERSLAB_PAGES));
    std::swap(held[7], held.back());
    free_run(held.back());
    held.pop_back();
    pool_purge_all();
    settle();
    for (uint32_t i = 0; i < end_of_all(); i++) {
        const bool is_absent = superslab_base(superslab_at(i)) == nullptr;
        EXPECT_EQ(index_find(INDEX_ABSENT, 1, i) == i, is_absent) << i;
    }
    for (const Claimed &run : held) free_run(run);
}

// Whatever was claimed before, a search visits few superslabs in vain: the words that claims left too high are lowered by
// the searches that follow them.
TEST_F(Index, ASearchIsMisledSeldom)
{
    SKIP_WITHOUT_VALIDATE(); // counts steps
    static int lowered;
    test::Rng rng;
    std::vector<Claimed> held;
    int most = 0, all = 0;
    for (int i = 0; i < 4000; i++) {
        if (held.size() > 800) {
            std::swap(held[rng.below(held.size())], held.back());
            free_run(held.back());
            held.pop_back();
        }
        lowered = 0;
        hak_sync_point_hook = [](const char *step) { lowered += strcmp(step, "index_lower") == 0; };
        held.push_back(claim((uint32_t)rng.between(1, 32), 1u << rng.below(6), rng.below(2) != 0));
        hak_sync_point_hook = nullptr;
        most = std::max(most, lowered);
        all += lowered;
    }
    EXPECT_LT(most, 40);
    EXPECT_LT(all, 3 * 4000) << "a word and two nodes above it for each claim";
    RecordProperty("most", most);
    RecordProperty("all", all);
    for (const Claimed &run : held) free_run(run);
}

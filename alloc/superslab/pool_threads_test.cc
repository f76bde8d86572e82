// pool_threads_test.cc: threads that meet in the pool: they claim and free side by side, or a hook acts as the other one
// between two steps.
#include "superslab/pool_test_support.h"

#include <cstring>

extern "C" {
#include "base/sync_point.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/os_fault.h"
#include "superslab/limit.h"
}

namespace {

using test::claim;
using test::Claimed;
using test::free_run;
using test::start_of;
using test::touch;

class PoolThreads : public test::PoolTest {};

} // namespace

TEST_F(PoolThreads, ThreadsNeverShareAPage)
{
    static std::atomic<int> shared;
    shared = 0;
    test::in_threads(4, [](int thread) {
        test::Rng rng((uint64_t)thread);
        std::vector<Claimed> mine;
        uint64_t stamp = ((uint64_t)thread + 1) << 32;
        auto word = [](const Claimed &run, uint32_t page) {
            return reinterpret_cast<uint64_t *>(start_of(run.range) + (size_t)page * PAGE_BYTES);
        };
        auto give_back = [&](const Claimed &run) {
            for (uint32_t i = 0; i < run.pages; i++) {
                if (*word(run, i) != stamp + run.range.first) shared++;
                *word(run, i) = 0xdead;
            }
            free_run(run);
        };
        for (int i = 0; i < test::rounds(4000); i++) {
            if (mine.size() < 6 && rng.below(2) == 0) {
                uint32_t pages = (uint32_t)rng.between(1, 32);
                Claimed run = claim(pages, 1u << rng.below(3), rng.below(2) != 0);
                for (uint32_t p = 0; p < pages; p++) {
                    if (run.range.dirty == 0 && *word(run, p) != 0) shared++; // law 7
                    *word(run, p) = stamp + run.range.first;
                }
                mine.push_back(run);
            } else if (rng.below(64) == 0) {
                pool_purge_all();
            } else if (!mine.empty()) {
                give_back(mine.back());
                mine.pop_back();
            }
        }
        for (const Claimed &run : mine) give_back(run);
    });
    EXPECT_EQ(shared, 0);
}

TEST_F(PoolThreads, TheIndexLeadsThreadsToWhatIsFree)
{
    // Threads that never hold more than what fits must not make more and more superslabs.
    test::in_threads(4, [](int thread) {
        test::Rng rng((uint64_t)thread);
        for (int i = 0; i < test::rounds(5000); i++) {
            Claimed run = claim((uint32_t)rng.between(1, 16));
            free_run(run);
        }
    });
    EXPECT_LE(pool_figures().superslab_count, before.superslab_count + 4);
}

namespace {

int words_lowered;

void count_lowered(const char *step)
{
    words_lowered += strcmp(step, "index_lower") == 0;
}

} // namespace

// Searches for as many pages as became free visit the superslab, and those for twice as many do not: they would find
// nothing in each of many superslabs.
TEST_F(PoolThreads, FreedPagesAreOfferedToSearchesThatTheyCanServe)
{
    for (uint32_t pages = 1; pages < SUPERSLAB_PAGES; pages *= 2) {
        const Claimed full = claim(SUPERSLAB_PAGES);
        page_range end = full.range;
        end.first = SUPERSLAB_PAGES - pages;
        std::vector<Claimed> all = {{full.range, SUPERSLAB_PAGES - pages, true}};
        os_fault_install(1, true);
        const auto next = [](uint32_t wanted) { return Claimed{pool_claim(wanted, 1, true), wanted, true}; };
        words_lowered = 0;
        hak_sync_point_hook = count_lowered;
        for (Claimed run; (run = next(2 * pages)).range.superslab != nullptr;) all.push_back(run);
        hak_sync_point_hook = nullptr;
        if (VALIDATE) EXPECT_GT(words_lowered, 0) << "the last search comes to what is full now";
        os_fault_remove();
        free_run({end, pages, true});
        os_fault_install(1, true);
        words_lowered = 0;
        hak_sync_point_hook = count_lowered;
        EXPECT_EQ(next(2 * pages).range.superslab, nullptr) << pages;
        hak_sync_point_hook = nullptr;
        EXPECT_EQ(words_lowered, 0) << pages;
        const Claimed again = next(pages);
        EXPECT_NE(again.range.superslab, nullptr) << pages;
        os_fault_remove();
        if (again.range.superslab != nullptr) free_run(again);
        for (const Claimed &run : all) free_run(run);
    }
}

TEST_F(PoolThreads, AThreadThatMetAnotherStillFindsWhatLiesBelow)
{
    SKIP_WITHOUT_VALIDATE(); // a hook acts as the other thread
    test::in_thread([] {
        static Claimed other;
        std::vector<Claimed> rest; // each leaves free pages in another superslab
        for (int i = 0; i < 3; i++) rest.push_back(claim(SUPERSLAB_PAGES - 8));
        Claimed first = claim(1);
        hak_sync_point_hook = [](const char *step) {
            if (strcmp(step, "superslab_claim") != 0) return;
            hak_sync_point_hook = nullptr;
            other = claim(1);
        };
        Claimed met = claim(1); // from now on its searches begin behind that superslab
        EXPECT_EQ(hak_sync_point_hook, nullptr);
        EXPECT_EQ(other.range.superslab, met.range.superslab) << "they did not meet";
        size_t count = pool_figures().superslab_count;
        rest.push_back(claim(1));
        EXPECT_GT(rest.back().range.superslab->index, met.range.superslab->index);
        for (size_t pages = pool_figures().claimed_pages; pages < count * SUPERSLAB_PAGES; pages++)
            rest.push_back(claim(1));
        EXPECT_EQ(pool_figures().superslab_count, count) << "it made one beside free pages";
        for (const Claimed &run : {first, met, other}) free_run(run);
        for (const Claimed &run : rest) free_run(run);
    });
}

// It met the other one in the last superslab of a chunk: its searches begin with the first of the next chunk, and go on
// below.
TEST_F(PoolThreads, AThreadThatMetAnotherAtTheEndOfAChunkMovesToTheNextChunk)
{
    SKIP_WITHOUT_VALIDATE(); // a hook acts as the other thread
    test::in_thread([] {
        constexpr uint32_t CHUNK = 64;
        static Claimed other;
        std::vector<Claimed> rest;
        do rest.push_back(claim(SUPERSLAB_PAGES));
        while (!rest.back().range.made || rest.back().range.superslab->index < CHUNK); // all below are there
        while (pool_figures().claimed_pages < pool_figures().superslab_count * SUPERSLAB_PAGES)
            rest.push_back(claim(1));
        // Three pages are free: two of the last superslab of the first chunk, and one of the next.
        for (Claimed &run : rest) {
            const uint32_t index = run.range.superslab->index;
            if (run.pages == SUPERSLAB_PAGES && (index == CHUNK - 1 || index == CHUNK)) {
                free_run(run);
                run = claim(SUPERSLAB_PAGES - (index < CHUNK ? 2 : 1), 1, false);
                ASSERT_EQ(run.range.superslab->index, index);
            }
        }
        const size_t count = pool_figures().superslab_count;
        hak_sync_point_hook = [](const char *step) {
            if (strcmp(step, "superslab_claim") != 0) return;
            hak_sync_point_hook = nullptr;
            other = claim(1);
        };
        const Claimed met = claim(1);
        EXPECT_EQ(met.range.superslab->index, CHUNK - 1);
        EXPECT_EQ(other.range.superslab, met.range.superslab) << "they did not meet";
        free_run(other);
        const Claimed next = claim(1), last = claim(1);
        EXPECT_EQ(next.range.superslab->index, CHUNK);
        EXPECT_EQ(last.range.superslab->index, CHUNK - 1);
        EXPECT_EQ(pool_figures().superslab_count, count) << "it made one beside a free page";
        for (const Claimed &run : {met, next, last}) free_run(run);
        for (const Claimed &run : rest) free_run(run);
    });
}

// Another thread takes the last page that a search was about to claim: the search moves on to the next superslab.
TEST_F(PoolThreads, WhoComesTooLateMovesOn)
{
    SKIP_WITHOUT_VALIDATE(); // a hook acts as the other thread
    for (bool from_top : {true, false})
        test::in_thread([from_top] {
            static std::vector<Claimed> all;
            static bool of_run;
            of_run = from_top;
            do all.push_back(claim(SUPERSLAB_PAGES));
            while (!all.back().range.made); // so that every page is in use
            for (size_t i = all.size() - 2; i < all.size(); i++) {
                free_run(all[i]);
                all[i] = claim(SUPERSLAB_PAGES - 1, 1, false); // a page is free
            }
            const size_t count = pool_figures().superslab_count;
            hak_sync_point_hook = [](const char *step) {
                if (strcmp(step, "superslab_claim") != 0) return;
                hak_sync_point_hook = nullptr;
                all.push_back(claim(1, 1, of_run));
            };
            const Claimed late = claim(1, 1, from_top);
            EXPECT_EQ(hak_sync_point_hook, nullptr);
            EXPECT_NE(late.range.superslab, all.back().range.superslab);
            EXPECT_EQ(pool_figures().superslab_count, count) << "it made one beside a free page";
            free_run(late);
            for (const Claimed &run : all) free_run(run);
            all.clear();
        });
}

// A purger holds the pages that it purges. Who searches meanwhile finds the superslab full and clears its words of the index, so the
// purger raises it again.
TEST_F(PoolThreads, AfterAPurgeTheNextSearchFindsThePages)
{
    static std::vector<Claimed> rest;
    Claimed whole = claim(SUPERSLAB_PAGES);
    touch(whole);
    free_run(whole);
    os_ops meeting = *os;
    static const os_ops *inner;
    inner = os;
    meeting.purge = [](void *start, size_t size_bytes) {
        if (rest.empty()) do
                rest.push_back(claim(SUPERSLAB_PAGES));
            while (!rest.back().range.made); // so each superslab was searched
        return inner->purge(start, size_bytes);
    };
    os = &meeting;
    pool_purge_all();
    os = inner;
    ASSERT_FALSE(rest.empty()) << "nothing was purged";
    size_t count = pool_figures().superslab_count;
    Claimed again = claim(SUPERSLAB_PAGES);
    EXPECT_EQ(pool_figures().superslab_count, count) << "it made one beside free pages";
    free_run(again);
    for (const Claimed &run : rest) free_run(run);
    rest.clear();
}

// Two threads find nothing and wait for the lock in turn: the second takes what came free meanwhile, and makes none.
TEST_F(PoolThreads, WhoWaitedForTheLockSearchesAgain)
{
    SKIP_WITHOUT_VALIDATE(); // a hook acts as the other thread
    static std::vector<Claimed> all;
    do all.push_back(claim(SUPERSLAB_PAGES));
    while (!all.back().range.made);
    size_t count = pool_figures().superslab_count;
    sync_lock_hook = [](unsigned rank, bool gives_back) {
        if (rank != LOCK_POOL || gives_back) return;
        sync_lock_hook = nullptr;
        free_run(all.back());
    };
    Claimed again = claim(SUPERSLAB_PAGES);
    EXPECT_EQ(sync_lock_hook, nullptr) << "it needed no lock";
    EXPECT_EQ(pool_figures().superslab_count, count);
    EXPECT_EQ(again.range.superslab, all.back().range.superslab);
    for (const Claimed &run : all) free_run(run);
    all.clear();
}

// Two threads have a new peak of committed memory at once: the lower one, noted last, is none.
TEST_F(PoolThreads, ThePeakIsTheHigherOfTwo)
{
    SKIP_WITHOUT_VALIDATE();
    EXPECT_TRUE(test::in_child([] {
        static bool is_due;
        is_due = true;
        const size_t peak = limit_committed_peak_bytes(), to_peak = peak - limit_committed_bytes();
        hak_sync_point_hook = [](const char *step) {
            if (strcmp(step, "limit_note_peak") != 0 || !std::exchange(is_due, false)) return;
            limit_count_huge(test::MIB); // as another thread
            limit_count_huge(-test::MIB);
        };
        limit_count_huge(to_peak + PAGE_BYTES);
        hak_sync_point_hook = nullptr;
        EXPECT_FALSE(is_due);
        limit_count_huge(-(to_peak + PAGE_BYTES));
        EXPECT_EQ(limit_committed_peak_bytes(), peak + PAGE_BYTES + test::MIB);
    }));
}

// bound_test.cc: when a malloc that finds no memory empties the caches once more.
#include "heap/heap_test_support.h"

extern "C" {
#include "cache/credits.h"
#include "heap/bound.h"
#include "heap/huge.h"
#include "os/os_fault.h"
#include "superslab/limit.h"
#include "superslab/pool_make.h"
}

namespace {

using test::MIB;

constexpr int LOOKS = 17; // one of these failures looks into the bins

// How many blocks each class's bin has taken since it was parked last.
using Frees = std::vector<uint32_t>;

// A thread at the limit. Each class has paid for its credit, so that its bin takes all of it.
class AtTheLimit {
  public:
    AtTheLimit()
    {
        block_ = hak_malloc(MIB);
        EXPECT_NE(block_, nullptr);
        hak_free(hak_malloc(1)); // the thread has a heap
        hak_purge_all();
        hak_limit_set(limit_committed_bytes());
        for (uint32_t c = 1; c < CLASS_COUNT; c++) {
            limits_.push_back(tcache_self()->heap->owner.blocks[c].limit);
            owner_limit_set(&tcache_self()->heap->owner, c, LIMIT_PAID);
            tcache_self()->heap->parking[c].overflows = 0;
        }
        settle();
    }
    ~AtTheLimit()
    {
        hak_limit_set(SIZE_MAX);
        for (uint32_t c = 1; c < CLASS_COUNT; c++) {
            owner_limit_set(&tcache_self()->heap->owner, c, limits_[c - 1]);
            tcache_self()->credits[c] = 0;
        }
        hak_free(block_);
    }
    AtTheLimit(const AtTheLimit &) = delete;

    static uint32_t credit(uint32_t c) { return parking_credit(&tcache_self()->heap->parking[c]); }
    static void bins_have(const Frees &frees)
    {
        for (uint32_t c = 1; c < CLASS_COUNT; c++) tcache_self()->credits[c] = credit(c) - frees[c];
    }
    // Whether one of the next failures gives back something, or may have.
    static bool one_empties()
    {
        for (int i = 0; i < LOOKS; i++)
            if (bound_make_room(MIB)) return true;
        return false;
    }
    // Nothing is in the bins, and the last failure that looked has seen that.
    static void settle()
    {
        bins_have(Frees(CLASS_COUNT));
        for (int i = 0; i < 4 && one_empties(); i++) {}
        ASSERT_FALSE(one_empties());
    }

  private:
    void *block_;
    std::vector<uint32_t> limits_;
};

// Blocks of other classes than this that have this many bytes together. False: there are none.
bool others_with(size_t bytes, uint32_t but, Frees &frees)
{
    std::fill(frees.begin(), frees.end(), 0);
    for (uint32_t c = CLASS_GEOMETRIC_LAST; c > 0 && bytes > 0; c--) {
        if (c == but) continue;
        frees[c] = static_cast<uint32_t>(std::min<size_t>(AtTheLimit::credit(c), bytes / sizeclass_bytes(c)));
        bytes -= (size_t)frees[c] * sizeclass_bytes(c);
    }
    return bytes == 0;
}

} // namespace

// CREDIT_BYTES in the bins are worth it, and a block less is not, whichever class's block that is.
TEST(Bound, EachClassOfTheBinsCounts)
{
    EXPECT_TRUE(test::in_child([] {
        const AtTheLimit at_the_limit;
        for (uint32_t c = 1; c < CLASS_COUNT; c++) {
            Frees frees(CLASS_COUNT);
            uint32_t own = 1;
            while (!others_with(CREDIT_BYTES - (size_t)own * sizeclass_bytes(c), c, frees)) ASSERT_LT(own++, 4u) << c;
            frees[c] = own;
            AtTheLimit::bins_have(frees);
            EXPECT_TRUE(AtTheLimit::one_empties()) << "class " << c;
            AtTheLimit::settle();
            frees[c]--;
            AtTheLimit::bins_have(frees);
            EXPECT_FALSE(AtTheLimit::one_empties()) << "class " << c << ": a block less";
            AtTheLimit::settle();
            if (testing::Test::HasFailure()) return;
        }
    }));
}

// If the system refuses all, a malloc can have at most the pages that superslabs have, and what is cached. A page more is not
// worth emptying the caches. After mlockall superslabs lack pages.
TEST(Bound, PagesThatSuperslabsLackCannotBeHad)
{
    SKIP_UNDER_SANITIZER("its root regions are whole superslabs");
    for (const bool frugal : {false, true})
        for (const size_t size : {(size_t)100, (size_t)SMALL_BYTES_MAX + 1, 3 * MIB})
            EXPECT_TRUE(test::in_child([frugal, size] {
                hak_purge_all();
                pool_be_frugal(frugal);
                std::vector<void *> blocks = {hak_malloc(100), hak_malloc(size)};
                while (frugal && pool_figures().missing_pages == 0 && blocks.size() < 4096)
                    blocks.push_back(hak_malloc(SMALL_BYTES_MAX)); // the superslabs that are whole become full
                hak_free(hak_malloc(5 * MIB)); // it is cached
                const auto pool = pool_figures();
                if (frugal) ASSERT_GT(pool.missing_pages, 0u);
                size_t most = (pool.superslab_count * SUPERSLAB_PAGES - pool.missing_pages) * PAGE_BYTES;
                most += huge_figures().cached_bytes;
                os_fault_install(1, true);
                EXPECT_FALSE(bound_make_room(most + PAGE_BYTES)) << frugal << " " << size;
                EXPECT_TRUE(huge_any_cached());
                EXPECT_TRUE(bound_make_room(most)) << frugal << " " << size;
                os_fault_remove();
                for (void *block : blocks) hak_free(block);
            }));
}

// huge_rest_test.cc: when all huge blocks were freed, the cache of mappings keeps at most its limit in bytes, at once:
// whatever it has learned, and whichever block was freed last.
#include "heap/heap_test_support.h"

extern "C" {
#include "heap/huge.h"
#include "os/os.h"
}

namespace {

using test::MIB;

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
        const bool kept_more = huge_learned().keep_bytes > each.limit;
        free_all(blocks, each, rng);
        EXPECT_EQ(huge_figures().live_count, 0u);
        EXPECT_LE(huge_figures().cached_bytes, each.limit)
            << each.limit / MIB << " MiB, blocks of " << each.least / MIB << " to " << each.most / MIB << " MiB, order "
            << static_cast<int>(each.order) << ", threads " << each.threads;
        return kept_more;
    }
};

} // namespace

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

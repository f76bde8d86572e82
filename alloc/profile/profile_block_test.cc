// profile_block_test.cc: a sampled block is a block like others; the arithmetic of sampling; fork.
#include "heap/heap_test_support.h"

#include <cmath>

extern "C" {
#include "cache/tcache.h"
#include "os/meta.h"
#include "os/os_fault.h"
#include "profile/sampler.h"
#include "profile/profile.h"
#include "profile/profile_write.h"
#include "report/writer.h"
#include "superslab/pagemap.h"
#include "superslab/purge.h"
}
#include "profile/poisson.h"

class ProfileBlock : public testing::Test {
  protected:
    void SetUp() override
    {
        if (SANITIZED) GTEST_SKIP() << "builds with a sanitizer do not profile";
    }
};

TEST_F(ProfileBlock, Arithmetic)
{
    const double one = (double)POISSON_ONE;
    for (uint64_t part = 0; part <= 256; part++)
        EXPECT_NEAR((double)poisson_log(part, 512) / one, -std::log1p(-(double)part / 512), 1e-14) << part;
    for (double x : {1e-6, 0.001, 0.03, 0.0625, 0.5, 0.708, 1.0, 1.414, 3.0, 17.0, 39.0, 63.0})
        EXPECT_NEAR((double)poisson_probability((uint64_t)(x * one)) / one / -std::expm1(-x), 1, 1e-9) << x;
    for (uint64_t a : {0ull, 1ull, 2ull, 17ull, 32768ull, 1ull << 33, 1ull << 47})
        for (uint64_t b : {1ull, 3ull, 4095ull, 524288ull, 1ull << 40})
            EXPECT_NEAR((double)poisson_ratio(a, b) / one, std::min(64.0, (double)a / (double)b), 1e-13)
                << a << "/" << b;
    uint64_t random = 1;
    static poisson_table table;
    poisson_table_make(&table);
    std::array<double, 4> beyond{}; // how often the distance is beyond log 2, 1, 3 and 8
    double sum = 0, squares = 0;
    for (int i = 0; i < 1000000; i++) {
        const double distance = (double)poisson_distance(&table, &random) / one;
        sum += distance;
        squares += distance * distance;
        beyond[0] += distance > std::log(2), beyond[1] += distance > 1, beyond[2] += distance > 3;
        beyond[3] += distance > 8;
    }
    EXPECT_NEAR(sum / 1e6, 1, 0.004);
    EXPECT_NEAR(squares / 1e6, 2, 0.02);
    EXPECT_NEAR(beyond[0], 5e5, 2000);
    EXPECT_NEAR(beyond[1], 1e6 * std::exp(-1), 2000);
    EXPECT_NEAR(beyond[2], 1e6 * std::exp(-3), 900);
    EXPECT_NEAR(beyond[3], 1e6 * std::exp(-8), 75);
}

// One block in N is chosen: by the formula to 1e-13 of 1 / N, and by a million draws to six standard deviations. poisson_distance
// is exact to 2e-6 of its mean.
TEST_F(ProfileBlock, OneInNIsChosen)
{
    static poisson_table table;
    poisson_table_make(&table);
    uint64_t random = 1;
    std::vector<uint64_t> distances(1000000);
    for (uint64_t &distance : distances) distance = poisson_distance(&table, &random);
    std::sort(distances.begin(), distances.end());
    const double draws = (double)distances.size();
    for (uint32_t number = 1; number <= 1000; number++) {
        const double chance = 1.0 / number, one = (double)POISSON_ONE;
        const uint64_t means = poisson_one_in(number);
        if (number > 1) EXPECT_NEAR((double)means / one, -std::log1p(-chance), 1e-13 * chance) << number;
        EXPECT_NEAR((double)poisson_probability(means) / one, chance, 1e-9 * chance) << number;
        const auto chosen = std::lower_bound(distances.begin(), distances.end(), means) - distances.begin();
        const double tolerance = 6 * std::sqrt(draws * chance * (1 - chance)) + 2e-6 * draws * chance;
        EXPECT_NEAR((double)chosen, draws * chance, number == 1 ? 0 : tolerance) << number;
    }
    // The longest distance: all zeros in front, and the end of the last cell.
    const auto &last = table.cells[POISSON_CELLS - 1];
    EXPECT_LT(last.at + (last.slope << POISSON_FRACTION_BITS) + 63 * POISSON_LOG_OF_2, poisson_one_in(1));
}

// With a thread's table of choices refused, its blocks are served and not sampled; later they are.
TEST_F(ProfileBlock, WithoutMemoryForATableNothingIsSampled)
{
    EXPECT_TRUE(test::in_child([] {
        std::vector<void *> blocks(20000);
        for (void *&block : blocks) block = hak_malloc(200);
        for (void *block : blocks) hak_free(block);
        ASSERT_EQ(profile_start(64, 7), 0);
        os_fault_install(1, true);
        while (meta_alloc(64) != nullptr) {}
        for (void *&block : blocks) ASSERT_NE(block = hak_malloc(200), nullptr);
        EXPECT_EQ(profile_used_bytes(), 0u);
        os_fault_remove();
        for (void *block : blocks) hak_free(block);
        for (void *&block : blocks) block = hak_malloc(200);
        const uint64_t sampled = profile_used_bytes();
        EXPECT_GT(sampled, 0u);
        os_fault_install(1, true); // no more slots than there are
        while (meta_alloc(64) != nullptr) {}
        std::vector<void *> more(200);
        for (void *&block : more) ASSERT_NE(block = hak_malloc(200), nullptr);
        EXPECT_LT(profile_used_bytes(), sampled + more.size() * 200);
        os_fault_remove();
        for (void *block : more) hak_free(block);
        for (void *block : blocks) hak_free(block);
    }));
}

namespace {

hak_figures figures_now()
{
    hak_figures all{};
    hak_figures_get(&all, sizeof all);
    return all;
}

} // namespace

// With a mean of one byte each block is a sample, so the figures are the truth.
TEST_F(ProfileBlock, FiguresOfClassesAreExactWhereEachBlockIsSampled)
{
    EXPECT_TRUE(test::in_child([] {
        const uint32_t of_1000 = sizeclass_of(1000) - 1, of_10000 = sizeclass_of(10000) - 1;
        hak_purge();
        void *old = hak_malloc(10000);
        EXPECT_EQ(figures_now().profile_mean_bytes, 0u);
        ASSERT_EQ(profile_start(1, 7), 0);
        std::vector<void *> blocks;
        for (int i = 0; i < 1000; i++) {
            blocks.push_back(hak_malloc(10000));
            blocks.push_back(hak_malloc(10240));
            blocks.push_back(hak_calloc(1008, 1));
        }
        hak_heap *heap = hak_heap_new();
        (void)hak_heap_malloc(heap, 10000);
        blocks.push_back(hak_aligned_alloc(64, 100)); // its class is all that is known
        blocks.push_back(hak_malloc(100000));
        hak_figures now = figures_now();
        EXPECT_EQ(now.profile_mean_bytes, 1u);
        EXPECT_EQ(now.class_live_blocks[of_10000], 2000u) << "none that is older, none of other heaps";
        EXPECT_EQ(now.class_wasted_bytes[of_10000], 1000u * 240);
        EXPECT_EQ(now.class_live_blocks[of_1000], 1000u);
        EXPECT_EQ(now.class_wasted_bytes[of_1000], 0u);
        EXPECT_EQ(now.class_live_blocks[sizeclass_of_aligned(100, 64) - 1], 1u);
        EXPECT_EQ(now.class_wasted_bytes[sizeclass_of_aligned(100, 64) - 1], 0u);
        uint64_t sum = 0;
        for (uint64_t each : now.class_wasted_bytes) sum += each;
        EXPECT_EQ(now.wasted_bytes, sum);
        blocks[0] = hak_realloc(blocks[0], 10100);
        EXPECT_EQ(figures_now().class_wasted_bytes[of_10000], 1000u * 240) << "as malloc was asked";
        blocks[0] = hak_realloc(blocks[0], 30000);
        profile_stop();
        for (size_t i = 0; i < 1500; i++) hak_free(blocks[i]);
        now = figures_now();
        EXPECT_EQ(now.class_live_blocks[of_10000], 1000u);
        EXPECT_EQ(now.class_wasted_bytes[of_10000], 500u * 240);
        blocks.push_back(old);
        hak_heap_destroy(heap);
        for (size_t i = 1500; i < blocks.size(); i++) hak_free(blocks[i]);
        now = figures_now();
        EXPECT_EQ(now.class_live_blocks[of_10000] + now.class_live_blocks[of_1000] + now.wasted_bytes, 0u);
        EXPECT_EQ(now.profile_mean_bytes, 1u) << "what there was stays known";
    }));
}

// With a usual mean they are estimates without bias, and within the standard errors that hakmem.h gives.
TEST_F(ProfileBlock, FiguresOfClassesAreEstimates)
{
    EXPECT_TRUE(test::in_child([] {
        constexpr uint64_t MEAN = 20000, SEEDS = 10;
        const uint32_t index = sizeclass_of(1100) - 1, block_bytes = sizeclass_bytes(index + 1);
        const double p = -std::expm1(-(double)block_bytes / MEAN), of_each = (1 - p) / p; // variance of a count
        test::Rng rng;
        double wasted_sum = 0, estimate_sum = 0, variance_sum = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            hak_purge(); // so that the first malloc takes a slow path, from which on the thread is sampled
            ASSERT_EQ(profile_start(MEAN, seed), 0);
            std::vector<std::pair<void *, double>> blocks; // with what each wastes
            for (int i = 0; i < 30000; i++) {
                size_t size = rng.between(1025, block_bytes);
                blocks.emplace_back(hak_malloc(size), (double)(block_bytes - size));
            }
            double wasted = 0, variance = 0, live = 0;
            for (size_t i = 0; i < blocks.size(); i++) {
                auto [block, each] = blocks[i];
                if (i % 3 == 0) hak_free(block);
                else wasted += each, variance += each * each * of_each, live++;
            }
            hak_figures now = figures_now();
            double estimate = (double)now.class_wasted_bytes[index];
            EXPECT_NEAR(estimate, wasted, 4 * std::sqrt(variance)) << seed;
            EXPECT_LE(variance, MEAN * wasted);
            EXPECT_NEAR((double)now.class_live_blocks[index], live, 4 * std::sqrt(live * of_each)) << seed;
            EXPECT_LE(live * of_each * block_bytes * block_bytes, MEAN * live * block_bytes);
            wasted_sum += wasted, estimate_sum += estimate, variance_sum += variance;
            for (size_t i = 0; i < blocks.size(); i++)
                if (i % 3 != 0) hak_free(blocks[i].first);
            EXPECT_EQ(figures_now().class_live_blocks[index], 0u);
        }
        printf("wasted: %.0f bytes in truth, %.0f by the profile, standard error %.0f\n", wasted_sum / SEEDS,
               estimate_sum / SEEDS, std::sqrt(variance_sum) / SEEDS);
        EXPECT_NEAR(estimate_sum, wasted_sum, 3 * std::sqrt(variance_sum));
    }));
}

// As without a profile, slow paths give back what has been free for a while.
TEST_F(ProfileBlock, FreePagesGoBack)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1 << 20, 7), 0);
        pool_set_purge_delay_ms(1);
        hak_free(hak_malloc(RUN_BYTES_MAX));
        EXPECT_GE(purge_dirty_pages(), (size_t)RUN_PAGES_MAX - 8);
        std::vector<void *> blocks;
        for (int i = 0; i < 60 && purge_dirty_pages() > 0; i++) { // a refill each, and few pages in all
            for (int j = 0; j < 9; j++) blocks.push_back(hak_malloc(512));
            usleep(5000);
        }
        EXPECT_EQ(purge_dirty_pages(), 0u);
        for (void *block : blocks) hak_free(block);
    }));
}

// What a sample needs serves the next one: small blocks, runs and huge blocks.
TEST_F(ProfileBlock, ALoopOfSampledBlocksTakesNoMoreMemory)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1, 7), 0); // every block
        for (size_t size : {512, (int)PAGE_BYTES, (int)(RUN_BYTES_MAX + PAGE_BYTES)}) {
            auto loop = [size](int count) {
                for (int i = 0; i < count; i++) hak_free(hak_malloc(size));
            };
            hak_purge(); // what idles would go back in a loop that takes long
            loop(100);
            os_fault_install(0, false); // counts calls, and fails none
            loop(40000);
            EXPECT_EQ(os_fault_remove(), 0u) << size;
        }
    }));
}

// How far the next sample of runs and huge blocks is was drawn with the mean before, and is drawn again.
TEST_F(ProfileBlock, ANewMeanHoldsForRunsAtOnce)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1ull << 40, 7), 0);
        hak_free(hak_malloc(100000));
        EXPECT_EQ(profile_used_bytes(), 0u);
        ASSERT_EQ(profile_start(1, 7), 0); // every block
        void *block = hak_malloc(100000);
        EXPECT_EQ(profile_used_bytes(), 100000u);
        hak_free(block);
    }));
}

// A resized block has one sample, that of its new size, whether it grows or shrinks.
TEST_F(ProfileBlock, AResizedHugeBlockIsCountedOnce)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1, 7), 0); // every block
        void *block = hak_malloc(8 * test::MIB);
        for (size_t size : {16 * test::MIB, 3 * test::MIB, 5 * test::MIB}) {
            block = hak_realloc(block, size);
            EXPECT_EQ(profile_used_bytes(), size);
        }
        hak_free(block);
        EXPECT_EQ(profile_used_bytes(), 0u);
    }));
}

// Samples that are live at the fork are the child's too, and both go on.
TEST_F(ProfileBlock, Fork)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(64, 7), 0);
        std::vector<void *> blocks;
        for (int i = 0; i < 3000; i++) blocks.push_back(hak_malloc(200));
        uint64_t used_bytes = profile_used_bytes();
        EXPECT_GT(used_bytes, 0u);
        EXPECT_TRUE(test::in_child([&] {
            EXPECT_EQ(profile_used_bytes(), used_bytes);
            for (void *block : blocks) hak_free(block);
            EXPECT_EQ(profile_used_bytes(), 0u);
            void *block = hak_malloc(100000);
            EXPECT_GE(profile_used_bytes(), 100000u);
            hak_free(block);
        }));
        EXPECT_EQ(profile_used_bytes(), used_bytes);
        for (void *block : blocks) hak_free(block);
        EXPECT_EQ(profile_used_bytes(), 0u);
    }));
}

// Each free takes out its own sample, also where many share a bucket of the table.
TEST_F(ProfileBlock, ManySamplesAtOnce)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1, 7), 0); // every block
        hak_free(hak_malloc(1000));
        std::vector<std::pair<void *, size_t>> blocks;
        for (size_t i = 0; i < 100000; i++) blocks.emplace_back(hak_malloc(1 + i % 128), 1 + i % 128);
        uint64_t used_bytes = profile_used_bytes();
        test::Rng().shuffle(blocks); // the newest is the first of its bucket
        for (const auto &[block, size] : blocks) {
            hak_free(block);
            ASSERT_EQ(profile_used_bytes(), used_bytes -= size);
        }
    }));
}

// A sampled block has its class's size and stays in place where another would.
TEST_F(ProfileBlock, SampledBlock)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1, 7), 0); // every block
        hak_free(hak_malloc(1000));
        char *block = static_cast<char *>(hak_malloc(1000));
        ASSERT_EQ(pagemap_tag_checked(block), (uint32_t)CLASS_PROFILE);
        EXPECT_EQ(hak_malloc_usable_size(block), sizeclass_bytes(sizeclass_of(1000)));
        test::pattern_fill(block, 1008, 1);
        EXPECT_EQ(hak_realloc(block, 1008), block);
        char *moved = static_cast<char *>(hak_realloc(block, 5000));
        EXPECT_NE(moved, block);
        EXPECT_TRUE(test::pattern_holds(moved, 1008, 1));
        hak_free(moved);
        for (size_t align : {16, 64, 256, 4096, 32768}) {
            void *aligned = hak_aligned_alloc(align, 100);
            EXPECT_TRUE(test::is_aligned(aligned, align));
            hak_free(aligned);
        }
        void *last = hak_aligned_alloc(128, SMALL_LINEAR_BYTES_MAX);
        EXPECT_EQ(pagemap_tag_checked(last), (uint32_t)CLASS_PROFILE);
        EXPECT_EQ(hak_malloc_usable_size(last), (size_t)SMALL_LINEAR_BYTES_MAX) << "of the last class";
        hak_free(last);
        const uint64_t used_bytes = profile_used_bytes();
        EXPECT_EQ(hak_malloc(PTRDIFF_MAX), nullptr);
        EXPECT_EQ(profile_used_bytes(), used_bytes) << "what the system refuses is no sample";
        profile_stop();
        void *large = hak_malloc(RUN_BYTES_MAX);
        EXPECT_EQ(profile_used_bytes(), used_bytes) << "none is chosen any more";
        hak_free(large);
        for (int i = 0; i < 2000; i++) hak_free(hak_malloc(1000));
        void *plain = hak_malloc(1000);
        EXPECT_NE(pagemap_tag_checked(plain), (uint32_t)CLASS_PROFILE);
        hak_free(plain);
        test::inspected();
    }));
}

// A profile is due each time that the bytes in use have grown by a step since the last one, however far they grow at once.
TEST_F(ProfileBlock, AStepBeginsAnewWhereTheLastOneWasDue)
{
    EXPECT_TRUE(test::in_child([] {
        const uint64_t step = 10 * PAGE_BYTES;
        ASSERT_EQ(profile_start(1, 7), 0); // every block
        profile_step_set(step);
        test::Rng rng;
        std::vector<void *> blocks;
        uint64_t next = step, due = 0;
        for (int i = 0; i < 2000; i++) {
            if (!blocks.empty() && rng.below(5) < 2) {
                rng.shuffle(blocks);
                hak_free(blocks.back());
                blocks.pop_back();
                continue;
            }
            const size_t pages = rng.below(8) == 0 ? rng.between(10, 32) : rng.between(1, 12);
            blocks.push_back(hak_malloc(pages * PAGE_BYTES));
            const uint64_t used = profile_used_bytes();
            ASSERT_EQ(writer_take(STEP_DUE) != 0, used >= next) << used << " of " << next;
            if (used < next) continue;
            next = used + step;
            due++;
            if (due % 8 != 0) continue;
            for (void *block : blocks) hak_free(block); // the heap grows again from nothing
            blocks.clear();
            profile_step_set(step);
            next = step;
        }
        EXPECT_GT(due, 16u);
        for (void *block : blocks) hak_free(block);
    }));
}

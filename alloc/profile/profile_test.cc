// profile_test.cc: the estimates of the heap profile against the truth, for programs whose call sites and bytes are known.
//
// Each estimate must lie within 3 standard errors of the truth, in bytes allocated and in bytes in use. (The variance of
// a block of b bytes that is sampled with probability p is b^2 (1 - p) / p.) One seed, and for programs of one thread
// always the same samples; where threads race, 4 standard errors. One sample more or less is always right: of blocks that
// are hardly ever missed, one may be. HAKMEM_PROFILE_SEEDS=50, in the long tier, repeats this with other seeds: then the
// mean must lie within 1% and 3.5 of its own standard errors; each program has the seeds that make these about 1%.
#include "heap/heap_test_support.h"

#include <atomic>
#include <cmath>
#include <map>
#include <mutex>

extern "C" {
#include "profile/profile.h"
#include "profile/sites.h"
}

namespace {

constexpr int SITES = 24;
enum class How { MALLOC, CALLOC, ALIGNED, REALLOC };

// The call sites, in a section of their own, so that a frame's address tells its site. gcc puts no template there.
#define SITES_TO_11(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define SITES_TO_23(X) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
#define DEFINE_SITE(n)                                                                                       \
    __attribute__((noinline, section("profiled_sites"))) void *allocate_##n(How how, size_t size, void *old) \
    {                                                                                                        \
        void *block = how == How::CALLOC    ? hak_calloc(1, size)                                            \
                      : how == How::ALIGNED ? hak_aligned_alloc(64, size)                                    \
                      : how == How::REALLOC ? hak_realloc(old, size)                                         \
                                            : hak_malloc(size);                                              \
        __asm__ volatile("" : "+r"(block));                                                                  \
        return block;                                                                                        \
    }
SITES_TO_11(DEFINE_SITE)
SITES_TO_23(DEFINE_SITE)
#define NAME_SITE(n) allocate_##n,
void *(*const allocates[SITES])(How, size_t, void *) = {SITES_TO_11(NAME_SITE) SITES_TO_23(NAME_SITE)};

extern "C" const char __start_profiled_sites[], __stop_profiled_sites[];

// The site whose code has the innermost frame of ours; -1: none.
int site_of(const profile_site *site)
{
    for (uint32_t i = 0; i < site->count; i++) {
        uintptr_t frame = site->frames[i];
        if (frame < (uintptr_t)__start_profiled_sites || frame >= (uintptr_t)__stop_profiled_sites) continue;
        int best = -1;
        uintptr_t best_start = 0;
        for (int s = 0; s < SITES; s++) {
            uintptr_t start = (uintptr_t)allocates[s];
            if (start >= frame || start < best_start) continue;
            best = s;
            best_start = start;
        }
        return best;
    }
    return -1;
}

struct Figures {
    double bytes = 0, used_bytes = 0, largest = 0; // largest: what one sample counts for at most
};
using BySite = std::array<Figures, SITES>;

BySite estimates()
{
    BySite all;
    for (const profile_site *site = profile_sites(); site != nullptr; site = site->next) {
        int s = site_of(site);
        if (s < 0) continue;
        all[s].bytes += (double)site->bytes;
        all[s].used_bytes += (double)site->bytes - (double)site->freed_bytes;
    }
    return all;
}

// What a program has really done; each thread has its own.
struct Truth {
    BySite of, variance;
    double mean_bytes;
    explicit Truth(double mean) : mean_bytes(mean) {}

    struct Block {
        void *start = nullptr;
        size_t size = 0;
        int site = 0;
    };

    // The size that the profile reports, and that by which a block is chosen.
    static std::pair<size_t, size_t> sizes(How how, size_t size)
    {
        if (size > SMALL_BYTES_MAX) return {size, size};
        size_t chosen = sizeclass_bytes(how == How::ALIGNED ? sizeclass_of_aligned(size, 64) : sizeclass_of(size));
        return {how == How::ALIGNED ? chosen : size, chosen};
    }
    void count(int site, How how, size_t size, bool is_freed)
    {
        auto [reported, chosen] = sizes(how, size);
        double p = 1 - std::exp(-(double)chosen / mean_bytes), one = (double)reported * (double)reported * (1 - p) / p;
        if (!is_freed) {
            of[site].bytes += (double)reported;
            of[site].largest = std::max(of[site].largest, (double)reported / p);
            variance[site].bytes += one;
        }
        of[site].used_bytes += is_freed ? -(double)reported : (double)reported;
        variance[site].used_bytes += is_freed ? -one : one;
    }
    std::map<void *, How> hows; // only of those that were not plain

    Block allocate(int site, size_t size, How how = How::MALLOC)
    {
        Block block{allocates[site](how, size, nullptr), size, site};
        EXPECT_NE(block.start, nullptr);
        if (how == How::ALIGNED) hows[block.start] = how;
        count(site, how, size, false);
        return block;
    }
    void free(Block &block)
    {
        if (block.start == nullptr) return;
        auto how = hows.find(block.start);
        count(block.site, how != hows.end() ? how->second : How::MALLOC, block.size, true);
        if (how != hows.end()) hows.erase(how);
        hak_free(block.start);
        block.start = nullptr;
    }
    // To a size that no block keeps its place for, or above SMALL_BYTES_MAX, where each realloc counts.
    void grow(Block &block, int site, size_t size)
    {
        count(block.site, How::MALLOC, block.size, true);
        block.start = allocates[site](How::REALLOC, size, block.start);
        block.size = size;
        block.site = site;
        count(site, How::MALLOC, size, false);
    }
    void add(const Truth &other)
    {
        for (int s = 0; s < SITES; s++) {
            of[s].bytes += other.of[s].bytes;
            of[s].used_bytes += other.of[s].used_bytes;
            of[s].largest = std::max(of[s].largest, other.of[s].largest);
            variance[s].bytes += other.variance[s].bytes;
            variance[s].used_bytes += other.variance[s].used_bytes;
        }
    }
};
using Blocks = std::vector<Truth::Block>;

// --- programs; each leaves some blocks in use -----------------------------------------------------------------

// Two sites in lockstep, of which one always finds the bin as low as it gets; a third beside them.
void few_sites(Truth &truth, Blocks &kept)
{
    test::Rng rng;
    for (int i = 0; i < 60000; i++) {
        Truth::Block now = truth.allocate(0, 100);
        truth.free(now);
        kept.push_back(truth.allocate(1, 100));
        if (i % 3 == 0) kept.push_back(truth.allocate(2, rng.between(1, 700)));
    }
}

void many_sites(Truth &truth, Blocks &kept)
{
    test::Rng rng;
    kept.resize(3000);
    for (int i = 0; i < 300000; i++) {
        Truth::Block &block = kept[rng.below(kept.size())];
        truth.free(block);
        int site = (int)std::min(rng.below(SITES), rng.below(SITES));
        block = truth.allocate(site, rng.between(1, rng.below(8) == 0 ? 4000 : 300));
    }
}

// A loop on one block, and a swing, in the same class; a site that is seldom called among them.
void hot_class(Truth &truth, Blocks &kept)
{
    Blocks swing;
    for (int i = 0; i < 100; i++) {
        for (int j = 0; j < 3000; j++) {
            Truth::Block now = truth.allocate(0, 48);
            truth.free(now);
        }
        // Each tenth swing is so long that lists go back to their slabs.
        for (int j = 0; j < (i % 10 == 0 ? 20000 : 1000); j++) swing.push_back(truth.allocate(1, 48));
        for (int j = 0; j < 1000; j++) kept.push_back(truth.allocate(2, 41));
        for (Truth::Block &block : swing) truth.free(block);
        swing.clear();
    }
}

// 16 bytes to 64 MiB, even on a logarithmic scale; site by size.
void all_sizes(Truth &truth, Blocks &kept)
{
    test::Rng rng;
    kept.resize(200);
    for (int i = 0; i < 12000; i++) {
        double log2 = 4 + 22 * (double)rng.below(1 << 20) / (1 << 20);
        size_t size = (size_t)std::exp2(log2);
        Truth::Block &block = kept[rng.below(kept.size())];
        truth.free(block);
        block = truth.allocate((int)log2 - 4, size);
    }
}

void reallocs(Truth &truth, Blocks &kept)
{
    for (int i = 0; i < 600; i++) {
        Truth::Block block = truth.allocate(0, 24);
        for (size_t size = 48; size <= (i % 100 == 0 ? size_t{24} << 17 : size_t{24} << 9); size *= 2)
            truth.grow(block, 1 + (int)(size > SMALL_BYTES_MAX), size);
        if (i % 2 == 0) kept.push_back(block);
        else truth.free(block);
    }
}

void all_calls(Truth &truth, Blocks &kept)
{
    test::Rng rng;
    for (int i = 0; i < 60000; i++) {
        How how = i % 3 == 0 ? How::ALIGNED : i % 3 == 1 ? How::CALLOC : How::MALLOC;
        size_t size = rng.below(64) == 0 ? rng.between(1, 100000) : rng.between(1, 1000);
        Truth::Block block = truth.allocate(i % 3, size, how);
        if (how == How::CALLOC) EXPECT_TRUE(test::is_zero(block.start, size));
        if (how == How::ALIGNED) EXPECT_TRUE(test::is_aligned(block.start, 64));
        if (rng.below(2) == 0) kept.push_back(block);
        else truth.free(block);
    }
}

// Threads that end after a few allocations, most of which are freed by the next one.
void short_threads(Truth &truth, Blocks &kept)
{
    for (int i = 0; i < 400; i++) {
        test::in_thread([&] {
            for (size_t j = 0; j < kept.size(); j += 2) truth.free(kept[j]);
            std::erase_if(kept, [](const Truth::Block &block) { return block.start == nullptr; });
            for (int j = 0; j < 40; j++) kept.push_back(truth.allocate(0, 200));
            for (int j = 0; j < 10; j++) kept.push_back(truth.allocate(1, 1 + 16 * (size_t)j * (size_t)j));
        });
    }
}

// Two threads allocate, two others free.
void remote_frees(Truth &truth, Blocks &kept)
{
    std::mutex mutex;
    std::vector<Blocks> batches;
    std::atomic<int> producing{2};
    test::in_threads(4, [&](int number) {
        Truth mine(truth.mean_bytes);
        Blocks rest;
        test::Rng rng((uint64_t)number);
        for (int i = 0; number < 2 && i < 300; i++) {
            Blocks batch;
            for (int j = 0; j < 200; j++) batch.push_back(mine.allocate(number, rng.between(16, 400)));
            std::lock_guard<std::mutex> lock(mutex);
            batches.push_back(std::move(batch));
        }
        if (number < 2) producing--;
        for (bool is_done = false; number >= 2 && !is_done;) {
            Blocks batch;
            {
                std::lock_guard<std::mutex> lock(mutex);
                is_done = producing == 0 && batches.empty();
                if (!batches.empty()) {
                    batch = std::move(batches.back());
                    batches.pop_back();
                }
            }
            for (size_t j = 0; j < batch.size(); j++)
                if (j % 10 == 0) rest.push_back(batch[j]);
                else mine.free(batch[j]);
            Truth::Block own = mine.allocate(2, 64);
            mine.free(own);
        }
        std::lock_guard<std::mutex> lock(mutex);
        truth.add(mine);
        kept.insert(kept.end(), rest.begin(), rest.end());
    });
}

// --- the comparison ----------------------------------------------------------------------------------------------

struct Sums {
    double truth = 0, estimate = 0, variance = 0;
};

void expect_near(const char *what, int site, double estimate, double truth, double variance, double largest,
                 double total, double errors_max)
{
    if (truth < total / 100) return;
    double error = std::sqrt(variance);
    EXPECT_LE(std::abs(estimate - truth), errors_max * error + largest)
        << what << " of site " << site << ": " << estimate << " for " << truth << ", standard error " << error;
}

void run(void (*program)(Truth &, Blocks &), uint64_t mean_bytes, bool has_threads, uint64_t more_seeds)
{
    const char *text = getenv("HAKMEM_PROFILE_SEEDS");
    uint64_t seeds = text != nullptr ? strtoull(text, nullptr, 10) * more_seeds : 1;
    std::array<Sums, SITES> sums;
    uint64_t beyond = 0, compared = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        BySite before = estimates();
        ASSERT_EQ(profile_start(mean_bytes, seed * 1000003 + test::seed()), 0);
        Truth truth((double)mean_bytes);
        Blocks kept;
        program(truth, kept);
        BySite after = estimates();
        profile_stop();
        double total = 0, used_total = 0;
        for (const Figures &each : truth.of) total += each.bytes, used_total += each.used_bytes;
        for (int s = 0; s < SITES; s++) {
            double bytes = after[s].bytes - before[s].bytes, used = after[s].used_bytes - before[s].used_bytes;
            sums[s].truth += truth.of[s].bytes;
            sums[s].estimate += bytes;
            sums[s].variance += truth.variance[s].bytes;
            double errors_max = seeds > 1 ? 5 : has_threads ? 4 : 3;
            expect_near("bytes allocated", s, bytes, truth.of[s].bytes, truth.variance[s].bytes, truth.of[s].largest,
                        total, errors_max);
            expect_near("bytes in use", s, used, truth.of[s].used_bytes, truth.variance[s].used_bytes,
                        truth.of[s].largest, used_total, errors_max);
            if (truth.of[s].bytes < total / 100) continue;
            compared++;
            beyond +=
                std::abs(bytes - truth.of[s].bytes) > 3 * std::sqrt(truth.variance[s].bytes) + truth.of[s].largest;
        }
        for (Truth::Block &block : kept) truth.free(block);
        BySite freed = estimates();
        for (int s = 0; s < SITES; s++)
            EXPECT_EQ(freed[s].used_bytes, before[s].used_bytes) << "site " << s << " keeps samples of freed blocks";
    }
    if (seeds == 1) return;
    EXPECT_LE((double)beyond, 2 + 0.01 * (double)compared) << "of " << compared << " beyond 3 standard errors";
    double total = 0;
    for (const Sums &each : sums) total += each.truth;
    for (int s = 0; s < SITES; s++) {
        if (sums[s].truth < total / 100) continue;
        double ratio = sums[s].estimate / sums[s].truth, error = sqrt(sums[s].variance) / sums[s].truth;
        printf("site %d: %.2f MiB, mean of %llu estimates / truth %.4f, standard error %.4f\n", s,
               sums[s].truth / (double)seeds / 1048576, (unsigned long long)seeds, ratio, error);
        EXPECT_NEAR(ratio, 1, std::min(0.01, std::max(3.5 * error, 0.001))) << "site " << s; // some miss hardly a block
    }
}

} // namespace

class Profile : public testing::Test {
  protected:
    void SetUp() override
    {
        if (SANITIZED) GTEST_SKIP() << "builds with a sanitizer do not profile";
        char version[64];
        if (confstr(_CS_GNU_LIBC_VERSION, version, sizeof version) == 0)
            GTEST_SKIP() << "this libc has no unwinder: stacks are known where frame pointers are";
    }
    static void expect_right(void (*program)(Truth &, Blocks &), uint64_t mean, bool has_threads = false,
                             uint64_t more_seeds = 1)
    {
        EXPECT_TRUE(test::in_child([&] { run(program, mean, has_threads, more_seeds); }, 600));
    }
};

TEST_F(Profile, FewSites)
{
    expect_right(few_sites, 4096, false, 5);
}
TEST_F(Profile, ManySites)
{
    expect_right(many_sites, 2048, false, 3);
}
TEST_F(Profile, HotClass)
{
    expect_right(hot_class, 4096, false, 3);
}
TEST_F(Profile, AllSizes)
{
    expect_right(all_sizes, 1 << 20, false, 2);
}
TEST_F(Profile, Reallocs)
{
    expect_right(reallocs, 4096);
}
TEST_F(Profile, AllCalls)
{
    expect_right(all_calls, 8192);
}
TEST_F(Profile, ShortThreads)
{
    expect_right(short_threads, 4096, true, 5);
}
TEST_F(Profile, RemoteFrees)
{
    expect_right(remote_frees, 4096, true, 6);
}

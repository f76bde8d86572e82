// guard_rate_test.cc: how often malloc returns a sampled block when one in N is asked for, for programs that use their
// blocks in different ways.
#include "guard/guard_test_support.h"

namespace {

struct Counted {
    uint64_t blocks = 0, sampled = 0;
    void *malloc(size_t size)
    {
        void *block = hak_malloc(size);
        blocks++;
        sampled += test::is_sampled(block);
        return block;
    }
};

void load_mixed(Counted &counted, uint64_t count)
{
    test::Rng rng;
    std::vector<void *> blocks(2000);
    for (uint64_t i = 0; i < count; i++) {
        void *&block = blocks[rng.below(blocks.size())];
        hak_free(block);
        block = counted.malloc(rng.between(1, rng.below(4) == 0 ? 4096 : 256));
    }
    for (void *block : blocks) hak_free(block);
}

void load_tight(Counted &counted, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) hak_free(counted.malloc(64));
}

void load_swing(Counted &counted, uint64_t count)
{
    std::vector<void *> blocks;
    while (counted.blocks < count) {
        for (int i = 0; i < 20000; i++) blocks.push_back(counted.malloc(48));
        for (void *block : blocks) hak_free(block);
        blocks.clear();
    }
}

// Another thread frees all blocks.
void load_remote(Counted &counted, uint64_t count)
{
    std::vector<void *> blocks;
    while (counted.blocks < count) {
        for (int i = 0; i < 20000; i++) blocks.push_back(counted.malloc(100));
        test::in_thread([&] {
            for (void *block : blocks) hak_free(block);
        });
        blocks.clear();
    }
}

// Blocks that are too large to be sampled do not count.
void load_beside_larger(Counted &counted, uint64_t count)
{
    std::vector<void *> blocks;
    while (counted.blocks < count) {
        for (int i = 0; i < 5000; i++)
            blocks.push_back(i % 5 == 0 ? counted.malloc(48) : hak_malloc(GUARD_BYTES_MAX + 1));
        for (void *block : blocks) hak_free(block);
        blocks.clear();
    }
}

void expect_rate(uint32_t rate, void (*load)(Counted &, uint64_t), uint64_t count)
{
    Counted counted;
    load(counted, count);
    double expected = static_cast<double>(counted.blocks) / rate;
    printf("1 in %u: %llu of %llu sampled, %.2f of what was asked for\n", rate, (unsigned long long)counted.sampled,
           (unsigned long long)counted.blocks, static_cast<double>(counted.sampled) / expected);
    EXPECT_GT(static_cast<double>(counted.sampled), expected / 2);
    EXPECT_LT(static_cast<double>(counted.sampled), expected * 2);
}

} // namespace

class GuardRate : public test::GuardTest {
  protected:
    static void expect_rates(void (*load)(Counted &, uint64_t))
    {
        for (uint32_t rate : {100u, 1000u}) with(4096, rate, [&] { expect_rate(rate, load, 1000000); });
    }
};

TEST_F(GuardRate, Mixed)
{
    expect_rates(load_mixed);
}
TEST_F(GuardRate, TightLoop)
{
    expect_rates(load_tight);
}
TEST_F(GuardRate, Swing)
{
    expect_rates(load_swing);
}
TEST_F(GuardRate, FreedByOthers)
{
    expect_rates(load_remote);
}
TEST_F(GuardRate, BesideLarger)
{
    with(4096, 100, [] { expect_rate(100, load_beside_larger, 50000); });
}

// DUE_MAX: at most 64 samples, or those of LATE_MIN (4096) allocations, are due at one time. Aligned blocks count and are
// never sampled, so they let samples become due. Plain allocations then get all of those in a row.
TEST_F(GuardRate, SamplesThatAreDueAreBounded)
{
    const double due_max = 64;
    for (uint32_t rate : {100u, 10u})
        for (size_t late : {0u, 10u, 64u, 640u}) { // samples
            with(4096, rate, [&] {
                std::vector<void *> blocks;
                for (size_t i = 0; i < late * rate; i++) blocks.push_back(hak_aligned_alloc(32, 200));
                size_t sampled = 0;
                for (;; sampled++) {
                    blocks.push_back(hak_malloc(3000)); // of a class whose bin is empty
                    if (!test::is_sampled(blocks.back())) break;
                }
                double expected = std::min<double>(static_cast<double>(late), std::max(due_max, 4096.0 / rate));
                printf("1 in %u: %zu sampled in a row, when %zu were due\n", rate, sampled, late);
                EXPECT_LE(static_cast<double>(sampled), 1.3 * expected + 12);
                EXPECT_GE(static_cast<double>(sampled), 0.7 * expected - 12);
                for (void *each : blocks) hak_free(each);
            });
        }
}

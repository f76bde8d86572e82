// guard_rate_test.cc: how often malloc returns a sampled block when one in N is asked for, for programs that use their
// blocks in different ways, and what is never sampled.
#include "guard/guard_test_support.h"

#include <pthread.h>

extern "C" {
#include "os/os.h"
#include "profile/profile.h"
}

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

// Samples that are due while no slot is free are dropped: when there are slots again, they do not come all at once.
TEST_F(GuardRate, SamplesWithoutASlotAreDropped)
{
    const uint32_t slots = 64;
    with(slots, 100, [] {
        std::vector<void *> sampled;
        while (sampled.size() < slots) {
            void *block = hak_malloc(64);
            if (test::is_sampled(block)) sampled.push_back(block);
            else hak_free(block);
        }
        std::vector<void *> blocks;
        for (uint32_t i = 0; i < slots * 100; i++) blocks.push_back(hak_aligned_alloc(32, 200)); // as above
        blocks.push_back(hak_malloc(3000)); // of a class whose bin is empty
        EXPECT_FALSE(test::is_sampled(blocks.back()));
        for (void *block : sampled) hak_free(block);
        size_t in_a_row = 0;
        for (; test::is_sampled(blocks.emplace_back(hak_malloc(2500))); in_a_row++) {}
        EXPECT_LE(in_a_row, 12u);
        for (void *block : blocks) hak_free(block);
    });
}

namespace {

const os_ops *guard_below;
std::vector<void *> guard_inner;
bool guard_is_inside;

// Calls malloc while a sampled block is made, as an unwinder may. Each call is for another class, whose bin is empty.
int guard_commit(void *start, size_t size_bytes)
{
    if (size_bytes == os_page_bytes() && !guard_is_inside) {
        guard_is_inside = true;
        guard_inner.push_back(hak_malloc(16 * (guard_inner.size() + 2)));
        guard_is_inside = false;
    }
    return guard_below->commit(start, size_bytes);
}

} // namespace

TEST_F(GuardRate, WhatTheUnwinderAllocatesIsNotSampled)
{
    with(64, 1, [] {
        os_ops allocating = *(guard_below = os);
        allocating.commit = guard_commit;
        os = &allocating;
        std::vector<void *> outer;
        size_t sampled = 0;
        for (int i = 0; i < 1000000 && guard_inner.size() < 20; i++) {
            outer.push_back(hak_malloc(GUARD_BYTES_MAX));
            sampled += test::is_sampled(outer.back());
        }
        EXPECT_EQ(guard_inner.size(), 20u);
        for (void *block : guard_inner) EXPECT_FALSE(test::is_sampled(block));
        EXPECT_EQ(guard_figures().sampled, sampled);
        os = guard_below;
        for (void *block : guard_inner) hak_free(block);
        for (void *block : outer) hak_free(block);
    });
}

// The two sampled kinds share a word: threads that set one half each, at once, leave the other as it is.
TEST_F(GuardRate, EachHalfOfTheWordKeepsWhatWasSet)
{
    EXPECT_TRUE(test::in_child([] {
        std::atomic<int> ready{0};
        test::in_threads(2, [&](int thread) {
            ready++;
            while (ready < 2) {}
            for (uint32_t i = 1; i <= 300000 && !HasFailure(); i++) {
                thread == 0 ? guard_sample_set(i) : sampling_profile_set(i);
                ASSERT_EQ((uint32_t)(sampling_now() >> (thread == 0 ? 0 : 32)), i);
            }
            thread == 0 ? guard_sample_set(0) : sampling_profile_set(0);
        });
    }));
}

// After the destructor that gives up its heap, a thread borrows one for each call.
TEST_F(GuardRate, AThreadThatHasEndedIsServed)
{
    with(64, 10, [] {
        static pthread_key_t key;
        static size_t served;
        ASSERT_EQ(pthread_key_create(&key,
                                     [](void *) {
                                         if (tcache_self()->state != THREAD_ENDED)
                                             return (void)pthread_setspecific(key, &key); // the next round
                                         for (size_t size = 1; size <= SMALL_BYTES_MAX; size += 100) {
                                             void *block = hak_malloc(size);
                                             if (block == nullptr) continue;
                                             memset(block, 1, size);
                                             served++;
                                             hak_free(block);
                                         }
                                     }),
                  0);
        test::in_thread([] {
            for (int i = 0; i < 100; i++) hak_free(hak_malloc(100));
            pthread_setspecific(key, &key);
        });
        EXPECT_EQ(served, (SMALL_BYTES_MAX - 1) / 100 + 1u);
    });
}

// Sampled blocks for guards beside a heap profile: each block is in one place, whichever of the two takes a malloc.
TEST_F(GuardRate, AProfileAtOnce)
{
    if (SANITIZED) GTEST_SKIP() << "builds with a sanitizer do not profile";
    for (uint32_t rate : {1, 3, 20, 100})
        for (uint64_t mean : {1000, 16000, 64000})
            with(64, rate, [=] {
                ASSERT_EQ(profile_start(mean, 1), 0);
                test::Rng rng(rate);
                std::vector<std::pair<void *, size_t>> held(300);
                uint32_t guarded = 0, profiled = 0;
                for (int i = 0; i < 20000; i++) {
                    const size_t at = rng.below(held.size());
                    auto &[block, size] = held[at];
                    if (block != nullptr) ASSERT_TRUE(test::pattern_holds(block, size, at)) << i;
                    const size_t wanted = 1 + rng.below(rng.below(4) == 0 ? 4000 : 200);
                    if (block == nullptr || rng.below(3) == 0) {
                        block = hak_realloc(block, wanted);
                        size = wanted;
                        test::pattern_fill(block, size, at);
                    } else {
                        hak_free(block);
                        block = nullptr;
                        continue;
                    }
                    const uint32_t tag = pagemap_tag(block) & TAG_CLASS_MASK;
                    guarded += tag == CLASS_GUARD;
                    profiled += tag == CLASS_PROFILE;
                }
                EXPECT_TRUE(guarded > 0 && profiled > 0) << guarded << " " << profiled;
                for (auto &[block, size] : held) hak_free(block);
                profile_stop();
                guard_sample_set(0);
                test::expect_at_rest();
            });
}

// guard_rate_test.cc: how often malloc returns a sampled block when one in N is asked for, for programs that use their
// blocks in different ways, and what is never sampled.
#include "guard/guard_test_support.h"

#include <pthread.h>

#include <cmath>

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

// The heap shrinks each time, and its bins are emptied.
void load_shrink(Counted &counted, uint64_t count)
{
    test::Rng rng;
    std::vector<void *> blocks;
    while (counted.blocks < count) {
        for (int i = 0; i < 60000; i++) blocks.push_back(counted.malloc(rng.between(32, 1032)));
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

// Each thread ends before it has used up a list.
void load_short_threads(Counted &counted, uint64_t count)
{
    while (counted.blocks < count) {
        test::in_thread([&] {
            for (size_t i = 0; i < 500; i++) hak_free(counted.malloc(16 * (1 + i % 50)));
        });
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
    EXPECT_NEAR(static_cast<double>(counted.sampled), expected, 5 * std::sqrt(expected));
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
TEST_F(GuardRate, Shrink)
{
    with(4096, 1000, [] { expect_rate(1000, load_shrink, 4000000); });
}
TEST_F(GuardRate, FreedByOthers)
{
    expect_rates(load_remote);
}
TEST_F(GuardRate, ShortThreads)
{
    with(4096, 100, [] { expect_rate(100, load_short_threads, 100000); });
}
TEST_F(GuardRate, BesideLarger)
{
    with(4096, 100, [] { expect_rate(100, load_beside_larger, 50000); });
}

// One in 1 is every block that has a slot, of each size and whether or not blocks are freed between.
TEST_F(GuardRate, OneInOneIsEachBlock)
{
    with(4096, 1, [] {
        hak_purge(); // what the bins had before the rate was set is not counted
        for (bool is_freed : {false, true}) {
            std::vector<void *> blocks;
            for (size_t i = 0; i < 3000; i++) {
                void *block = hak_malloc(1 + i % GUARD_BYTES_MAX);
                EXPECT_TRUE(test::is_sampled(block)) << i;
                if (is_freed && i % 3 != 0) hak_free(block);
                else blocks.push_back(block);
            }
            for (void *block : blocks) hak_free(block);
        }
    });
}

// An aligned block is never sampled. A choice that it pops is dropped, so however many are, no samples come due for other
// blocks.
TEST_F(GuardRate, NoSampleIsOwed)
{
    for (uint32_t rate : {100u, 10u, 2u})
        for (size_t aligned : {0u, 10u, 64u, 640u})
            with(4096, rate, [&] {
                std::vector<void *> blocks;
                for (size_t i = 0; i < aligned * rate; i++) {
                    blocks.push_back(hak_aligned_alloc(32, 200));
                    ASSERT_FALSE(test::is_sampled(blocks.back()));
                }
                Counted counted;
                for (size_t i = 0; i < size_t{200} * rate; i++) blocks.push_back(counted.malloc(200));
                EXPECT_NEAR(static_cast<double>(counted.sampled), 200, 5 * std::sqrt(200));
                for (void *each : blocks) hak_free(each);
            });
}

// Choices that find no slot free are dropped: when there are slots again, they do not come all at once.
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

// Guards and the profile share a word: threads that set one part each, at once, leave the other as it is. Each change makes
// another word, unless nobody samples.
TEST_F(GuardRate, EachPartOfTheWordKeepsWhatWasSet)
{
    EXPECT_TRUE(test::in_child([] {
        std::atomic<int> ready{0};
        test::in_threads(2, [&](int thread) {
            ready++;
            while (ready < 2) {}
            for (uint32_t i = 1; i <= 300000 && !HasFailure(); i++) {
                const uint64_t before = sampling_now();
                thread == 0 ? sampling_guard_set(i % 5) : sampling_profile_set(i % 3 != 0);
                if (thread == 0) ASSERT_EQ(sampling_guard_rate(), i % 5);
                else ASSERT_EQ(sampling_now() >> 63 != 0, i % 3 != 0) << "the profile's bit";
                ASSERT_TRUE(sampling_now() == 0 || sampling_now() != before);
            }
            thread == 0 ? sampling_guard_set(0) : sampling_profile_set(false);
        });
        EXPECT_EQ(sampling_now(), 0u);
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

// The weights of a profile say how likely a block is chosen, so guards must not take its share.
TEST_F(GuardRate, AProfileKeepsItsShare)
{
    if (SANITIZED) GTEST_SKIP() << "builds with a sanitizer do not profile";
    for (uint32_t rate : {1, 2, 20})
        with(64, rate, [=] {
            const double mean = 1000, size = 100, count = 20000;
            ASSERT_EQ(profile_start((uint64_t)mean, 1), 0);
            hak_purge(); // blocks that were in bins before are not counted
            const double chance = -std::expm1(-(double)sizeclass_bytes(sizeclass_of((size_t)size)) / mean);
            uint32_t profiled = 0;
            for (int i = 0; i < (int)count; i++) {
                void *block = hak_malloc((size_t)size);
                profiled += (pagemap_tag(block) & TAG_CLASS_MASK) == CLASS_PROFILE;
                hak_free(block);
            }
            EXPECT_NEAR(profiled, count * chance, 6 * std::sqrt(count * chance)) << rate;
            profile_stop();
            sampling_guard_set(0);
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
                sampling_guard_set(0);
                test::expect_at_rest();
            });
}

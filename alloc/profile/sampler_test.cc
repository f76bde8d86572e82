// sampler_test.cc: the laws of sampler.h, for workloads of one class. More than 400 lines: all of them hold the same state to
// the same laws.
#include "heap/heap_test_support.h"

#include <functional>

extern "C" {
#include "cache/tcache.h"
#include "guard/guard.h"
#include "os/meta.h"
#include "os/os_fault.h"
#include "profile/profile.h"
#include "profile/sampler.h"
#include "slab/owner.h"
#include "superslab/pagemap.h"
}

class Sampler : public testing::Test {
  protected:
    void SetUp() override
    {
        if (SANITIZED) GTEST_SKIP() << "builds with a sanitizer do not profile";
    }
};

// What a class has in its bin, in magazines, and set aside by the profile.
struct Cached {
    size_t blocks, aside;
};

size_t length(const block *list)
{
    size_t count = 0;
    for (; list != nullptr; list = link_get(&list->next)) count++;
    return count;
}

size_t lengths(const block *lists)
{
    size_t count = 0;
    for (; lists != nullptr; lists = link_get(&lists->next_magazine)) count += length(lists);
    return count;
}

Cached cached(uint32_t class_index)
{
    const tcache *self = tcache_self();
    Cached now = {length(self->heads[class_index]) + lengths(self->heap->parking[class_index].magazines), 0};
    const sampler_class &state = self->heap->sampler->classes[class_index];
    for (const block *lists : state.aside) now.aside += lengths(lists);
    return now;
}

// The laws of sampler.h between two calls.
void expect_laws(uint32_t class_index)
{
    const tcache *self = tcache_self();
    const sampler_class &state = self->heap->sampler->classes[class_index];
    ASSERT_EQ(self->busy, 0u);
    ASSERT_EQ(self->heap->sampler->sampling, sampling_now()) << "or the quick way is never taken";
    ASSERT_FALSE(self->is_sampling);
    ASSERT_LE(self->credits[class_index], state.credit) << "frees spend it";
    ASSERT_LT(state.credit, state.left);
    if (state.kept > 0) ASSERT_EQ(state.credit, state.left - 1) << "no more is kept than must be";
    ASSERT_EQ(state.bin, parking_count(&self->heap->parking[class_index]));
    ASSERT_LE(state.uncounted_below, state.bin);
    for (int list = state.bin + 1; list < SAMPLER_LISTS_MAX; list++) ASSERT_EQ(state.aside[list], nullptr) << list;
}

// Runs a random workload of one class, and check() after each call, with the number of mallocs so far.
void walk(uint32_t class_index, size_t live_max, int calls, const std::function<void(size_t, size_t)> &check)
{
    test::Rng rng;
    std::vector<void *> live;
    size_t mallocs = 0, small = 0;
    const auto is_small = [&](void *block) { return tag_slab_class(pagemap_tag(block)) == class_index; };
    const auto give_back = [&] {
        std::swap(live[rng.below(live.size())], live.back());
        small -= is_small(live.back());
        hak_free(live.back());
        live.pop_back();
    };
    for (int call = 0; call < calls && !testing::Test::HasFatalFailure(); call++) {
        const bool grows = (call / (2 * (int)live_max)) % 2 == 0; // in turn mostly mallocs, and mostly frees
        if (live.empty() || (live.size() < live_max && rng.below(4) < (grows ? 3 : 1))) {
            live.push_back(hak_malloc(sizeclass_bytes(class_index)));
            mallocs++;
            small += is_small(live.back());
        } else {
            give_back();
        }
        check(mallocs, small);
    }
    while (!live.empty()) give_back();
}

// Sampling may be turned off while a thread begins its counts, and guards take no block of a large class.
TEST_F(Sampler, WhereNobodySamplesNoEntryIsChosen)
{
    EXPECT_TRUE(test::in_child([] {
        const size_t bytes = GUARD_BYTES_MAX + 1;
        for (uint32_t rate : {0u, 1000u}) {
            sampling_guard_set(rate);
            test::in_threads(1, [&](int) {
                hak_free(hak_malloc(bytes));
                const sampler_class *state = sampler_update(tcache_self(), sizeclass_of(bytes));
                ASSERT_NE(state, nullptr);
                expect_laws(sizeclass_of(bytes));
                EXPECT_GE(state->left, (uint64_t)1 << 61) << "one in " << rate;
            });
        }
    }));
}

// With a mean that is never reached: `left` falls by one for each block that enters the bin, by a free or in a list. So it
// does in the first slow path after a stack was unwound too, for which the thread forgets its counts.
TEST_F(Sampler, EachBlockThatEntersIsCountedOnce)
{
    EXPECT_TRUE(test::in_child([] {
        const uint32_t c = sizeclass_of(2048);
        ASSERT_EQ(profile_start((uint64_t)1 << 50, 7), 0);
        hak_purge();
        hak_free(hak_malloc(2048));
        const tcache *self = tcache_self();
        const sampler_class &state = self->heap->sampler->classes[c];
        uint64_t before = 0;
        walk(c, 3 * sizeclass_credit(c), 20000, [&](size_t mallocs, size_t) {
            expect_laws(c);
            const uint64_t left = state.left - (state.credit - self->credits[c]);
            const uint64_t now = left + mallocs + cached(c).blocks;
            if (before == 0) before = now;
            ASSERT_EQ(now, before) << "after " << mallocs << " mallocs";
            if (mallocs % 3 == 0) tcache_self()->sampler = nullptr;
        });
        EXPECT_EQ(cached(c).aside, 0u);
    }));
}

// What a heap has when the next thread takes it is not counted, in any class.
TEST_F(Sampler, AnHeirCountsFromItsStart)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start((uint64_t)1 << 50, 7), 0);
        hak_purge();
        while (owner_adopt() != nullptr) {} // so that the second thread gets the heap of the first
        test::in_thread([] {
            for (const auto &[align_bytes, size_bytes] : {std::pair(16, 16), {128, 1024}}) {
                std::vector<void *> blocks(5 * sizeclass_credit(1));
                for (void *&block : blocks) block = hak_aligned_alloc(align_bytes, size_bytes);
                for (void *block : blocks) hak_free(block);
            }
        });
        test::in_thread([] {
            hak_free(hak_malloc(2048));
            const tcache *self = tcache_self();
            for (const uint32_t c : {1u, (uint32_t)CLASS_COUNT - 1}) {
                const sampler_class &state = self->heap->sampler->classes[c];
                EXPECT_GT(state.bin, 0) << c;
                EXPECT_EQ(state.uncounted_below, state.bin) << c;
                EXPECT_EQ(state.credit, self->credits[c]) << c;
            }
        });
    }));
}

// The end of a thread takes back what was set aside, in the first class and the last.
TEST_F(Sampler, NothingIsSetAsideInAHeapWithoutAThread)
{
    EXPECT_TRUE(test::in_child([] {
        static heap *ended;
        static size_t aside[2];
        test::in_thread([] {
            profile_start((uint64_t)1 << 50, 7);
            std::vector<void *> blocks;
            for (int i = 0; i < 10; i++)
                for (const auto &[align_bytes, size_bytes] : {std::pair(16, 16), {128, 1024}})
                    blocks.push_back(hak_aligned_alloc(align_bytes, size_bytes));
            profile_start(1, 7); // each entry is chosen
            hak_purge();
            hak_free(hak_malloc(2048));
            for (void *block : blocks) hak_free(block);
            ended = tcache_self()->heap;
            aside[0] = cached(1).aside, aside[1] = cached(CLASS_COUNT - 1).aside;
        });
        for (const uint32_t c : {1u, (uint32_t)CLASS_COUNT - 1}) {
            EXPECT_GT(aside[c != 1], 0u) << c;
            for (const block *lists : ended->sampler->classes[c].aside) EXPECT_EQ(lists, nullptr) << c;
        }
    }));
}

// With means that are often reached no block is lost, whatever is set aside.
TEST_F(Sampler, WhatIsSetAsideStaysTheClasss)
{
    EXPECT_TRUE(test::in_child([] {
        const uint32_t c = sizeclass_of(2048);
        for (const uint64_t mean : {1000u, 5000u, 40000u}) {
            ASSERT_EQ(profile_start(mean, 7), 0);
            hak_purge();
            hak_free(hak_malloc(2048));
            const owner *owner = &tcache_self()->heap->owner;
            size_t other = SIZE_MAX, aside_most = 0;
            walk(c, 9 * sizeclass_credit(c), 10000, [&](size_t, size_t small) {
                expect_laws(c);
                const Cached now = cached(c);
                const size_t of_class = (small + now.blocks + now.aside) * sizeclass_bytes(c);
                if (other == SIZE_MAX) other = owner_used_bytes(owner) - of_class;
                ASSERT_EQ(owner_used_bytes(owner), of_class + other);
                aside_most = std::max(aside_most, now.aside);
            });
            EXPECT_GT(aside_most, 0u) << mean;
        }
    }));
}

// If a bin's list finds no room and goes back to its slabs, what was set aside of it does too.
TEST_F(Sampler, AListThatGoesBackTakesItsChoices)
{
    for (const bool is_long : {false, true}) // by the long way round, each time
        EXPECT_TRUE(test::in_child([=] {
            const uint32_t c = sizeclass_of(2048);
            ASSERT_EQ(profile_start(60000, 7), 0);
            hak_purge();
            std::vector<void *> blocks(40 * sizeclass_credit(c));
            for (void *&block : blocks) block = hak_malloc(2048);
            tcache *self = tcache_self();
            const sampler_class &state = self->heap->sampler->classes[c];
            size_t live = 0, other = SIZE_MAX;
            for (void *block : blocks) live += tag_slab_class(pagemap_tag(block)) == c;
            int with_choices = 0;
            for (void *block : blocks) {
                const bool is_lent = tag_slab_class(pagemap_tag(block)) != c; // by another class
                const bool parks = !is_lent && self->credits[c] == 0 && state.kept == 0 && self->heads[c] != nullptr;
                const bool has_choices = parks && state.aside[state.bin] != nullptr;
                const uint32_t parked = self->heap->parked;
                live -= !is_lent;
                if (is_long) self->sampler = nullptr;
                hak_free(block);
                const Cached now = cached(c);
                const size_t of_class = (live + now.blocks + now.aside) * sizeclass_bytes(c);
                if (other == SIZE_MAX) other = owner_used_bytes(&self->heap->owner) - of_class;
                ASSERT_EQ(owner_used_bytes(&self->heap->owner), of_class + other);
                if (!has_choices || self->heap->parked != parked) continue;
                with_choices++;
                const struct block *aside = state.aside[state.bin];
                ASSERT_TRUE(aside == nullptr || ((void *)aside == block && link_get(&aside->next_magazine) == nullptr));
            }
            EXPECT_GT(with_choices, 0);
        }));
}

// Fills magazines of the class, then lets each entry be chosen. Returns what is first of the choices of the bin's list.
void *bin_with_a_choice(uint32_t c)
{
    const size_t bytes = sizeclass_bytes(c);
    profile_start((uint64_t)1 << 50, 7);
    std::vector<void *> blocks(3 * sizeclass_credit(c) + 1);
    for (void *&block : blocks) block = hak_malloc(bytes);
    for (void *block : blocks) hak_free(block);
    profile_start(1, 7);
    void *last = hak_malloc(bytes), *sampled;
    while ((sampled = hak_malloc(bytes)), profile_used_bytes() == 0) last = sampled;
    hak_free(sampled);
    hak_free(last);
    const sampler_class &state = tcache_self()->heap->sampler->classes[c];
    EXPECT_GT(state.bin, 0);
    EXPECT_EQ((void *)state.aside[state.bin], last);
    return last;
}

// Without memory for samples or slabs, each choice that is set aside still serves a malloc, before the first that fails.
TEST_F(Sampler, WithoutMemoryWhatIsSetAsideServes)
{
    EXPECT_TRUE(test::in_child([] {
        const uint32_t c = sizeclass_of(2048);
        ASSERT_EQ(profile_start((uint64_t)1 << 50, 7), 0);
        std::vector<void *> blocks(sizeclass_credit(c) / 2);
        for (void *&block : blocks) block = hak_malloc(2048);
        ASSERT_EQ(profile_start(1, 7), 0); // each entry is chosen
        hak_purge();
        void *sampled = hak_malloc(2048);
        ASSERT_EQ(profile_used_bytes(), 2048u);
        for (void *block : blocks) hak_free(block);
        ASSERT_GE(cached(c).aside, blocks.size());
        os_fault_install(1, true);
        while (meta_alloc(64) != nullptr) {}
        std::set<void *> served;
        while (void *block = hak_malloc(2048)) served.insert(block);
        os_fault_remove();
        EXPECT_EQ(profile_used_bytes(), 2048u) << "no more is sampled";
        for (void *block : blocks) EXPECT_TRUE(served.contains(block));
        for (void *block : served) hak_free(block);
        hak_free(sampled);
    }));
}

// A child that is forked in the unwinder may have lost its heap. Its malloc is served.
TEST_F(Sampler, WithoutAHeapABlockIsServed)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1, 7), 0);
        test::in_thread([] {
            ASSERT_EQ(tcache_self()->heap, nullptr);
            void *block = sampler_unsampled(sizeclass_of(2048));
            EXPECT_NE(block, nullptr);
            hak_free(block);
        });
    }));
}

// A visit takes the magazines with their choices, and leaves the bin's list its own. The next slow path is a malloc.
TEST_F(Sampler, AVisitLeavesTheBinsChoices)
{
    EXPECT_TRUE(test::in_child([] {
        const uint32_t c = sizeclass_of(2048);
        void *last = bin_with_a_choice(c);
        test::in_thread([] { hak_purge_all(); });
        ASSERT_EQ(parking_count(&tcache_self()->heap->parking[c]), 0);
        void *sampled = hak_malloc(2048);
        EXPECT_EQ(profile_used_bytes(), 2048u);
        EXPECT_EQ((void *)tcache_self()->heap->sampler->classes[c].aside[0], last)
            << "the sample serves the malloc, and the block enters again";
        hak_free(sampled);
        expect_laws(c);
    }));
}

// The same where the next slow path is a free that parks the bin's list.
TEST_F(Sampler, AVisitLeavesTheBinsChoicesToAPark)
{
    EXPECT_TRUE(test::in_child([] {
        const uint32_t c = sizeclass_of(2048);
        std::vector<void *> blocks(2 * sizeclass_credit(c));
        for (void *&block : blocks) block = hak_malloc(2048);
        void *last = bin_with_a_choice(c);
        test::in_thread([] { hak_purge_all(); });
        sampler_class &state = tcache_self()->heap->sampler->classes[c];
        state.left = (uint64_t)1 << 40; // no other entry is chosen
        sampler_arm(tcache_self(), &state, c);
        const parking &lists = tcache_self()->heap->parking[c];
        while (lists.count == 0) {
            ASSERT_FALSE(blocks.empty());
            hak_free(blocks.back());
            blocks.pop_back();
        }
        EXPECT_EQ((void *)state.aside[0], last) << "its list is the magazine now";
        expect_laws(c);
        for (void *block : blocks) hak_free(block);
    }));
}

// Whether the rest of a list is counted stays with the bin's list where a visit takes the magazines.
TEST_F(Sampler, AVisitLeavesWhatIsCounted)
{
    for (const bool is_uncounted : {false, true})
        EXPECT_TRUE(test::in_child([=] {
            const uint32_t c = sizeclass_of(2048);
            bin_with_a_choice(c);
            sampler_class &state = tcache_self()->heap->sampler->classes[c];
            const uint8_t of_bin = (uint8_t)(1u << state.bin);
            state.uncounted_last = is_uncounted ? of_bin : (uint8_t)~of_bin;
            state.left = (uint64_t)1 << 40; // no other entry is chosen
            sampler_arm(tcache_self(), &state, c);
            test::in_thread([] { hak_purge_all(); });
            void *block = hak_malloc(2048);
            tcache_self()->credits[c] = 0;
            sampler_parks_any(block, tcache_self(), c);
            EXPECT_EQ(state.uncounted_last, is_uncounted ? 1 : 0);
        }));
}

// A visit between the two halves of a free that parks nothing takes the magazines: so go all choices.
TEST_F(Sampler, AVisitWithinAFree)
{
    EXPECT_TRUE(test::in_child([] {
        const uint32_t c = sizeclass_of(2048);
        bin_with_a_choice(c);
        tcache *self = tcache_self();
        test::in_thread([] { hak_purge_all(); });
        const auto other = [&] {
            const Cached now = cached(c);
            return owner_used_bytes(&self->heap->owner) - (now.blocks + now.aside) * sizeclass_bytes(c);
        };
        const size_t before = other();
        sampler_parked_any(self, c, false);
        EXPECT_EQ(other(), before) << "none is lost";
        expect_laws(c);
        size_t choices = 0; // the bin's first block enters again, and is chosen
        for (const block *lists : self->heap->sampler->classes[c].aside) choices += lists != nullptr;
        EXPECT_LE(choices, 1u);
    }));
}

// A bin takes as many frees as it would without a profile: what the law keeps of its credit is not lost.
TEST_F(Sampler, ABinsCreditStays)
{
    const uint32_t c = sizeclass_of(2048);
    for (const uint64_t mean : {(uint64_t)0, (uint64_t)40000, (uint64_t)200000, (uint64_t)1 << 50}) {
        EXPECT_TRUE(test::in_child([=] {
            if (mean != 0) ASSERT_EQ(profile_start(mean, 7), 0);
            hak_purge();
            const tcache *self = tcache_self();
            std::vector<void *> blocks(4 * sizeclass_credit(c));
            for (void *&block : blocks) block = hak_malloc(2048);
            size_t frees = 0;
            std::vector<size_t> parks; // after how many frees of blocks that were not sampled
            for (void *block : blocks) {
                const uint32_t before = self->heap->parked;
                const bool is_small = tag_slab_class(pagemap_tag(block)) == c;
                hak_free(block);
                if (self->heap->parked != before) parks.push_back(frees);
                frees += is_small;
            }
            const size_t credit = sizeclass_credit(c);
            EXPECT_EQ(parks, (std::vector<size_t>{credit, 2 * credit, 3 * credit})) << mean;
        }));
    }
}

// A thread whose destructor has run has no heap, and borrows one for each call: its blocks are not counted.
TEST_F(Sampler, AThreadThatHasEndedIsServed)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1, 7), 0);
        static size_t served;
        static pthread_key_t key;
        ASSERT_EQ(pthread_key_create(&key,
                                     [](void *) {
                                         if (tcache_self()->state != THREAD_ENDED)
                                             return (void)pthread_setspecific(key, &key); // the next round
                                         for (size_t size = 16; size <= SMALL_BYTES_MAX; size += 128) {
                                             void *blocks[3];
                                             for (void *&block : blocks) block = hak_malloc(size);
                                             EXPECT_EQ(tcache_self()->heap, nullptr);
                                             for (void *block : blocks) {
                                                 served += block != nullptr;
                                                 hak_free(block);
                                             }
                                         }
                                     }),
                  0);
        test::in_thread([] {
            hak_free(hak_malloc(100));
            pthread_setspecific(key, &key);
        });
        EXPECT_EQ(served, 3u * (SMALL_BYTES_MAX / 128));
    }));
}

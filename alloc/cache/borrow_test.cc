// borrow_test.cc: idle blocks that a refill takes from larger classes.
#include "heap/heap_test_support.h"

#include <set>

extern "C" {
#include "cache/borrow.h"
#include "guard/guard.h"
#include "os/libc.h"
#include "profile/profile.h"
#include "profile/sampler.h"
#include "slab/slab.h"
#include "superslab/limit.h"
#include "superslab/pagemap.h"
}

namespace {

class Borrow : public test::HeapTest {
  protected:
    static std::vector<void *> take(size_t size, size_t count)
    {
        std::vector<void *> blocks(count);
        for (void *&block : blocks) block = hak_malloc(size);
        return blocks;
    }
    static void give_back(const std::vector<void *> &blocks)
    {
        for (void *block : blocks) hak_free(block);
    }
    static size_t bytes_of(const void *block) { return sizeclass_bytes(slab_of(block)->class_index); }
    tcache *self = tcache_self();
};

} // namespace

// What lies idle in the bin, in parked lists and on the slab's free list of a larger class. One for each BORROWED_BYTES of
// the fresh memory; then that is taken.
TEST_F(Borrow, ARefillBorrowsBeforeItTakesFreshMemory)
{
    for (size_t size : {1152u, 2048u, 4608u, 9216u, 12288u}) {
        const uint32_t c = sizeclass_of(size), most = std::max<uint32_t>(CARVE_BYTES, size) / BORROWED_BYTES;
        uint32_t lender = c + 1;
        const size_t align = size & -size;
        while (sizeclass_bytes(lender) % align != 0) lender++;
        hak_purge();
        std::vector<void *> kept = take(sizeclass_bytes(lender), most); // else the heap shrinks and trims itself
        std::vector<void *> lent = take(sizeclass_bytes(lender), most + 1);
        const std::set<void *> idle(lent.begin(), lent.end());
        give_back(lent);
        std::vector<void *> blocks = take(size, most);
        for (void *block : blocks) {
            EXPECT_TRUE(idle.count(block)) << size;
            EXPECT_EQ(bytes_of(block), sizeclass_bytes(lender));
            EXPECT_EQ((uintptr_t)block % align, 0u) << size;
        }
        EXPECT_EQ(self->heap->parking[c].borrowed, most);
        blocks.push_back(hak_malloc(size));
        EXPECT_EQ(bytes_of(blocks.back()), size) << "fresh";
        EXPECT_EQ(self->heap->parking[c].borrowed, 0u);
        give_back(blocks);
        EXPECT_EQ(hak_malloc(size), blocks.back()) << "its own first";
        hak_free(blocks.back());
        give_back(kept);
    }
}

// Fresh memory begins a new count, also where the class took it because nothing lay idle.
TEST_F(Borrow, FreshMemoryBeginsANewCount)
{
    hak_purge();
    hak_free(hak_malloc(5120));
    const std::vector<void *> blocks = take(4608, 2);
    EXPECT_EQ(bytes_of(blocks[0]), 5120u);
    EXPECT_EQ(bytes_of(blocks[1]), 4608u) << "fresh";
    EXPECT_EQ(self->heap->parking[sizeclass_of(4608)].borrowed, 0u);
    give_back(blocks);
}

// One block of those on a slab's free list; the others stay there.
TEST_F(Borrow, OneBlockOfASlabsFreeList)
{
    const uint32_t lender = sizeclass_of(5120);
    hak_purge();
    void *kept = hak_malloc(5120);
    const std::vector<void *> lent = take(5120, 3);
    give_back(lent);
    test::empty_bin(lender);
    std::vector<void *> blocks = {hak_malloc(4608)};
    EXPECT_EQ(bytes_of(blocks[0]), 5120u);
    EXPECT_EQ(self->heads[lender], nullptr);
    blocks.push_back(hak_malloc(5120));
    blocks.push_back(hak_malloc(5120));
    EXPECT_EQ(std::set<void *>(blocks.begin(), blocks.end()), std::set<void *>(lent.begin(), lent.end()));
    give_back(blocks);
    hak_free(kept);
}

TEST_F(Borrow, WhatARefillMayBorrow)
{
    const auto lends = [&](uint32_t lender, uint32_t c) {
        hak_purge();
        hak_free(hak_malloc(sizeclass_bytes(lender)));
        void *block = hak_malloc(sizeclass_bytes(c));
        const size_t got = bytes_of(block);
        EXPECT_TRUE(got == sizeclass_bytes(lender) || got == sizeclass_bytes(c)) << got;
        hak_free(block);
        return got == sizeclass_bytes(lender);
    };
    const uint32_t first = CLASS_LINEAR_LAST + 1, last = CLASS_GEOMETRIC_LAST;
    EXPECT_FALSE(lends(first, first - 1)) << "1 KiB";
    EXPECT_TRUE(lends(first + 1, first));
    EXPECT_TRUE(lends(first + BORROW_CLASSES_MAX, first));
    EXPECT_FALSE(lends(first + BORROW_CLASSES_MAX + 1, first));
    EXPECT_TRUE(lends(last, last - 1));
    EXPECT_TRUE(lends(sizeclass_of(12288), sizeclass_of(10240))) << "both are multiples of 2 KiB";
    EXPECT_FALSE(lends(sizeclass_of(11264), sizeclass_of(10240))) << "not aligned to 2 KiB";

    hak_purge();
    hak_free(hak_aligned_alloc(256, 1024)); // of a class behind the last
    void *block = hak_malloc(sizeclass_bytes(last));
    EXPECT_EQ(bytes_of(block), sizeclass_bytes(last));
    hak_free(block);
}

// If there is no fresh memory, the count does not keep a class from what lies idle. None of the blocks that are freed here
// covers a page of the system, so that a trim leaves them.
TEST_F(Borrow, WithoutFreshMemoryAllThatLiesIdleIsLent)
{
    const size_t most = 4608 / BORROWED_BYTES;
    std::vector<void *> kept = take(5120, 16 * most), idle;
    for (void *&block : kept) {
        slab *of = slab_of(block);
        const auto offset = (size_t)((char *)block - slab_start((superslab *)pagemap_descriptor(block), of));
        if (offset / 5120 % 4 == 1) idle.push_back(std::exchange(block, nullptr));
    }
    ASSERT_GT(idle.size(), 2 * most);
    give_back(idle);
    hak_purge();
    limit_set(limit_committed_bytes());
    std::vector<void *> blocks;
    while (void *block = hak_malloc(4608)) blocks.push_back(block);
    limit_set(SIZE_MAX);
    EXPECT_EQ(std::set<void *>(blocks.begin(), blocks.end()), std::set<void *>(idle.begin(), idle.end()));
    blocks.push_back(hak_malloc(4608));
    EXPECT_EQ(bytes_of(blocks.back()), 4608u) << "fresh";
    give_back(blocks);
    give_back(kept);
}

// The profile would count blocks of another size. Guards do not mind.
TEST_F(Borrow, AHeapThatWasProfiledBorrowsNothing)
{
    if (SANITIZED || VALIDATE) GTEST_SKIP() << "builds with a sanitizer or with checks do not profile";
    EXPECT_TRUE(test::in_child([] {
        ASSERT_EQ(profile_start(1e12, 7), 0);
        hak_purge();
        for (bool is_on : {true, false}) {
            hak_free(hak_malloc(5120));
            void *block = hak_malloc(4608);
            EXPECT_EQ(bytes_of(block), 4608u) << is_on;
            hak_purge_all();
            hak_free(block);
            hak_purge();
            profile_stop();
        }
    }));
}

// A borrowed block is no entry of the class that borrows, whose lists would have a block of another class if it were chosen.
TEST_F(Borrow, AHeapWithGuardsBorrowsAndKeepsClassesApart)
{
    if (VALIDATE) GTEST_SKIP() << "the debug-validation build does not sample";
    EXPECT_TRUE(test::in_child([] {
        const auto expect_class = [](const block *list, uint32_t c) {
            for (; list != nullptr; list = link_get(&list->next)) ASSERT_EQ(slab_of(list)->class_index, c);
        };
        void *frame;
        os_backtrace(&frame, 1); // the unwinder may allocate at its first use
        ASSERT_TRUE(guard_start(64));
        sampling_guard_set(2);
        test::Rng rng;
        std::vector<void *> blocks(300);
        int borrowed = 0;
        for (int i = 0; i < 20000 && !HasFailure(); i++) {
            void *&at = blocks[rng.below(1 + rng.below(blocks.size()))];
            hak_free(at);
            const size_t size = 1025 + rng.below(3000);
            at = hak_malloc(size);
            const uint32_t c = tag_slab_class(pagemap_tag(at));
            borrowed += c != CLASS_EMPTY && c != sizeclass_of(size);
            const heap *heap = tcache_self()->heap;
            for (uint32_t each = CLASS_LINEAR_LAST; each < CLASS_COUNT; each++) {
                expect_class(tcache_self()->heads[each], each);
                for (const block *lists : heap->sampler->classes[each].aside)
                    for (; lists != nullptr; lists = link_get(&lists->next_magazine)) expect_class(lists, each);
            }
        }
        EXPECT_GT(borrowed, 10);
        sampling_guard_set(0);
        give_back(blocks);
        test::expect_at_rest();
    }));
}

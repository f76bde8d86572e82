// broken_test.cc: what the release build does when blocks are freed twice. Each test exceeds a bound of
// report/broken.h, which ends the process with a line that names the class and the list. In the debug-validation build
// the failfast checks come first.
#include "heap/heap_test_support.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <vector>

extern "C" {
#include "debug/describe.h"
#include "profile/sampler.h"
#include "report/broken.h"
#include "slab/remote.h"
#include "slab/slab.h"
#include "slab/hollow.h"
#include "slab/trim.h"
}

namespace {

constexpr uint32_t CLASS_64 = 4;

class BrokenDeathTest : public test::HeapTest {
  protected:
    static block *take(size_t size_bytes) { return static_cast<block *>(hak_malloc(size_bytes)); }
};

class FreedAtOnce : public test::HeapTest {};

// SIGALRM ends a walk that has no bound.
#define EXPECT_BROKEN(statement, text) \
    EXPECT_EXIT((alarm(10), (statement)), testing::KilledBySignal(SIGABRT), "hakmem: broken: " text)

// The bin's list becomes a cycle. The block is the only one in use in its slab, so its second return is one too many.
void free_twice()
{
    void *block = hak_malloc(64);
    tcache_flush(tcache_self());
    hak_free(block);
    hak_free(block);
    hak_purge();
}

// Slabs of 1 KiB blocks, carved to their end, with every other block free. Returns a block in use.
block *thin_slabs()
{
    std::vector<void *> blocks(1000);
    for (void *&block : blocks) block = hak_malloc(1024);
    test::in_thread([&] { // so that they get on the slabs' lists
        for (size_t i = 0; i < blocks.size(); i += 2) hak_free(blocks[i]);
    });
    tcache_flush(tcache_self());
    return static_cast<block *>(blocks[501]);
}

void tell_suspect(int)
{
    describe_suspect suspect;
    bool elsewhere = true;
    test::in_thread([&] { elsewhere = describe_bad_link(&suspect); });
    bool first = describe_bad_link(&suspect);
    fprintf(stderr, "class %u: %s\n", suspect.class_index, suspect.text);
    first &= suspect.value == *(const uint64_t *)suspect.word;
    _exit(!elsewhere && first && !describe_bad_link(&suspect) ? 7 : 8);
}

} // namespace

TEST_F(BrokenDeathTest, MoreReturnedThanGivenOut)
{
    EXPECT_BROKEN(free_twice(),
                  "class 4 \\(64 bytes\\): a slab got back more.*; found at 0x.*: a block was freed twice");
}

// A slab's descriptor that was overwritten may name any class.
TEST_F(BrokenDeathTest, AClassThatIsNone)
{
    EXPECT_BROKEN(broken(BROKEN_bin, CLASS_COUNT - 1, nullptr), "class [0-9]* \\(1024 bytes\\): ");
    EXPECT_BROKEN(broken(BROKEN_bin, CLASS_COUNT, nullptr), "class [0-9]* \\(0 bytes\\): ");
    EXPECT_BROKEN(broken(BROKEN_bin, UINT32_MAX, nullptr), "class 4294967295 \\(0 bytes\\): ");
}

// Once, and only in the thread that found it.
TEST_F(BrokenDeathTest, TheRecordsSuspectIsToldOnce)
{
    EXPECT_EXIT((alarm(10), signal(SIGABRT, tell_suspect), free_twice()), testing::ExitedWithCode(7),
                "class 4: a slab got back more");
}

TEST_F(BrokenDeathTest, ChainOfMagazines)
{
    block *first = take(64), *second = take(64);
    auto chain = [&] {
        parking &parked = tcache_self()->heap->parking[CLASS_64];
        *first = {nullptr, {second}};
        *second = {nullptr, {nullptr}};
        parked.magazines = first;
        parked.count = 1;
        heap_magazines_give_back(tcache_self()->heap);
    };
    EXPECT_BROKEN(chain(), "class 4 .*the chain of parked lists");
    hak_free(first);
    hak_free(second);
}

TEST_F(BrokenDeathTest, PostedBatches)
{
    block *only = take(64), *other = take(64);
    slab *s = slab_of(only);
    ASSERT_EQ(slab_of(other), s);
    remote_post(s, other, other, 1);
    remote_drain(s->owner);
    ASSERT_NE(s->free, nullptr) << "the tail is wanted where the slab has a list";
    auto post = [&] {
        remote_post(s, only, only, 1);
        *only = {only, {only}};
        remote_drain(s->owner);
    };
    EXPECT_BROKEN(post(), "class 4 .*the list of blocks that other threads freed does not end");
    hak_free(only);
}

TEST_F(BrokenDeathTest, QueuedWithoutPostedBlocks)
{
    block *only = take(64);
    slab *s = slab_of(only);
    auto post = [&] {
        remote_post(s, only, only, 1);
        s->remote.store(0);
        remote_drain(s->owner);
    };
    EXPECT_BROKEN(post(), "class 4 .*a slab is queued for its owner");
    hak_free(only);
}

TEST_F(BrokenDeathTest, FreeListOfASlab)
{
    auto circle = [] {
        slab *s = slab_of(thin_slabs());
        s->free->next = s->free;
        slab_trim_all(s->owner);
    };
    auto stray = [](ptrdiff_t bytes) {
        slab *s = slab_of(thin_slabs());
        s->free->next = reinterpret_cast<block *>(reinterpret_cast<char *>(s->free) + bytes);
        slab_trim_all(s->owner);
    };
    EXPECT_BROKEN(circle(), "class 64 .*a slab's free list does not end");
    EXPECT_BROKEN(stray(PAGE_BYTES), "class 64 .*a slab's free list does not end, or leaves the slab");
    EXPECT_BROKEN(stray(-(ptrdiff_t)PAGE_BYTES), "class 64 .*a slab's free list does not end, or leaves the slab");
}

TEST_F(BrokenDeathTest, ListOfSlabs)
{
    auto break_list = [] {
        slab *s = slab_of(thin_slabs());
        s->next->prev = s->next;
        slab_trim_all(s->owner);
    };
    EXPECT_BROKEN(break_list(), "class 64 .*the list of slabs");
}

TEST_F(BrokenDeathTest, HollowWithoutHollowPages)
{
    auto carve = [] {
        slab *s = slab_of(thin_slabs());
        uint32_t count;
        slab_carve_hollow(s, &count);
    };
    EXPECT_BROKEN(carve(), "class 64 .*a slab has no page left");
}

TEST_F(BrokenDeathTest, BinWhereBlocksAreSampled)
{
    const auto count = [] {
        sampling_guard_set(1 << 30); // none is chosen
        sampler_update(tcache_self(), CLASS_64);
    };
    auto circle = [&] {
        block *only = take(64);
        only->next = only;
        tcache_self()->heads[CLASS_64] = only;
        count();
    };
    EXPECT_BROKEN(circle(), "class 4 .*the list that a thread allocates from does not end");
    // A list has at most as many blocks as the heap has in use.
    auto list_of = [&](int beside) {
        hak_free(take(64));
        const size_t in_use = owner_used_bytes(&tcache_self()->heap->owner) / 64;
        std::vector<block> blocks(in_use + (size_t)beside);
        for (size_t i = 0; i < blocks.size(); i++) blocks[i].next = i + 1 < blocks.size() ? &blocks[i + 1] : nullptr;
        tcache_self()->heads[CLASS_64] = blocks.data();
        count();
        _exit(7);
    };
    EXPECT_EXIT(list_of(0), testing::ExitedWithCode(7), "");
    EXPECT_BROKEN(list_of(1), "class 4 .*the list that a thread allocates from does not end");
}

// Two threads free one run or huge block at the same moment. Its memory must be freed once, and not be handed out
// twice.
TEST_F(FreedAtOnce, ARunOrAHugeBlock)
{
    if (SANITIZED) GTEST_SKIP() << "the sanitizer reports the double free";
    for (size_t size : {3 * test::MIB, test::MIB}) {
        for (int round = 0; round < test::rounds(200); round++) {
            void *block = hak_malloc(size);
            std::atomic<int> waiting{2};
            test::in_threads(2, [&](int) {
                waiting--;
                while (waiting > 0) continue;
                hak_free(block);
            });
            void *first = hak_malloc(size), *second = hak_malloc(size);
            EXPECT_NE(first, second) << round;
            hak_free(first);
            hak_free(second);
        }
    }
}

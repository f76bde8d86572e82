// inspect_test.cc: hak_inspect reports each law that is broken, with the place. The tests change one member at a time
// and restore it.
#include "heap/heap_test_support.h"

#include <array>
#include <utility>

extern "C" {
#include "cache/tcache.h"
#include "heap/own_inside.h"
#include "slab/remote.h"
#include "slab/slab.h"
#include "superslab/kept.h"
#include "superslab/purge.h"
}

namespace {

void expect_broken(const char *law, const void *address)
{
    hak_inspect_report report;
    EXPECT_FALSE(hak_inspect(&report)) << law;
    ASSERT_NE(report.broken_law, nullptr);
    EXPECT_EQ(std::string(report.broken_law), law);
    EXPECT_EQ(report.address, address) << law;
}

// Expects that another value of the member breaks the law, and that all laws hold again with the old value.
template <class Field, class Value>
void expect_broken_by(Field &field, Value value, const char *law, const void *address)
{
    Value sound = field;
    ASSERT_NE(sound, value);
    field = value;
    expect_broken(law, address);
    field = sound;
    test::inspected();
}

// A slab with blocks in use, some on its free list, and some not carved.
class Inspect : public test::HeapTest {
  protected:
    void SetUp() override
    {
        test::HeapTest::SetUp();
        for (void *&block : blocks) block = hak_malloc(208);
        // Some of them by another thread: these are on the slab's list, and the others have bits.
        for (size_t i = 0; i < blocks.size() / 2; i += 2) hak_free(blocks[i]);
        test::in_thread([&] {
            for (size_t i = blocks.size() / 2; i < blocks.size(); i += 2) hak_free(blocks[i]);
        });
        tcache_flush(tcache_self()); // no purge, which would trim the slab
        slab = slab_of(blocks[1]);
        for (size_t i = 1; i < blocks.size(); i += 2) ASSERT_EQ(slab_of(blocks[i]), slab) << "they fit into one";
        ASSERT_NE(slab->free, nullptr);
        superslab = superslab_of(slab);
        start = superslab_page_start(superslab, slab);
        test::inspected();
    }
    void TearDown() override
    {
        for (size_t i = 1; i < blocks.size(); i += 2) hak_free(blocks[i]);
        test::HeapTest::TearDown();
    }

    std::array<void *, 40> blocks;
    struct slab *slab;
    struct superslab *superslab;
    char *start;
};

TEST_F(Inspect, ASlabsBlocks)
{
    const char *law = "law 1: used + free = carved <= capacity";
    expect_broken_by(slab->carved_count, (uint16_t)(slab->carved_count + 1), law, start);
    expect_broken_by(slab->used_count, (uint16_t)(slab->used_count + 1), law, start);
    expect_broken_by(slab->free, (struct block *)nullptr, law, start);
    uint64_t &marks = *slab_marks(slab);
    for (uint32_t bit = 0; bit < 64; bit++) expect_broken_by(marks, marks ^ 1ull << bit, law, start);
    slab->linked_count++;
    expect_broken(law, start);
    slab->linked_count--;
    expect_broken_by(slab->capacity, (uint16_t)(slab->carved_count - 1), law, start);
    struct block *second = slab->free->next;
    expect_broken_by(second->next, slab->free, law, start); /* a circle ends by its bound */
    slab->full = true; // a bit-field, to which no reference binds; so is the next one
    expect_broken("law 1: listed exactly when it can give blocks", start);
    slab->full = false;
    const char *hollow = "law 1: a hollow slab has blocks to carve where its pages' bits say";
    slab->hollow = true;
    expect_broken(hollow, start);
    slab->hollow = false;
    test::inspected();
    expect_broken_by(slab->hollow_pages, (uint16_t)1, hollow, start);
}

TEST_F(Inspect, ACircleOfAllBlocksOfASlab)
{
    struct block *last = slab->free;
    uint16_t count = 1;
    for (; last->next != nullptr; last = last->next) count++;
    const uint64_t marks = std::exchange(*slab_marks(slab), 0); // they are of the first 64 blocks
    auto used = slab->used_count.load();
    const uint16_t carved = slab->carved_count, capacity = slab->capacity;
    slab->used_count = 0; // as if all of it were free
    slab->carved_count = slab->capacity = count;
    last->next = slab->free;
    expect_broken("law 1: used + free = carved <= capacity", start);
    last->next = nullptr;
    *slab_marks(slab) = marks;
    slab->carved_count = carved;
    slab->capacity = capacity;
    slab->used_count = used;
}

TEST_F(Inspect, MoreLiveThanUsed)
{
    SKIP_WITHOUT_VALIDATE();
    slab->used_count = (uint16_t)(slab->used_count - 1);
    slab->carved_count--;
    expect_broken("law 1: live blocks are in use", start);
    slab->carved_count++;
    slab->used_count = (uint16_t)(slab->used_count + 1);
}

TEST_F(Inspect, ASlabsPages)
{
    expect_broken_by(slab->page_index, (uint8_t)(slab->page_index + 1), "law 6: the descriptor knows its page", start);
    const char *law = "law 6: the page map agrees with the slab";
    expect_broken_by(slab->page_offset, (uint8_t)1, law, start);
    expect_broken_by(slab->class_index, (uint8_t)(slab->class_index + 1), law, start);
    uint64_t sound = superslab->free_pages;
    uint64_t page = 1ull << (slab - superslab->slabs);
    expect_broken_by(superslab->free_pages, sound | page, "law 6: a free page has no tag", start);
    for (uint32_t free = 0; free < SUPERSLAB_PAGES; free++) {
        if ((sound >> free & 1) == 0) continue;
        expect_broken_by(superslab->free_pages, sound & ~(1ull << free), "law 6: a page in use has a tag",
                         superslab_base(superslab) + (size_t)free * PAGE_BYTES);
        break;
    }
}

TEST_F(Inspect, FreePages)
{
    if (ASAN || MSAN) GTEST_SKIP() << "a free page may not be read";
    void *run = hak_malloc(PAGE_BYTES);
    struct superslab *owner = superslab_of(slab_of(run));
    const uint64_t page = 1ull << ((uintptr_t)run / PAGE_BYTES % SUPERSLAB_PAGES);
    *static_cast<uint64_t *>(run) = 1;
    hak_free(run);
    kept_give_back();
    ASSERT_NE(owner->free_pages & owner->dirty_pages & page, 0u);
    expect_broken_by(owner->dirty_pages, owner->dirty_pages & ~page,
                     "law 7: a free page that is not dirty reads as zero", run);
}

TEST_F(Inspect, AnOwnersLists)
{
    struct owner *owner = slab->owner;
    const char *law = "law 4: a list holds its owner's slabs of its class";
    expect_broken_by(owner->slabs[slab->class_index + 1], slab, law, slab);
    struct slab *&link = slab->next->prev, *before = link;
    expect_broken_by(link, (struct slab *)nullptr, law, slab);
    owner->used_bytes += 16; // a broken list may be why a sum is wrong
    link = nullptr;
    expect_broken(law, slab);
    link = before;
    owner->used_bytes -= 16;
    test::inspected();
}

// Only the last slab of a list has no block in use.
TEST_F(Inspect, EmptySlabs)
{
    struct owner *owner = slab->owner;
    const uint32_t class_index = sizeclass_of(3000);
    ASSERT_EQ(owner->slabs[class_index], nullptr);
    slab_make(owner, class_index);
    test::inspected();
    struct slab *second = slab_make(owner, class_index);
    expect_broken("law 4: only the last slab of a list has no block in use", second);
    while (owner->slabs[class_index] != nullptr) slab_release_empty_of(owner, class_index);
    test::inspected();
}

// Law 9: a count that has missed a step.
TEST_F(Inspect, Counts)
{
    struct owner *owner = slab->owner;
    expect_broken_by(owner->used_bytes, owner->used_bytes + 16, "law 9: bytes in use of an owner", owner);
    expect_broken_by(owner->carved_bytes, owner->carved_bytes - 16, "law 9: carved bytes of an owner", owner);
    hak_free(hak_malloc(PAGE_BYTES)); // one is free and dirty
    purge_count_claim(1, 1, false);
    expect_broken("law 9: pages in use", nullptr);
    purge_count_free(1, 8);
    test::inspected();
    uint64_t clean = superslab->free_pages & ~superslab->dirty_pages;
    ASSERT_NE(clean, 0u);
    expect_broken_by(superslab->dirty_pages, superslab->dirty_pages | (clean & -clean), "law 9: free dirty pages",
                     nullptr);
    purge_count_claim(1, 1, true);
    purge_count_free(1, 8);
    expect_broken("law 9: pages of runs", nullptr);
    purge_count_claim(1, 1, false);
    purge_count_free(1, 0);
    test::inspected();
}

// Law 8, and law 4, of each heap of the program's own.
TEST_F(Inspect, HeapsOfTheProgramsOwn)
{
    hak_heap *heaps[] = {hak_heap_new(), hak_heap_new()};
    for (hak_heap *heap : heaps) {
        for (size_t i = 0; i < 5 * PAGE_BYTES / 1024; i++) hak_heap_malloc(heap, 1024);
        hak_free(hak_heap_malloc(heap, 100));
        for (size_t bytes : {2 * PAGE_BYTES, RUN_BYTES_MAX + PAGE_BYTES}) hak_heap_malloc(heap, bytes);
    }
    for (hak_heap *heap : heaps) {
        const char *bins = "law 9: blocks in a bin of a heap", *large = "law 9: bytes of large blocks of a heap";
        struct own_bin &bin = heap->bins[sizeclass_of(100)];
        struct block *binned = bin.head;
        ASSERT_NE(binned, nullptr);
        expect_broken_by(bin.count, bin.count + 1, bins, heap);
        expect_broken_by(bin.count, bin.count - 1, bins, heap);
        expect_broken_by(heap->bins[CLASS_COUNT - 1].count, 1u, bins, heap);
        expect_broken_by(binned->next, binned, bins, heap); /* a circle ends by its bound */
        expect_broken_by(heap->large_bytes, heap->large_bytes - PAGE_BYTES, large, heap);
        expect_broken_by(heap->huges->next, heap->huges, large, heap);
        expect_broken_by(heap->runs, (struct slab *)nullptr, large, heap);
        expect_broken_by(heap->huges, (struct huge_link *)nullptr, large, heap);
        const char *full = "law 8: `full` holds the heap's slabs that can give no block";
        struct slab *first = heap->full, *second = first->next;
        ASSERT_NE(first, second);
        expect_broken_by(second->prev, second, full, first);
        expect_broken_by(first->prev, first, full, first->prev);
        const char *each = "law 8: each slab of a heap is in a list";
        expect_broken_by(heap->slab_bytes, heap->slab_bytes + 1, each, heap);
        expect_broken_by(heap->slab_bytes, heap->slab_bytes - PAGE_BYTES, each, heap);
        expect_broken_by(heap->full, (struct slab *)nullptr, each, heap);
        const uint32_t class_index = sizeclass_of(100);
        struct slab *can_give = heap->owner.slabs[class_index];
        ASSERT_NE(can_give, nullptr);
        expect_broken_by(heap->owner.slabs[class_index], (struct slab *)nullptr, each, heap);
        expect_broken_by(heap->owner.slabs[class_index + 1], can_give,
                         "law 4: a list holds its owner's slabs of its class", can_give);
        heap->posted = static_cast<struct block *>(blocks[1]);
        expect_broken("law 8: at rest nothing is posted", heap);
        heap->posted = nullptr;
    }
    for (hak_heap *heap : heaps) hak_heap_destroy(heap);
    if (VALIDATE) own_dead_free_all();
}

TEST_F(Inspect, Queues)
{
    struct owner *owner = slab->owner;
    expect_broken_by(owner->pending, slab, "law 2: a queue holds its owner's slabs with pending blocks", slab);
    test::in_thread([] { hak_free(hak_malloc(400)); });
    struct owner *orphan = nullptr;
    for (uint32_t id = 1; id <= owner_count() && orphan == nullptr; id++)
        if (owner_is_orphan(owner_with_id(id))) orphan = owner_with_id(id);
    ASSERT_NE(orphan, nullptr) << "of the thread that has ended";
    expect_broken_by(orphan->pending, slab, "law 2: an orphan's queue is empty", orphan);
}

TEST_F(Inspect, PendingBlocks)
{
    void *&block = blocks[1];
    test::in_thread([&] {
        hak_free(block);
        hak_purge(); /* posts it */
    });
    ASSERT_TRUE(remote_is_queued(slab));
    expect_broken("law 2: at rest nothing is pending", nullptr);
    struct slab *queued = slab->owner->pending;
    slab->owner->pending = nullptr;
    expect_broken("law 2: at rest nothing is pending", nullptr);
    slab->owner->pending = queued;
    uint64_t word = slab->remote;
    uint16_t used = slab->used_count;
    slab->used_count = 0;
    slab->carved_count = (uint16_t)(slab->carved_count - used);
    expect_broken("law 2: blocks are pending on a queued slab, and in use", start);
    slab->used_count = used;
    slab->carved_count = (uint16_t)(slab->carved_count + used);
    EXPECT_EQ(slab->remote, word);
    int bit = 0;
    for (; bit < 64 && remote_is_queued(slab); bit++) slab->remote = word ^ (uint64_t)1 << bit;
    ASSERT_FALSE(remote_is_queued(slab)) << "no bit says that it is queued";
    expect_broken("law 2: blocks are pending on a queued slab, and in use", start);
    slab->remote = word;
    hak_purge();
    test::inspected();
    block = hak_malloc(208);
}

} // namespace

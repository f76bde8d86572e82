// describe_test.cc: what the heap says of an address: in blocks of each kind, at both ends, and anywhere else.
#include "heap/heap_test_support.h"

#include <sys/mman.h>

#include <set>
#include <vector>

extern "C" {
#include "cache/tcache.h"
#include "debug/describe.h"
#include "debug/lookup.h"
#include "slab/slab.h"
#include "superslab/pagemap.h"
}

namespace {

uint64_t number_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

class Describe : public test::HeapTest {
  protected:
    void SetUp() override
    {
        HeapTest::SetUp();
        hak_free(hak_malloc(1)); // so that this thread has a heap
    }
};

describe_place place_of(uint64_t address)
{
    describe_place place;
    bool known = describe_address(address, &place);
    EXPECT_EQ(known, place.kind != RECORD_KIND_none);
    EXPECT_EQ(place.address, address);
    return place;
}

} // namespace

TEST_F(Describe, EveryByteOfABlock)
{
    for (size_t size : {(size_t)16, (size_t)100, (size_t)1024, (size_t)5000, (size_t)32768}) {
        char *block = static_cast<char *>(hak_malloc(size));
        size_t usable = hak_malloc_usable_size(block);
        memset(block, 0x5a, usable);
        for (size_t offset : {(size_t)0, (size_t)1, usable / 2, usable - 1}) {
            describe_place place = place_of(number_of(block) + offset);
            EXPECT_EQ(place.kind, (uint64_t)RECORD_KIND_slab);
            EXPECT_EQ(place.block_start, number_of(block));
            EXPECT_EQ(place.block_bytes, usable);
            EXPECT_EQ(place.offset, offset);
            EXPECT_EQ(place.owner, tcache_self()->heap->owner.id);
            EXPECT_EQ(place.owner_is_orphan, 0u);
            EXPECT_EQ(place.superslab, number_of(block) & ~((uint64_t)SUPERSLAB_BYTES - 1));
            EXPECT_EQ(place.state, (uint64_t)(VALIDATE ? RECORD_STATE_live : RECORD_STATE_unknown));
            EXPECT_EQ(place.words[0], 0x5a5a5a5a5a5a5a5aull);
            EXPECT_EQ(place.word_count, std::min<uint64_t>(usable / 8, RECORD_WORDS));
        }
        EXPECT_NE(place_of(number_of(block) + usable).block_start, number_of(block));
        hak_free(block);
        EXPECT_EQ(place_of(number_of(block)).state, (uint64_t)RECORD_STATE_free) << "it is in this thread's bin";
    }
}

TEST_F(Describe, ABlockOfAThreadThatHasEnded)
{
    void *block = nullptr;
    test::in_thread([&] { block = hak_malloc(100); });
    const describe_place place = place_of(number_of(block));
    EXPECT_NE(place.owner, tcache_self()->heap->owner.id);
    EXPECT_EQ(place.owner_is_orphan, 1u);
    hak_free(block);
}

TEST_F(Describe, EachBlockOfASlabOfManyPages)
{
    std::vector<void *> blocks(40);
    std::set<uint64_t> pages;
    for (void *&block : blocks) block = hak_malloc(12000);
    for (void *block : blocks) {
        describe_place place = place_of(number_of(block) + 11999);
        EXPECT_EQ(place.kind, (uint64_t)RECORD_KIND_slab);
        EXPECT_EQ(place.block_start, number_of(block));
        pages.insert(number_of(block) / PAGE_BYTES - place.slab_start / PAGE_BYTES);
    }
    EXPECT_GT(pages.size(), 3u) << "the slabs have fewer pages";
    for (void *block : blocks) hak_free(block);
}

TEST_F(Describe, ASlabsPagesHaveMoreBytesThanItsBlocks)
{
    void *block = hak_malloc(100);
    describe_place first = place_of(number_of(block));
    describe_place behind = place_of(first.slab_start + first.slab_capacity * first.block_bytes);
    EXPECT_EQ(behind.kind, (uint64_t)RECORD_KIND_slab);
    EXPECT_EQ(behind.slab_start, first.slab_start);
    EXPECT_EQ(behind.state, (uint64_t)RECORD_STATE_outside);
    EXPECT_EQ(behind.block_start, 0u);
    EXPECT_EQ(behind.block_bytes, 0u);
    hak_free(block);
}

// While a page changes hands its descriptor and its tag may disagree. No block is there then.
TEST_F(Describe, ADescriptorThatDisagreesWithItsTag)
{
    void *block = hak_malloc(208);
    struct slab *slab = slab_of(block);
    ASSERT_EQ(slab->page_count, 1u);
    const auto kind_with = [block](auto &member, uint32_t value) {
        const auto sound = member;
        member = static_cast<std::remove_reference_t<decltype(member)>>(value);
        const record_kind kind = heap_lookup_any(block).kind;
        EXPECT_EQ(heap_lookup(block).kind, kind);
        EXPECT_EQ(place_of(number_of(block)).kind, (uint64_t)kind);
        member = sound;
        return kind;
    };
    EXPECT_EQ(kind_with(slab->class_index, slab->class_index), RECORD_KIND_slab);
    EXPECT_EQ(kind_with(slab->class_index, slab->class_index + 1u), RECORD_KIND_free);
    EXPECT_EQ(kind_with(slab->capacity, 0), RECORD_KIND_free);
    const uint32_t tag = pagemap_tag(block);
    pagemap_tag_set(superslab_page_start(superslab_of(slab), slab), 1, CLASS_OWN_DEAD);
    EXPECT_EQ(kind_with(slab->class_index, CLASS_EMPTY), RECORD_KIND_free);
    pagemap_tag_set(superslab_page_start(superslab_of(slab), slab), 1, tag);
    hak_free(block);
}

TEST_F(Describe, RunsAndHugeBlocksToTheirLastPages)
{
    char *run = static_cast<char *>(hak_malloc(300000));
    size_t run_bytes = hak_malloc_usable_size(run);
    for (size_t offset : {(size_t)0, (size_t)PAGE_BYTES, run_bytes - 1}) {
        describe_place place = place_of(number_of(run) + offset);
        EXPECT_EQ(place.kind, (uint64_t)RECORD_KIND_run);
        EXPECT_EQ(place.block_start, number_of(run));
        EXPECT_EQ(place.block_bytes, run_bytes);
        EXPECT_EQ(place.offset, offset);
    }
    char *huge = static_cast<char *>(hak_malloc((size_t)20 << 20));
    size_t huge_bytes = hak_malloc_usable_size(huge);
    for (size_t offset : {(size_t)0, (size_t)SUPERSLAB_BYTES, huge_bytes - 1}) {
        describe_place place = place_of(number_of(huge) + offset);
        EXPECT_EQ(place.kind, (uint64_t)RECORD_KIND_huge);
        EXPECT_EQ(place.block_start, number_of(huge));
        EXPECT_EQ(place.block_bytes, huge_bytes);
        EXPECT_EQ(place.offset, offset);
    }
    EXPECT_NE(place_of(number_of(huge) + huge_bytes).block_start, number_of(huge));
    hak_free(run);
    hak_free(huge);
    EXPECT_NE(place_of(number_of(run)).kind, (uint64_t)RECORD_KIND_run);
    EXPECT_NE(place_of(number_of(huge)).kind, (uint64_t)RECORD_KIND_huge);
}

TEST_F(Describe, AnyAddressWhatever)
{
    char *block = static_cast<char *>(hak_malloc(100));
    static char outside[64];
    char on_stack = 0;
    for (uint64_t address : {(uint64_t)0, (uint64_t)1, UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 47,
                             ((uint64_t)1 << 47) - 1, number_of(outside), number_of(&on_stack)})
        EXPECT_EQ(place_of(address).kind, (uint64_t)RECORD_KIND_none) << std::hex << address;
    uint64_t base = number_of(block) & ~((uint64_t)SUPERSLAB_BYTES - 1);
    for (uint64_t offset = 0; offset < SUPERSLAB_BYTES; offset += 4093) {
        describe_place place = place_of(base + offset);
        EXPECT_NE(place.kind, (uint64_t)RECORD_KIND_none);
        if (place.block_start != 0) {
            EXPECT_LE(place.block_start, base + offset);
            EXPECT_LT(base + offset, place.block_start + place.block_bytes);
        }
    }
    hak_free(block);
}

// Blocks on a slab's list and blocks with a bit are free, and a link that leads out of the slab is reported.
TEST_F(Describe, ASlabsOwnList)
{
    std::vector<void *> blocks(40);
    for (void *&block : blocks) block = hak_malloc(256); // a size that divides the slab's offset too
    for (size_t i = 0; i < blocks.size(); i += 4) hak_free(blocks[i]);
    test::in_thread([&] { // what it frees gets on the list
        for (size_t i = 2; i < blocks.size(); i += 4) hak_free(blocks[i]);
    });
    tcache_flush(tcache_self()); // moves them from the thread's cache to the slab
    for (size_t i = 0; i < blocks.size(); i++) {
        describe_place place = place_of(number_of(blocks[i]));
        EXPECT_EQ(place.state == RECORD_STATE_free, i % 2 == 0) << i;
        EXPECT_EQ(place.list_value, 0u);
    }
    describe_place slab = place_of(number_of(blocks[1]));
    void *first = reinterpret_cast<void *>(slab.list_head);
    ASSERT_NE(first, nullptr);
    void *&link = *static_cast<void **>(first);
    void *sound = link;
    for (uint64_t bad : {(uint64_t)0x123450, number_of(sound) + 16, slab.slab_start - slab.block_bytes,
                         slab.slab_start + slab.slab_capacity * slab.block_bytes}) {
        link = reinterpret_cast<void *>(bad);
        describe_place place = place_of(number_of(blocks[1]));
        EXPECT_EQ(place.list_word, number_of(first));
        EXPECT_EQ(place.list_value, bad);
    }
    link = first; // in a cycle the walk ends at its bound
    EXPECT_EQ(place_of(number_of(blocks[1])).list_value, 0u);
    link = sound;
    for (size_t i = 1; i < blocks.size(); i += 2) hak_free(blocks[i]);
}

// The list is walked to the link of its last block, where it has all blocks of the slab.
TEST_F(Describe, AListOfAllBlocksOfASlab)
{
    std::vector<void **> blocks = {static_cast<void **>(hak_malloc(4096))};
    slab *slab = slab_of(reinterpret_cast<block *>(blocks[0]));
    while (slab->carved_count < slab->capacity || !slab->full) {
        blocks.push_back(static_cast<void **>(hak_malloc(4096)));
        if (slab_of(reinterpret_cast<block *>(blocks.back())) != slab) slab = slab_of((block *)blocks.back());
    }
    std::vector<void **> list;
    for (size_t i = 0; i < slab->capacity; i++)
        list.push_back(reinterpret_cast<void **>(place_of(number_of(blocks.back())).slab_start + i * 4096));
    for (size_t i = 0; i + 1 < list.size(); i++) *list[i] = list[i + 1];
    ASSERT_EQ(slab->free, nullptr);
    slab->free = reinterpret_cast<block *>(list[0]);
    *list.back() = reinterpret_cast<void *>(0x123450);
    describe_place place = place_of(number_of(list[0]));
    EXPECT_EQ(place.list_word, number_of(list.back()));
    EXPECT_EQ(place.list_value, 0x123450u);
    slab->free = nullptr;
    for (void **block : blocks) hak_free(block);
}

// A sound heap has no bad link, whatever was freed. Each way to spoil a link is reported, with its address.
TEST_F(Describe, BadLinks)
{
    describe_suspect suspect;
    void *blocks[8];
    for (void *&block : blocks) block = hak_malloc(208);
    for (void *block : blocks) hak_free(block);
    EXPECT_FALSE(describe_bad_link(&suspect));
    uint32_t class_index = sizeclass_of(208);
    void **word = static_cast<void **>(blocks[5]); /* in the middle of the list: the block freed last is first */
    void *link = *word;
    const uint64_t on_stack = number_of(&suspect) & ~(uint64_t)15;
    void *of_another_class = hak_malloc(224), *of_another_heap = nullptr;
    test::in_thread([&] { of_another_heap = hak_malloc(208); });
    const std::string leads_out = "it leads out of its class, or of its heap";
    const std::pair<uint64_t, std::string> ways[] = {{0x123450, leads_out},
                                                     {number_of(link) + 8, "it is no multiple of 16"},
                                                     {number_of(link) + 16, "it leads between two blocks"},
                                                     {number_of(of_another_class), leads_out},
                                                     {number_of(of_another_heap), leads_out},
                                                     {on_stack, leads_out}};
    for (const auto &[bad, text] : ways) {
        *word = (void *)(uintptr_t)bad;
        ASSERT_TRUE(describe_bad_link(&suspect)) << std::hex << bad;
        EXPECT_EQ(suspect.text, text);
        EXPECT_EQ(suspect.word, word);
        EXPECT_EQ(suspect.value, bad);
        EXPECT_EQ(suspect.class_index, class_index);
        EXPECT_EQ(suspect.copy_count, 0u);
    }
    *word = link;
    EXPECT_FALSE(describe_bad_link(&suspect));
    hak_free(of_another_class);
    hak_free(of_another_heap);
    void *&head = reinterpret_cast<void *&>(tcache_self()->heads[class_index]);
    void *sound = head;
    head = (void *)(uintptr_t)0x123450;
    *static_cast<uint64_t *>(blocks[3]) = 0x123450; /* as if malloc had given it out with its link in it */
    ASSERT_TRUE(describe_bad_link(&suspect));
    EXPECT_EQ(suspect.word, (void *)&head);
    EXPECT_EQ(std::count(suspect.copies, suspect.copies + suspect.copy_count, blocks[3]), 1);
    *static_cast<void **>(blocks[3]) = blocks[2];
    head = sound;
    EXPECT_FALSE(describe_bad_link(&suspect));
}

// A cyclic list, with or without blocks before the cycle, is found at a block of the cycle.
TEST_F(Describe, AListThatIsACircle)
{
    std::vector<void **> blocks(12);
    for (void **&block : blocks) block = static_cast<void **>(hak_malloc(208));
    for (void **block : blocks) hak_free(block);
    std::reverse(blocks.begin(), blocks.end()); // the block freed last is first in the list
    void *link = *blocks.back();
    describe_suspect suspect;
    for (size_t first = 0; first < blocks.size(); first++) {
        *blocks.back() = blocks[first];
        ASSERT_TRUE(describe_bad_link(&suspect)) << first;
        auto at = std::find(blocks.begin() + (ptrdiff_t)first, blocks.end(), suspect.word);
        ASSERT_NE(at, blocks.end()) << first;
        EXPECT_EQ(suspect.value, number_of(**at));
        EXPECT_EQ(suspect.class_index, sizeclass_of(208));
        EXPECT_EQ(std::string(suspect.text), "the list does not end: a block was freed twice");
        EXPECT_EQ(place_of(number_of(blocks[first]) + 1).state, (uint64_t)RECORD_STATE_free);
    }
    *blocks.back() = link;
    EXPECT_FALSE(describe_bad_link(&suspect));
}

// A bin with a block that cannot be read ends there.
TEST_F(Describe, AListThatLeavesTheMemory)
{
    void *mapped = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    char *sought = static_cast<char *>(hak_malloc(208)), *other = static_cast<char *>(hak_malloc(208));
    hak_free(sought);
    hak_free(other);
    block *&head = tcache_self()->heads[sizeclass_of(208)];
    block *sound = head;
    EXPECT_EQ(place_of(number_of(sought)).state, (uint64_t)RECORD_STATE_free);
    head = static_cast<block *>(mapped);
    EXPECT_NE(place_of(number_of(sought)).state, (uint64_t)RECORD_STATE_free);
    head = sound;
    munmap(mapped, 4096);
}

// LIST_BLOCKS_MAX: a bin is walked through that many blocks, and no further.
TEST_F(Describe, ABinIsWalkedUpToItsBound)
{
    const size_t most = 1 << 16;
    std::vector<void **> blocks(most + 1); // they stay live: only the links say that they are in the bin
    for (void **&block : blocks) block = static_cast<void **>(hak_malloc(16));
    for (size_t i = 0; i < most; i++) *blocks[i] = blocks[i + 1];
    void **freed = static_cast<void **>(hak_malloc(16));
    hak_free(freed);
    void *&head = reinterpret_cast<void *&>(tcache_self()->heads[sizeclass_of(16)]);
    void *sound = head;
    head = blocks[0];
    for (size_t before : {most - 1, most}) {
        void *&last = *blocks[before - 1], *next = blocks[before];
        last = freed;
        EXPECT_EQ(place_of(number_of(freed)).state == RECORD_STATE_free, before < most) << before;
        last = next;
        describe_suspect suspect = {};
        *blocks[before] = reinterpret_cast<void *>(0x123450);
        EXPECT_EQ(describe_bad_link(&suspect), before < most) << before;
        if (before < most) EXPECT_EQ(suspect.word, blocks[before]);
        *blocks[before] = before < most ? blocks[before + 1] : nullptr;
    }
    head = sound;
    for (void **block : blocks) hak_free(block);
}

TEST_F(Describe, TheFirstAndTheLastBinAreLookedAt)
{
    for (uint32_t class_index : {1u, (uint32_t)CLASS_COUNT - 1}) {
        void *&head = reinterpret_cast<void *&>(tcache_self()->heads[class_index]), *sound = head;
        head = reinterpret_cast<void *>(0x123450);
        describe_suspect suspect = {};
        EXPECT_TRUE(describe_bad_link(&suspect));
        EXPECT_EQ(suspect.class_index, class_index);
        EXPECT_EQ(suspect.word, (void *)&head);
        head = sound;
        EXPECT_FALSE(describe_bad_link(&suspect));
    }
}

// While other threads allocate, free and end, every answer is consistent in itself.
TEST_F(Describe, WhileTheHeapChanges)
{
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> shown{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++)
        threads.emplace_back([&, i] {
            for (uint64_t round = 0; !stop; round++) {
                void *block = hak_malloc(16 + (round * 7919 + (uint64_t)i) % 100000);
                shown = number_of(block);
                hak_free(block);
            }
        });
    for (int round = 0; round < test::rounds(20000); round++) {
        uint64_t address = shown;
        if (address == 0) continue;
        describe_place place = place_of(address);
        if (place.block_start == 0) continue;
        EXPECT_LE(place.block_start, address);
        EXPECT_LT(address, place.block_start + place.block_bytes);
    }
    stop = true;
    for (std::thread &thread : threads) thread.join();
}

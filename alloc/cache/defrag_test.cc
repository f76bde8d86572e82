// defrag_test.cc: defragmentation with the program's help, by a model of a Redis server: keys with values of many sizes, most
// of which are deleted, and a pass over the rest that asks for each allocation whether to move it.
#include "heap/heap_test_support.h"

#include <algorithm>
#include <map>

extern "C" {
#include "slab/slab.h"
#include "superslab/pagemap.h"
}

namespace {

// An entry of Redis' dict with its key, its object and its value; all of them are blocks of their own.
struct Entry {
    char *key = nullptr, *object = nullptr, *value = nullptr;
    size_t key_bytes = 0, value_bytes = 0;
};

constexpr size_t OBJECT_BYTES = 16;

char *filled(size_t size_bytes, unsigned char with)
{
    char *block = (char *)hak_malloc(size_bytes);
    memset(block, with, size_bytes);
    return block;
}

bool holds(const char *block, size_t size_bytes, unsigned char with)
{
    return std::all_of(block, block + size_bytes, [&](char byte) { return (unsigned char)byte == with; });
}

struct Server {
    std::vector<Entry> entries;
    test::Rng rng;

    void fill(size_t count)
    {
        for (size_t i = 0; i < count; i++) {
            Entry entry{.key_bytes = rng.between(8, 60),
                        .value_bytes = rng.between(10, rng.below(20) == 0 ? 4000 : 300)};
            auto with = (unsigned char)i;
            entry.key = filled(entry.key_bytes, with);
            entry.object = filled(OBJECT_BYTES, with);
            entry.value = filled(entry.value_bytes, with);
            entries.push_back(entry);
        }
    }

    void drop(Entry &entry)
    {
        hak_free(entry.key);
        hak_free(entry.object);
        hak_free(entry.value);
        entry = {};
    }

    void drop_all_but(size_t one_in)
    {
        for (Entry &entry : entries)
            if (entry.key != nullptr && rng.below(one_in) != 0) drop(entry);
    }

    // Redis' activedefrag; returns how many blocks were moved.
    size_t pass(bool (*move)(char *&block, size_t size_bytes))
    {
        size_t moved = 0;
        for (Entry &entry : entries) {
            if (entry.key == nullptr) continue;
            moved += move(entry.key, entry.key_bytes) + move(entry.object, OBJECT_BYTES) +
                     move(entry.value, entry.value_bytes);
        }
        return moved;
    }

    bool is_whole() const
    {
        for (size_t i = 0; i < entries.size(); i++) {
            const Entry &entry = entries[i];
            auto with = (unsigned char)i;
            if (entry.key != nullptr &&
                (!holds(entry.key, entry.key_bytes, with) || !holds(entry.object, OBJECT_BYTES, with) ||
                 !holds(entry.value, entry.value_bytes, with)))
                return false;
        }
        return true;
    }

    size_t live_bytes() const
    {
        size_t bytes = 0;
        for (const Entry &entry : entries)
            if (entry.key != nullptr) bytes += entry.key_bytes + OBJECT_BYTES + entry.value_bytes;
        return bytes;
    }

    // The fragmentation ratio: resident bytes for a live one.
    double ratio() const
    {
        hak_purge();
        hak_figures figures{};
        hak_figures_get(&figures, sizeof figures);
        return (double)figures.resident_bytes / (double)live_bytes();
    }
};

bool move_past_caches(char *&block, size_t)
{
    void *moved = hak_defrag_move(block);
    if (moved == nullptr) return false;
    block = (char *)moved;
    return true;
}

// With the hint alone, as a program that knows no hak_defrag_move.
bool move_by_malloc(char *&block, size_t size_bytes)
{
    if (!hak_defrag_hint(block)) return false;
    char *moved = (char *)hak_malloc(size_bytes);
    memcpy(moved, block, size_bytes);
    hak_free(block);
    block = moved;
    return true;
}

} // namespace

class Defrag : public test::HeapTest {
  protected:
    void SetUp() override
    {
        if (SANITIZED) GTEST_SKIP() << "nothing is moved under a sanitizer";
        HeapTest::SetUp();
    }
};

TEST_F(Defrag, MovesSparseSlabsTogether)
{
    EXPECT_TRUE(test::in_child([] {
        Server server;
        server.fill(100000);
        double full = server.ratio();
        server.drop_all_but(12);
        double before = server.ratio();
        size_t moved = 0;
        for (int pass = 0; pass < 6; pass++) moved += server.pass(move_past_caches);
        double after = server.ratio();
        printf("%zu bytes live; resident for each: full %.2f, before %.2f, after %.2f; %zu blocks moved\n",
               server.live_bytes(), full, before, after, moved);
        EXPECT_TRUE(server.is_whole());
        EXPECT_GT(before, 2.5);
        EXPECT_LT(after, 1.6);
        test::inspected();
        server.drop_all_but(size_t{1} << 60);
        test::expect_at_rest();
    }));
}

TEST_F(Defrag, TheHintAloneHelpsLess)
{
    EXPECT_TRUE(test::in_child([] {
        Server server;
        server.fill(100000);
        server.drop_all_but(12);
        double before = server.ratio();
        for (int pass = 0; pass < 6; pass++) server.pass(move_by_malloc);
        double after = server.ratio();
        printf("resident for each live byte: before %.2f, after %.2f\n", before, after);
        EXPECT_TRUE(server.is_whole());
        EXPECT_LT(after, before * 1.1);
        server.drop_all_but(size_t{1} << 60);
    }));
}

// If all slabs are as full as each other, nothing is to be gained.
TEST_F(Defrag, LeavesWhatIsDense)
{
    EXPECT_TRUE(test::in_child([] {
        std::vector<char *> blocks;
        for (int i = 0; i < 50000; i++) blocks.push_back(filled(100, 1));
        size_t moved = 0;
        for (int pass = 0; pass < 3; pass++)
            for (char *&block : blocks) moved += move_past_caches(block, 100);
        EXPECT_LT(moved, 1000u);
        for (char *block : blocks) hak_free(block);
    }));
}

// However full all slabs of a class are, if each is as full as the others, no block of them is better elsewhere.
TEST_F(Defrag, HintsAtNoneOfSlabsThatAreAlike)
{
    if (VALIDATE) GTEST_SKIP() << "the debug-validation build moves nothing";
    for (size_t size : {64u, 300u, 1024u, 5000u})
        for (size_t eighths = 1; eighths <= 8; eighths++)
            EXPECT_TRUE(test::in_child([=] {
                std::map<slab *, std::vector<char *>> of;
                while (of.size() < 8) {
                    char *block = filled(size, 1);
                    of[slab_of(block)].push_back(block);
                }
                for (auto &[slab, blocks] : of) {
                    const bool is_last = blocks.size() < slab->capacity; // which is not full
                    const bool is_alike = slab->capacity == of.begin()->first->capacity;
                    const size_t left = is_last || !is_alike ? 0 : slab->capacity * eighths / 8;
                    while (blocks.size() > left) hak_free(blocks.back()), blocks.pop_back();
                }
                for (auto &[slab, blocks] : of)
                    for (char *block : blocks) ASSERT_FALSE(hak_defrag_hint(block)) << size << ", " << eighths;
            }));
}

// A move looks at the first sixteen slabs of the class and no further.
TEST_F(Defrag, AMoveLooksAtSixteenSlabs)
{
    EXPECT_TRUE(test::in_child([] {
        const uint32_t c = sizeclass_of(1024);
        std::map<slab *, std::vector<char *>> of;
        while (of.size() < 24) {
            char *block = filled(1024, 1);
            of[slab_of(block)].push_back(block);
        }
        slab *than = of.begin()->first;
        const auto leave = [&](slab *slab, size_t count) {
            std::vector<char *> &blocks = of[slab];
            for (; blocks.size() > count; blocks.pop_back()) hak_free(blocks.back());
        };
        for (auto &[slab, blocks] : of) leave(slab, slab == than ? slab->capacity / 4 : slab->capacity / 2);
        for (int i = 0; i < 2 * 4096; i++) (void)hak_defrag_hint(of[than].front()); // sorted, and not to be soon
        std::vector<slab *> order;
        slab *const first = tcache_self()->heap->owner.slabs[c];
        for (slab *next = first; next != first || order.empty(); next = next->next) order.push_back(next);
        ASSERT_GT(order.size(), 17u);
        ASSERT_GT(std::find(order.begin(), order.end(), than) - order.begin(), 16);
        for (int i = 0; i < 15; i++) leave(order[i], 1);
        hak_purge();
        ASSERT_EQ(tcache_self()->heap->owner.slabs[c], first);
        void *moved = hak_defrag_move(of[than].back());
        ASSERT_NE(moved, nullptr);
        EXPECT_EQ(slab_of(moved), order[15]);
        of[than].pop_back();
        of[order[15]].push_back((char *)moved);
        leave(order[15], 1);
        hak_purge();
        EXPECT_EQ(hak_defrag_move(of[than].back()), nullptr) << "the next would do, but it is the seventeenth";
        for (auto &[slab, blocks] : of) leave(slab, 0);
    }));
}

TEST_F(Defrag, OnlyBlocksOfThisThreadsHeap)
{
    std::vector<char *> sparse;
    for (int i = 0; i < 4000; i++) sparse.push_back(filled(64, 2));
    for (size_t i = 0; i < sparse.size(); i++)
        if (i % 8 != 0 || i < 2000) hak_free(std::exchange(sparse[i], nullptr));
    char *run = filled(100000, 1), *huge = filled(5 << 20, 1);
    test::in_thread([&] {
        hak_free(hak_malloc(64));
        for (char *block : sparse) EXPECT_FALSE(hak_defrag_hint(block));
    });
    for (char *block : {run, huge}) {
        EXPECT_FALSE(hak_defrag_hint(block));
        EXPECT_EQ(hak_defrag_move(block), nullptr);
    }
    for (char *block : sparse) hak_free(block);
    hak_heap *heap = hak_heap_new();
    void *own = hak_heap_malloc(heap, 64);
    EXPECT_FALSE(hak_defrag_hint(own));
    EXPECT_EQ(hak_defrag_move(own), nullptr);
    hak_heap_destroy(heap);
    hak_free(run);
    hak_free(huge);
}

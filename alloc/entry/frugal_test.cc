// frugal_test.cc: a heap that takes from the system the pages that it needs, and no more, as after mlockall. Each test is a
// child, since the mode is the process's.
#include "heap/heap_test_support.h"

extern "C" {
#include "heap/bound.h"
#include "heap/own_inside.h"
#include "os/meta.h"
#include "os/os.h"
#include "os/os_fault.h"
#include "superslab/pagemap.h"
#include "superslab/pool_make.h"
}

namespace {

constexpr size_t HELD_SLOTS = 300;

struct Slot {
    char *block;
    size_t size;
    uint64_t stamp;
};

void be_frugal(bool yes)
{
    pool_be_frugal(yes);
    meta_be_frugal(yes);
}

size_t draw_size(test::Rng &rng)
{
    const uint64_t kind = rng.below(32);
    if (kind == 0) return rng.between(RUN_BYTES_MAX, 2 * SUPERSLAB_BYTES);
    if (kind < 6) return rng.between(SMALL_BYTES_MAX, RUN_BYTES_MAX);
    return kind < 16 ? rng.between(1, SMALL_BYTES_MAX) : rng.between(1, 1024);
}

// Blocks of all kinds, of the thread's heap and of one of the program's own, come, grow, and go.
void live(std::vector<Slot> &slots, uint64_t seed, size_t rounds, hak_heap *own)
{
    test::Rng rng(seed);
    for (size_t round = 0; round < rounds; round++) {
        Slot &slot = slots[rng.below(HELD_SLOTS)];
        const size_t size = draw_size(rng);
        if (slot.block != nullptr) {
            ASSERT_TRUE(test::pattern_holds(slot.block, slot.size, slot.stamp, 1000)) << "seed " << seed;
            if (rng.below(4) != 0) hak_free(std::exchange(slot.block, nullptr));
        }
        const size_t align = size_t{16} << rng.below(19); // up to 4 MiB
        const bool is_aligned = slot.block == nullptr && rng.below(3) == 0;
        const bool is_owned = rng.below(3) == 0;
        void *block = slot.block != nullptr    ? hak_realloc(slot.block, size)
                      : is_aligned && is_owned ? hak_heap_aligned_alloc(own, align, size)
                      : is_aligned             ? hak_aligned_alloc(align, size)
                      : is_owned               ? hak_heap_malloc(own, size)
                                               : hak_malloc(size);
        ASSERT_NE(block, nullptr) << "seed " << seed << ", " << size << " bytes";
        if (is_aligned) ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % align, 0u) << "seed " << seed << ", " << size;
        slot = {static_cast<char *>(block), size, round};
        test::pattern_fill(block, size, round, 1000);
        if (rng.below(rounds / 8) == 0) hak_purge_all();
    }
}

void free_all(std::vector<Slot> &slots)
{
    for (Slot &slot : slots) hak_free(std::exchange(slot.block, nullptr));
}

size_t pages_taken()
{
    size_t pages = 0;
    pool_for_each([](superslab *each,
                     void *sum) { *static_cast<size_t *>(sum) += (size_t)__builtin_popcountll(~each->missing_pages); },
                  &pages);
    return pages;
}

// What the figures call reserved are the pages that were taken, and huge blocks.
void expect_figures()
{
    hak_stats stats;
    hak_stats_get(&stats);
    EXPECT_EQ(stats.reserved_bytes, pages_taken() * PAGE_BYTES + stats.huge_bytes + stats.huge_cached_bytes);
}

// The validating library keeps some pages of heaps that were destroyed, and reports who uses them.
void expect_nothing()
{
    EXPECT_EQ(test::inspected().used_blocks, 0u);
    EXPECT_EQ(pages_taken(), pool_figures().claimed_pages);
    EXPECT_EQ(pages_taken(), pool_figures().superslab_count * SUPERSLAB_PAGES - pool_figures().missing_pages);
    if (!VALIDATE) EXPECT_EQ(pool_figures().superslab_count, 0u);
}

// Out of the mode, superslabs that lack pages go when they are empty, as whole ones do.
void expect_whole(std::vector<Slot> &slots, hak_heap *own)
{
    test::use_all_kinds_of_sizes(1);
    free_all(slots);
    hak_heap_destroy(own);
    hak_purge_all();
    EXPECT_EQ(test::inspected().used_blocks, 0u);
    if (VALIDATE) return;
    EXPECT_LE(pool_figures().superslab_count, (size_t)EMPTY_SUPERSLABS_MIN);
    EXPECT_EQ(pool_figures().missing_pages, 0u);
}

// Whether metadata takes from the system what it needs, and no more.
bool is_meta_frugal()
{
    static size_t maps;
    static const os_ops *before;
    static os_ops counting;
    maps = 0;
    before = os;
    counting = *os;
    counting.map = [](void *start, size_t size_bytes, size_t align_bytes) {
        maps++;
        return before->map(start, size_bytes, align_bytes);
    };
    os = &counting;
    for (int i = 0; i < 16; i++) meta_alloc(PAGE_BYTES);
    os = before;
    return maps > 8;
}

} // namespace

TEST(Frugal, BlocksOfAllKindsComeAndGo)
{
    SKIP_UNDER_SANITIZER("its root regions are whole superslabs");
    for (uint64_t seed = 1; seed <= 2; seed++)
        EXPECT_TRUE(test::in_child([seed] {
            std::vector<Slot> slots(HELD_SLOTS);
            hak_heap *own = hak_heap_new();
            // With superslabs that are whole before, and with none.
            if (seed % 2 == 0) live(slots, seed, 700, own);
            be_frugal(true);
            for (int phase = 0; phase < 3; phase++) {
                live(slots, seed * 10 + phase, 700, own);
                test::inspected();
                hak_purge_all();
                test::inspected();
                const auto figures = pool_figures();
                EXPECT_EQ(pages_taken(), figures.claimed_pages) << "each page is in use";
                expect_figures();
            }
            free_all(slots);
            hak_heap_destroy(own);
            hak_purge_all();
            expect_nothing();
            own = hak_heap_new();
            live(slots, seed + 200, 300, own);
            be_frugal(false);
            expect_whole(slots, own);
        })) << "seed "
            << seed;
}

// The system refuses one call, each in its turn. If that was for a descriptor, the pages that it was for go back: all address
// space is of pages that superslabs have, or of descriptors.
TEST(Frugal, ARefusedCallLeavesNoAddressSpace)
{
    SKIP_UNDER_SANITIZER("its root regions are whole superslabs");
    constexpr size_t BYTES = 3 * test::MIB / 2, DESCRIPTORS_BYTES_MAX = test::MIB / 2;
    struct Seen {
        uint64_t failures;
        size_t others_bytes; // address space that came to what is no page of a superslab
    };
    auto *seen =
        static_cast<Seen *>(mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    size_t plain_bytes = 0;
    for (uint64_t nth = 0; nth <= 1 || seen->failures != 0; nth++) {
        ASSERT_LT(nth, 1000u);
        EXPECT_TRUE(test::in_child([&] {
            be_frugal(true);
            const auto others = [] { return test::address_space_bytes() - pages_taken() * PAGE_BYTES; };
            const size_t before = others();
            std::vector<void *> blocks(32);
            hak_heap *heap = hak_heap_new();
            os_fault_install(nth, false);
            for (void *&block : blocks) block = hak_heap_malloc(heap, BYTES); // by malloc they would be mappings
            seen->failures = os_fault_failures();
            os_fault_remove();
            expect_figures();
            hak_heap_destroy(heap);
            if (VALIDATE) own_dead_free_all();
            hak_purge_all();
            seen->others_bytes = others() - before;
        })) << "call "
            << nth;
        if (nth == 0) plain_bytes = seen->others_bytes;
        EXPECT_LE(seen->others_bytes, plain_bytes + DESCRIPTORS_BYTES_MAX) << "call " << nth << " was refused";
    }
    munmap(seen, sizeof(Seen));
}

TEST(Frugal, ThreadsTakeAndGiveBackPagesOfTheSameSuperslabs)
{
    SKIP_UNDER_SANITIZER("its root regions are whole superslabs");
    EXPECT_TRUE(test::in_child([] {
        be_frugal(true);
        test::in_threads(4, [](int thread) {
            std::vector<Slot> slots(HELD_SLOTS);
            hak_heap *own = hak_heap_new();
            live(slots, (uint64_t)thread + 100, 600, own);
            free_all(slots);
            hak_heap_destroy(own);
        });
        hak_purge_all();
        expect_nothing();
    }));
}

// A child that is forked in the mode has left it, as it has not inherited the lock; it may lock its memory again.
TEST(Frugal, AForkedChild)
{
    SKIP_UNDER_SANITIZER("its root regions are whole superslabs");
    EXPECT_TRUE(test::in_child([] {
        std::vector<Slot> slots(HELD_SLOTS);
        hak_heap *own = hak_heap_new();
        be_frugal(true);
        live(slots, 1, 500, own);
        for (bool again : {false, true})
            EXPECT_TRUE(test::in_child([&] {
                EXPECT_FALSE(pool_be_frugal(again));
                EXPECT_FALSE(is_meta_frugal());
                if (again) meta_be_frugal(true);
                EXPECT_EQ(is_meta_frugal(), again);
                live(slots, 2, 500, own);
                test::inspected();
                if (!again) expect_whole(slots, own);
            }));
        live(slots, 3, 500, own);
        test::inspected();
    }));
}

TEST(Frugal, NoHugeMappingTakesTheCellOfAPart)
{
    struct alignas(META_LINE_BYTES) Descriptor {
        char bytes[META_LINE_BYTES];
    };
    static Descriptor part, huge;
    char *start = static_cast<char *>(pagemap_reserve(SUPERSLAB_BYTES, SUPERSLAB_BYTES));
    ASSERT_NE(start, nullptr);
    for (size_t page = 0; page < CELL_BYTES / PAGE_BYTES; page++) {
        EXPECT_TRUE(pagemap_part_enter(start + page * PAGE_BYTES, &part));
        EXPECT_TRUE(pagemap_part_enter(start, &part)) << "it is in the cell already";
        EXPECT_FALSE(pagemap_part_enter(start, &huge));
        for (size_t first = 0; first < CELL_BYTES / PAGE_BYTES; first++)
            EXPECT_FALSE(pagemap_huge_enter(start + first * PAGE_BYTES, PAGE_BYTES, &huge));
        EXPECT_EQ(pagemap_descriptor(start), &part);
        EXPECT_EQ(pagemap_descriptor(start + CELL_BYTES), nullptr);
        EXPECT_TRUE(pagemap_huge_enter(start + CELL_BYTES, CELL_BYTES, &huge)) << "the other cell";
        EXPECT_FALSE(pagemap_part_enter(start + CELL_BYTES, &part));
        pagemap_huge_leave(start + CELL_BYTES, &huge);
        pagemap_part_leave(start, &huge); // it has no part there
        EXPECT_EQ(pagemap_descriptor(start), &part);
        pagemap_part_leave(start, &part);
        EXPECT_EQ(pagemap_descriptor(start), nullptr);
        EXPECT_EQ(pagemap_was_ours(start), VALIDATE);
        EXPECT_TRUE(pagemap_huge_enter(start, CELL_BYTES, &huge));
        pagemap_huge_leave(start, &huge);
    }
    EXPECT_EQ(os->release(start, SUPERSLAB_BYTES), 0);
}

// Tags that were readable and not written are mapped by themselves when blocks come there.
TEST(Frugal, TheTrimmedMapIsEnteredAnew)
{
    if (!SPARSE_MAP || pagemap_is_window()) GTEST_SKIP() << "it is reserved whole";
    EXPECT_TRUE(test::in_child([] {
        hak_free(hak_malloc(1));
        const size_t before = test::address_space_bytes();
        pagemap_trim();
        EXPECT_LT(test::address_space_bytes(), before);
        EXPECT_EQ(pagemap_tag(nullptr), 0u);
        std::vector<void *> blocks;
        for (int i = 0; i < 40; i++) blocks.push_back(hak_malloc(size_t{1} << 28)); // ten GiB of addresses
        for (void *block : blocks) ASSERT_NE(block, nullptr);
        for (void *block : blocks) hak_free(block);
        test::use_all_kinds_of_sizes(1);
        test::expect_at_rest();
    }));
}

// Pages that the system does not take back serve the next block of their size, and no fresh ones.
TEST(Frugal, PagesThatAreNotTakenBackServeAgain)
{
    SKIP_UNDER_SANITIZER("its root regions are whole superslabs");
    for (const size_t pages : {1, 2, 5, 32})
        EXPECT_TRUE(test::in_child([pages] {
            be_frugal(true);
            hak_heap *heap = hak_heap_new();
            void *keeper = hak_heap_malloc(heap, PAGE_BYTES); // so that the superslab stays
            void *run = hak_heap_malloc(heap, pages * PAGE_BYTES);
            ASSERT_NE(run, nullptr);
            static const os_ops *below;
            static size_t refused;
            refused = 0;
            below = os;
            os_ops refusing = *os;
            refusing.release = [](void *, size_t) { return refused++, ENOMEM; };
            os = &refusing;
            hak_free(run);
            hak_purge_all();
            os = below;
            ASSERT_GT(refused, 0u);
            const size_t taken = pages_taken();
            void *again = hak_heap_malloc(heap, pages * PAGE_BYTES);
            ASSERT_NE(again, nullptr);
            EXPECT_EQ(pages_taken(), taken);
            expect_figures();
            hak_free(again);
            hak_free(keeper);
            hak_heap_destroy(heap);
            if (VALIDATE) own_dead_free_all();
            hak_purge_all();
            expect_nothing();
        })) << pages
            << " pages";
}

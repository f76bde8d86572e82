// tight_test.cc: blocks above 32 KiB in a process whose address space is limited (RLIMIT_AS): they are runs until that
// would waste much of it, then mappings of their own. Each test limits a child.
#include "heap/heap_test_support.h"

extern "C" {
#include "os/os.h"
#include "os/os_fault.h"
#include "superslab/limit.h"
#include "superslab/pagemap.h"
#include "superslab/tight.h"
}

namespace {

constexpr size_t GIB = (size_t)1 << 30;

uint32_t tag_of(const void *block)
{
    return pagemap_tag(block) & TAG_CLASS_MASK;
}

using Blocks = std::vector<void *>;

// Until there is this number of superslabs, and no page of them is free. Runs of one page leave nothing unused.
void fill_superslabs(Blocks &runs, size_t count)
{
    for (;;) {
        const auto figures = pool_figures();
        if (figures.superslab_count >= count && figures.claimed_pages == figures.superslab_count * SUPERSLAB_PAGES)
            return;
        runs.push_back(hak_malloc(PAGE_BYTES));
        ASSERT_NE(runs.back(), nullptr);
    }
}

// From here on address space is short, and no page is free.
Blocks fill_beyond_the_share(size_t limit)
{
    Blocks runs;
    hak_free(hak_malloc(10));
    test::limit_address_space(limit);
    fill_superslabs(runs, limit / TIGHT_SHARE / SUPERSLAB_BYTES + 1);
    return runs;
}

void free_all(Blocks &blocks)
{
    for (void *block : blocks) hak_free(block);
    blocks.clear();
}

class Tight : public test::HeapTest {
  protected:
    void SetUp() override
    {
        SKIP_UNDER_SANITIZER("it needs terabytes of address space itself");
        HeapTest::SetUp();
    }
};

} // namespace

TEST_F(Tight, BlocksOfEachSizeFillTheAddressSpace)
{
    // A frame of the debug-validation library makes a block of 1 MiB a little longer.
    for (size_t size : {40000, 65537, 100000, 300000, 1 << 20, (1 << 20) + 16, 1500000})
        EXPECT_TRUE(test::in_child([size] {
            std::vector<void *> blocks(GIB / size + 1);
            size_t count = 0;
            hak_free(hak_malloc(10));
            size_t before = test::address_space_bytes();
            test::limit_address_space(GIB);
            errno = 0;
            while ((blocks[count] = hak_malloc(size)) != nullptr) count++;
            EXPECT_EQ(errno, ENOMEM);
            test::limit_address_space(RLIM_INFINITY);
            printf("%zu MiB in blocks of %zu\n", count * size >> 20, size);
            size_t whole = (size + os_page_bytes() - 1) / os_page_bytes() * os_page_bytes();
            EXPECT_GT(count * whole, GIB - before - (64 << 20));
            for (void *block : blocks) hak_free(block);
            test::expect_at_rest();
        }));
}

TEST_F(Tight, BlocksAreRunsUpToTheShareAndWhereverPagesAreFree)
{
    EXPECT_TRUE(test::in_child([] {
        Blocks blocks;
        hak_free(hak_malloc(10));
        test::limit_address_space(GIB + test::address_space_bytes()); // what else the process has is no part of it
        const size_t share = GIB / TIGHT_SHARE / SUPERSLAB_BYTES;
        fill_superslabs(blocks, share);
        blocks.push_back(hak_malloc(100000));
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_RUN) << "superslabs take the share, and no more";
        fill_superslabs(blocks, share + 1);
        blocks.push_back(hak_malloc(100000));
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_HUGE);
        EXPECT_EQ(hak_malloc_usable_size(blocks.back()), (100000 / os_page_bytes() + 1) * os_page_bytes());
        blocks.push_back(hak_aligned_alloc(1 << 20, 100000));
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_HUGE);
        EXPECT_TRUE(test::is_aligned(blocks.back(), 1 << 20));
        hak_free(blocks[blocks.size() - 3]);
        hak_free(blocks[blocks.size() - 4]);
        blocks[blocks.size() - 3] = hak_malloc(PAGE_BYTES);
        blocks[blocks.size() - 4] = hak_malloc(1 << 20);
        EXPECT_EQ(pool_figures().superslab_count, share + 2);
        EXPECT_EQ(tag_of(blocks[blocks.size() - 4]), (uint32_t)CLASS_RUN) << "four fill a superslab";
        blocks.push_back(hak_malloc(100000));
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_RUN) << "it has free pages";
        test::limit_address_space(RLIM_INFINITY);
        free_all(blocks);
        test::expect_at_rest();
    }));
}

TEST_F(Tight, ALimitThatIsRaisedCountsLater)
{
    EXPECT_TRUE(test::in_child([] {
        Blocks blocks = fill_beyond_the_share(GIB);
        blocks.push_back(hak_malloc(100000));
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_HUGE);
        test::limit_address_space(RLIM_INFINITY);
        usleep((TIGHT_READ_MS + 100) * 1000);
        blocks.push_back(hak_malloc(100000));
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_RUN);
        free_all(blocks);
        test::expect_at_rest();
    }));
}

// In a large heap the limit is not looked for at each superslab. If the system refuses one, the block gets a mapping of its own.
TEST_F(Tight, ARefusedSuperslabBecomesAMapping)
{
    EXPECT_TRUE(test::in_child([] {
        Blocks blocks;
        fill_superslabs(blocks, 130);
        blocks.push_back(hak_malloc(1500000));
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_RUN) << "address space is plenty";
        fill_superslabs(blocks, 1);
        test::limit_address_space(test::address_space_bytes() + SUPERSLAB_BYTES / 2);
        blocks.push_back(hak_malloc(1500000));
        test::limit_address_space(RLIM_INFINITY);
        ASSERT_NE(blocks.back(), nullptr);
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_HUGE);
        free_all(blocks);
        test::expect_at_rest();
    }));
}

// Whatever the limit is of, whether or not blocks of the size tile a superslab, and whether a thread's heap serves them or one of
// the program's own: when malloc fails, the system has no room for one more block, or slab of small blocks, and the cell of the
// page map that it begins in. What a superslab lacks is given up again, too.
TEST_F(Tight, BlocksTakeWhatIsLeftBehindTheLastSuperslab)
{
    // With the library's books three quarters of a superslab are left.
    constexpr size_t MORE = 31 * test::MIB + test::MIB / 2;
    const auto fill = [](int resource, size_t size, bool is_own) {
        SCOPED_TRACE(testing::Message() << size << " bytes, resource " << resource << (is_own ? ", own heap" : ""));
        hak_heap *own = is_own ? hak_heap_new() : nullptr;
        const auto allocate = [&] { return is_own ? hak_heap_malloc(own, size) : hak_malloc(size); };
        hak_free(hak_malloc(10));
        hak_free(allocate());
        Blocks blocks;
        blocks.reserve((MORE + 12 * SUPERSLAB_BYTES) / size + 1); // what is free or kept serves some
        const rlimit limit = {test::mapped_bytes(resource) + MORE, RLIM_INFINITY};
        ASSERT_EQ(setrlimit(resource, &limit), 0);
        for (void *block; (block = allocate()) != nullptr;) blocks.push_back(block);
        const size_t left = limit.rlim_cur - test::mapped_bytes(resource);
        const rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
        ASSERT_EQ(setrlimit(resource, &none), 0);
        printf("resource %d, %zu bytes, own %d: %zu KiB left\n", resource, size, is_own, left >> 10);
        const size_t taken =
            size > SMALL_BYTES_MAX ? size : sizeclass_slab_pages(sizeclass_of(size)) * size_t{PAGE_BYTES};
        EXPECT_LT(left, taken + PAGE_BYTES + CELL_BYTES);
        void *last = blocks.back();
        blocks.pop_back();
        free_all(blocks);
        hak_purge_all();
        const auto *lacking = static_cast<const superslab *>(pagemap_descriptor(last));
        if (lacking != nullptr && lacking->missing_pages != 0)
            EXPECT_EQ((size_t)__builtin_popcountll(~lacking->missing_pages), (taken + PAGE_BYTES - 1) / PAGE_BYTES)
                << "what the last block needs alone";
        hak_free(last);
        if (is_own) {
            hak_heap_destroy(own);
            hak_purge_all();
        }
        if (!VALIDATE || !is_own) test::expect_at_rest(); // else the pages of the heap that was destroyed are kept
    };
    for (int resource : {RLIMIT_AS, RLIMIT_DATA})
        for (size_t size : {size_t{100}, size_t{1000}, size_t{5000}, size_t{20000}, size_t{40000}, size_t{65536},
                            size_t{150000}, size_t{300000}, test::MIB, size_t{1500000}})
            for (bool is_own : {false, true}) EXPECT_TRUE(test::in_child([=] { fill(resource, size, is_own); }));
}

TEST_F(Tight, ALimitThatIsLoweredCountsAtOnce)
{
    EXPECT_TRUE(test::in_child([] {
        Blocks blocks;
        fill_superslabs(blocks, GIB / TIGHT_SHARE / SUPERSLAB_BYTES + 1);
        blocks.push_back(hak_malloc(100000));
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_RUN);
        fill_superslabs(blocks, 1);
        test::limit_address_space(GIB);
        blocks.push_back(hak_malloc(100000));
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_HUGE);
        test::limit_address_space(RLIM_INFINITY);
        free_all(blocks);
        test::expect_at_rest();
    }));
}

// TIGHT_MAPPINGS_MAX blocks of 100,000 bytes would take all of this limit, which is known to one superslab here.
TEST_F(Tight, BlocksOfWhichTheMappingsWouldBeTooManyStayRuns)
{
    EXPECT_TRUE(test::in_child([] {
        Blocks blocks = fill_beyond_the_share((size_t)TIGHT_MAPPINGS_MAX * 100000);
        blocks.push_back(hak_malloc(106000));
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_HUGE);
        blocks.push_back(hak_malloc(99999));
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_RUN);
        free_all(blocks);
        test::expect_at_rest();
    }));
}

TEST_F(Tight, ARefusedMappingBecomesARun)
{
    EXPECT_TRUE(test::in_child([] {
        Blocks blocks = fill_beyond_the_share(GIB);
        os_fault_install(1, false);
        blocks.push_back(hak_malloc(100000));
        EXPECT_EQ(os_fault_failures(), 1u);
        os_fault_remove();
        EXPECT_EQ(tag_of(blocks.back()), (uint32_t)CLASS_RUN);
        fill_superslabs(blocks, 1);
        os_fault_install(1, true);
        EXPECT_EQ(hak_malloc(100000), nullptr);
        os_fault_remove();
        free_all(blocks);
        test::expect_at_rest();
    }));
}

TEST_F(Tight, RefusedAtEveryCall)
{
    EXPECT_TRUE(test::in_child([] {
        Blocks blocks = fill_beyond_the_share(GIB);
        uint64_t nth = 1;
        for (bool reached = true; reached; nth++) {
            ASSERT_LT(nth, 100u);
            os_fault_install(nth, false);
            hak_purge(); // nothing is cached
            char *block = static_cast<char *>(hak_malloc(100000));
            char *longer = block != nullptr ? static_cast<char *>(hak_realloc(block, 300000)) : nullptr;
            reached = os_fault_failures() > 0;
            os_fault_remove();
            if (longer != nullptr) block = longer, block[299999] = 1;
            if (block != nullptr) block[99999] = 1;
            hak_free(block);
            fill_superslabs(blocks, 1);
        }
        EXPECT_GT(nth, 3u);
        free_all(blocks);
        test::expect_at_rest();
    }));
}

TEST_F(Tight, ResizesInTheMapping)
{
    EXPECT_TRUE(test::in_child([] {
        Blocks blocks = fill_beyond_the_share(GIB);
        char *block = static_cast<char *>(hak_malloc(100000));
        test::pattern_fill(block, 100000, 1, 64);
        size_t held = 100000;
        for (size_t size : {150000u, 2u << 20, 5u << 20, 1500000u, 90000u, 32769u, 70000u}) {
            block = static_cast<char *>(hak_realloc(block, size));
            ASSERT_NE(block, nullptr) << size;
            held = std::min(held, size);
            EXPECT_TRUE(test::pattern_holds(block, held, 1, 64)) << size;
            EXPECT_EQ(tag_of(block), (uint32_t)CLASS_HUGE) << size;
            EXPECT_GE(hak_malloc_usable_size(block), size);
            EXPECT_LE(hak_malloc_usable_size(block), size + size / 2 + os_page_bytes()) << size;
            block[hak_malloc_usable_size(block) - 1] = 1;
        }
        block = static_cast<char *>(hak_realloc(block, SMALL_BYTES_MAX));
        EXPECT_LT(tag_of(block), (uint32_t)CLASS_COUNT);
        EXPECT_TRUE(test::pattern_holds(block, SMALL_BYTES_MAX, 1, 64));
        hak_free(block);
        free_all(blocks);
        test::expect_at_rest();
    }));
}

TEST_F(Tight, MappingsCountAndAreKeptAsThoseOfHugeBlocks)
{
    EXPECT_TRUE(test::in_child([] {
        Blocks blocks = fill_beyond_the_share(GIB);
        const size_t whole = (100000 / os_page_bytes() + 1) * os_page_bytes(), before = limit_committed_bytes();
        void *block = hak_malloc(100000);
        hak_stats stats;
        hak_stats_get(&stats);
        EXPECT_EQ(stats.huge_count, 1u);
        EXPECT_EQ(stats.huge_bytes, whole);
        EXPECT_EQ(limit_committed_bytes(), before + whole);
        hak_free(block);
        EXPECT_EQ(hak_malloc(100000), block) << "its mapping was kept";
        hak_free(block);
        hak_purge();
        EXPECT_LE(limit_committed_bytes(), before);
        limit_set(limit_committed_bytes() + whole - 1);
        EXPECT_EQ(hak_malloc(100000), nullptr);
        limit_set(SIZE_MAX);
        free_all(blocks);
        test::expect_at_rest();
    }));
}

TEST_F(Tight, AHeapOfTheProgramsOwnHasRuns)
{
    EXPECT_TRUE(test::in_child([] {
        Blocks blocks = fill_beyond_the_share(GIB);
        struct hak_heap *heap = hak_heap_new();
        EXPECT_EQ(tag_of(hak_heap_malloc(heap, 100000)), (uint32_t)CLASS_OWN);
        hak_heap_destroy(heap);
        free_all(blocks);
    }));
}

TEST_F(Tight, ThreadsAtTheLimit)
{
    EXPECT_TRUE(test::in_child([] {
        Blocks blocks = fill_beyond_the_share(test::address_space_bytes() + GIB / 4);
        std::atomic<size_t> refused = 0, mapped = 0;
        test::in_threads(3, [&](int thread) {
            test::Rng rng((uint64_t)thread);
            std::vector<std::pair<char *, size_t>> held(400);
            for (int i = 0; i < test::rounds(8000); i++) {
                auto &[block, size] = held[rng.below(held.size())];
                size_t next = rng.below(8) != 0 ? rng.between(SMALL_BYTES_MAX + 1, 400000) : rng.between(1, 3 << 20);
                if (block != nullptr) ASSERT_TRUE(test::pattern_holds(block, size, size, 4096));
                if (block != nullptr && rng.below(2) == 0) {
                    char *resized = static_cast<char *>(hak_realloc(block, next));
                    if (resized == nullptr) {
                        refused++;
                        continue;
                    }
                    ASSERT_TRUE(test::pattern_holds(resized, std::min(size, next), size, 4096));
                    block = resized;
                } else {
                    hak_free(block);
                    block = static_cast<char *>(hak_calloc(1, next));
                    if (block == nullptr) {
                        refused++;
                        continue;
                    }
                    for (size_t at = 0; at < next; at += 4096) ASSERT_EQ(block[at], 0);
                    ASSERT_EQ(block[next - 1], 0);
                }
                if (tag_of(block) == CLASS_HUGE && next <= RUN_BYTES_MAX) mapped++;
                size = next;
                test::pattern_fill(block, size, size, 4096);
            }
            for (auto [block, size] : held) hak_free(block);
        });
        EXPECT_GT(refused, 0u);
        EXPECT_GT(mapped, 0u);
        test::limit_address_space(RLIM_INFINITY);
        free_all(blocks);
        test::expect_at_rest();
    }));
}

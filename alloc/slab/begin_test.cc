// begin_test.cc: slabs that begin on pages which others had, and runs behind them: what has memory, what reads as zero.
#include "base/test_support.h"

#include <set>

extern "C" {
#include "cache/tcache.h"
#include "hakmem/hakmem.h"
#include "heap/large.h"
#include "os/os.h"
#include "slab/slab.h"
#include "slab/trim.h"
#include "superslab/pool.h"
}

namespace {

class Begin : public testing::Test {
  protected:
    void SetUp() override
    {
        static struct heap *shared = [] {
            auto *made = static_cast<struct heap *>(aligned_alloc(64, sizeof(struct heap)));
            memset(static_cast<void *>(made), 0, sizeof *made);
            EXPECT_TRUE(owner_register(&made->owner));
            return made;
        }();
        own = &shared->owner; // it keeps no empty slab
        own->has_limit = false;
    }

    static bool is_zero(const char *start, size_t bytes)
    {
        return start[0] == 0 && memcmp(start, start + 1, bytes - 1) == 0;
    }

    // Takes at least count blocks, or all, and writes to every byte.
    static std::vector<block *> take(slab *s, size_t count)
    {
        std::vector<block *> taken;
        const uint32_t bytes = sizeclass_bytes(s->class_index);
        while (taken.size() < count && s->listed) {
            for (block *b = slab_take(s); b != nullptr;) {
                block *next = b->next;
                memset(static_cast<void *>(b), 0xa5, bytes);
                taken.push_back(b);
                b = next;
            }
        }
        return taken;
    }

    static void give_back(slab *s, const std::vector<block *> &blocks)
    {
        for (block *b : blocks) slab_give_back(s, b); // the last one releases the slab
    }

    // What the descriptors call hollow reads as zero, and no block outside of the free and the used ones touches other pages.
    static void expect_law(slab *s, const std::vector<block *> &used)
    {
        const size_t os_bytes = os_page_bytes(), bytes = sizeclass_bytes(s->class_index);
        char *pages = superslab_page_start(superslab_of(s), s), *start = slab_start(superslab_of(s), s);
        auto is_hollow = [&](const char *at) {
            const auto offset = (size_t)(at - pages);
            return (s[offset / PAGE_BYTES].hollow_pages >> offset % PAGE_BYTES / os_bytes & 1) != 0;
        };
        if (s->hollow)
            for (char *page = pages; page < pages + s->page_count * PAGE_BYTES; page += os_bytes)
                if (is_hollow(page)) ASSERT_TRUE(is_zero(page, os_bytes));
        const std::set<block *> in_use(used.begin(), used.end());
        size_t carved = 0;
        for (size_t i = 0; i < s->capacity; i++) {
            char *first = start + i * bytes, *last = first + bytes - 1;
            bool touches = false;
            for (char *at = first; at <= last; at += os_bytes) touches = touches || is_hollow(at);
            touches = touches || is_hollow(last);
            ASSERT_FALSE(touches && in_use.count(reinterpret_cast<block *>(first)) != 0);
            const bool is_marked =
                (slab_marks(s)[((size_t)(first - pages) / bytes) / 64] >> ((size_t)(first - pages) / bytes) % 64 & 1) !=
                0;
            ASSERT_FALSE(touches && is_marked) << "a free block without memory";
            if (s->hollow) ASSERT_TRUE(touches || is_marked || in_use.count(reinterpret_cast<block *>(first)) != 0);
            carved += is_marked || in_use.count(reinterpret_cast<block *>(first)) != 0;
        }
        ASSERT_EQ(carved, s->carved_count);
    }

    owner *own = nullptr;
};

} // namespace

// Each class after each: the earlier slab is used in part, in whole, or is trimmed, and ends; the later one begins there, and
// each of its blocks comes out once. A run of zeroes that follows reads as zero.
TEST_F(Begin, OnPagesThatAnotherSlabHad)
{
    SKIP_UNDER_SANITIZER("blocks that are free may not be read");
    if (VALIDATE) GTEST_SKIP() << "slabs of the debug-validation build are carved in order";
    test::Rng rng(test::seed());
    for (uint32_t earlier = 1; earlier < CLASS_COUNT; earlier++) {
        for (int part = 0; part < 4; part++) { // 0: one refill; 1: half; 2: all; 3: all, and trimmed
            SCOPED_TRACE("class " + std::to_string(earlier) + ", part " + std::to_string(part));
            pool_purge_all();
            slab *s = slab_make(own, earlier);
            ASSERT_NE(s, nullptr);
            const size_t capacity = s->capacity;
            std::vector<block *> blocks = take(s, part == 0 ? 1 : part == 1 ? capacity / 2 : capacity);
            if (part == 3) {
                rng.shuffle(blocks);
                while (blocks.size() > 1 + capacity / 16) slab_give_back(s, blocks.back()), blocks.pop_back();
                slab_trim_all(s->owner);
            }
            expect_law(s, blocks);
            give_back(s, blocks);
            const uint32_t later = 1 + (uint32_t)rng.below(CLASS_COUNT - 1);
            SCOPED_TRACE("then class " + std::to_string(later));
            s = slab_make(own, later);
            expect_law(s, {});
            blocks = take(s, rng.below(2) == 0 ? s->capacity : 1);
            expect_law(s, blocks);
            ASSERT_EQ(std::set<block *>(blocks.begin(), blocks.end()).size(), blocks.size());
            if (!s->listed) ASSERT_EQ(blocks.size(), s->capacity);
            give_back(s, blocks);

            const size_t bytes = SUPERSLAB_BYTES / 2; // as long as it takes those pages too
            std::vector<void *> runs;
            for (int i = 0; i < 2; i++) {
                runs.push_back(large_alloc(1, bytes, false, true));
                ASSERT_TRUE(is_zero(static_cast<char *>(runs.back()), bytes));
                memset(runs.back(), 0xa5, bytes);
            }
            for (void *run : runs) large_free(run);
        }
    }
    EXPECT_EQ(own->carved_bytes, 0u);
}

// A slab may begin hollow. To carve it then says nothing about trims.
TEST_F(Begin, HollowIsNotTrimmed)
{
    SKIP_UNDER_SANITIZER("blocks that are free may not be read");
    if (VALIDATE) GTEST_SKIP() << "slabs of the debug-validation build are carved in order";
    pool_purge_all();
    own->trimmed_is_wanted = false;
    slab *s = slab_make(own, sizeclass_of(1024));
    give_back(s, take(s, 1));
    s = slab_make(own, sizeclass_of(512));
    EXPECT_TRUE(s->hollow);
    EXPECT_GT(s->carved_count, 0);
    give_back(s, take(s, s->capacity));
    EXPECT_FALSE(own->trimmed_is_wanted);
}

// Pages that are marked dirty, and of which each reads as zero, are carved in order as fresh ones are.
TEST_F(Begin, ZeroIsFresh)
{
    SKIP_UNDER_SANITIZER("blocks that are free may not be read");
    if (VALIDATE) GTEST_SKIP() << "slabs of the debug-validation build are carved in order";
    pool_purge_all();
    slab *s = slab_make(own, sizeclass_of(1024));
    superslab *at = superslab_of(s);
    const uint32_t page = s->page_index;
    std::vector<block *> blocks = take(s, 1);
    for (block *b : blocks) memset(static_cast<void *>(b), 0, 1024);
    give_back(s, blocks);
    ASSERT_NE(at->partial_pages.load() >> page & 1, 0u);
    at->slabs[page].hollow_pages = static_cast<uint16_t>(~0u); // all of the page is zero again
    s = slab_make(own, sizeclass_of(512));
    ASSERT_EQ(s, &at->slabs[page]);
    EXPECT_FALSE(s->hollow);
    EXPECT_EQ(s->carved_count, 0);
    blocks = take(s, s->capacity);
    EXPECT_EQ(blocks.size(), s->capacity);
    give_back(s, blocks);
}

// A heap with a limit counts what is carved: its slabs are carved in order, and leave no page that reads as zero behind.
TEST_F(Begin, InOrderWithALimit)
{
    SKIP_UNDER_SANITIZER("blocks that are free may not be read");
    for (uint32_t c = 1; c < CLASS_COUNT; c++) {
        pool_purge_all();
        slab *s = slab_make(own, c);
        give_back(s, take(s, s->capacity));
        own->has_limit = true;
        s = slab_make(own, c);
        EXPECT_EQ(s->carved_count, 0);
        std::vector<block *> blocks = take(s, 1);
        own->has_limit = false;
        give_back(s, blocks);
        s = slab_make(own, c);
        if (!VALIDATE) EXPECT_EQ(s->carved_count, s->capacity) << "all of its pages have memory";
        expect_law(s, {});
        give_back(s, take(s, s->capacity));
    }
}

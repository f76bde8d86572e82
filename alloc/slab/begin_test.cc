// begin_test.cc: slabs that begin on pages which others had; see slab_law_test.cc too.
#include "base/test_support.h"

extern "C" {
#include "cache/tcache.h"
#include "slab/slab.h"
#include "slab/take.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
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

    // Takes at least count blocks, or all, and writes to every byte.
    static std::vector<block *> take(slab *s, size_t count)
    {
        std::vector<block *> taken;
        const uint32_t bytes = sizeclass_bytes(s->class_index);
        while (taken.size() < count && !s->full) {
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

    owner *own = nullptr;
};

} // namespace

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
        give_back(s, take(s, s->capacity));
    }
}

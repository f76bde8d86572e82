// pool_test_support.h: pages that a test claims from the pool, and a fixture that counts them.
#pragma once

#include "base/test_support.h"

#include <cstring>

extern "C" {
#include "superslab/pool.h"
#include "superslab/pool_make.h"
#include "superslab/purge.h"
}

namespace test {

struct Claimed {
    page_range range;
    uint32_t pages;
    bool is_run;
};

inline char *start_of(const page_range &range)
{
    return superslab_base(range.superslab) + (size_t)range.first * PAGE_BYTES;
}

inline void touch(const Claimed &run)
{
    memset(start_of(run.range), 1, (size_t)run.pages * PAGE_BYTES);
}

inline void free_run(const Claimed &run)
{
    pool_free(run.range.superslab, run.range.first, run.pages, run.is_run ? 0 : 8);
}

inline Claimed claim(uint32_t pages, uint32_t align_pages = 1, bool from_top = true)
{
    Claimed run = {pool_claim(pages, align_pages, from_top), pages, from_top};
    EXPECT_NE(run.range.superslab, nullptr);
    return run;
}

// Of all superslabs.
inline size_t free_pages()
{
    const auto now = pool_figures();
    return now.superslab_count * SUPERSLAB_PAGES - now.missing_pages - now.claimed_pages;
}

class PoolTest : public testing::Test {
  protected:
    void SetUp() override
    {
        pool_set_purge_delay_ms(PURGE_DELAY_MS);
        pool_purge_all();
        before = pool_figures();
    }
    void TearDown() override
    {
        pool_set_purge_delay_ms(PURGE_DELAY_MS);
        EXPECT_EQ(pool_figures().claimed_pages, before.claimed_pages);
        pool_purge_all();
        EXPECT_EQ(pool_figures().dirty_pages, 0u);
    }
    struct pool_figures before;
};

} // namespace test

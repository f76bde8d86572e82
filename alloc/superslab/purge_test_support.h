// purge_test_support.h: the swings that teach the purge how many free pages to keep, and its clock.
#pragma once

#include "base/test_support.h"

#include <algorithm>
#include <cerrno>
#include <vector>

extern "C" {
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
}

namespace test::purge {

constexpr uint32_t RUN_PAGES = 16;

// Claims `runs` runs, touches them and frees them, which leaves dirty pages.
inline void swing(int runs)
{
    std::vector<page_range> ranges;
    for (int i = 0; i < runs; i++) {
        ranges.push_back(pool_claim(RUN_PAGES, 1, true));
        ASSERT_NE(ranges.back().superslab, nullptr);
        *superslab_page_start(ranges.back().superslab, &ranges.back().superslab->slabs[ranges.back().first]) = 1;
    }
    for (const page_range &each : ranges) pool_free(each.superslab, each.first, RUN_PAGES, 0);
}

inline size_t purge_calls_of(void (*work)())
{
    static size_t calls;
    static os_ops counting;
    counting = *os;
    static const os_ops *inner;
    inner = os;
    calls = 0;
    counting.purge = [](void *start, size_t size_bytes) {
        calls++;
        return inner->purge(start, size_bytes);
    };
    os = &counting;
    work();
    os = inner;
    return calls;
}

// A clock that runs an hour ahead of the real one, so that only tick() advances the pool's time, on a busy machine too.
inline uint64_t now_ahead_ms()
{
    return os_now_ms() + 3600 * 1000;
}
inline uint64_t clock_ms = now_ahead_ms();

inline void tick()
{
    clock_ms += PURGE_DELAY_MS;
    ASSERT_TRUE(pool_tick(clock_ms));
}

class Purge : public testing::Test {
  protected:
    void SetUp() override
    {
        pool_set_purge_delay_ms(PURGE_DELAY_MS);
        clock_ms = std::max(clock_ms, now_ahead_ms());
        while (!pool_tick(clock_ms)) clock_ms += PURGE_DELAY_MS; // another test's clock ran ahead too
        pool_purge_all();
    }
    void TearDown() override { pool_purge_all(); }
};

inline void big_swing()
{
    swing(64);
} // 1024 pages, sixteen times what may always be kept

} // namespace test::purge

/* guard_test_support.h: for tests of sampled blocks. Each test runs in a child, since the range is made once in a
 * process. Only in the release build: the debug-validation build samples nothing. */
#pragma once

#include "heap/heap_test_support.h"

extern "C" {
#include "guard/guard.h"
#include "profile/sampler.h"
#include "os/libc.h"
#include "superslab/pagemap.h"
}

namespace test {

inline char *as_bytes(void *block)
{
    return static_cast<char *>(block);
}
inline bool is_sampled(const void *block)
{
    return pagemap_tag_checked(block) == CLASS_GUARD;
}

class GuardTest : public testing::Test {
  protected:
    void SetUp() override
    {
        void *frame;
        os_backtrace(&frame, 1);   // the unwinder may allocate at its first use
        hak_free(hak_malloc(100)); // the heap must have started
    }

    // Runs body in a child with this many slots. Rate 0: only direct calls of guard_alloc make sampled blocks.
    static void with(uint32_t slots, uint32_t rate, const std::function<void()> &body)
    {
        EXPECT_TRUE(in_child([&] {
            ASSERT_TRUE(guard_start(slots));
            sampling_guard_set(rate);
            body();
        }));
    }
};

} // namespace test

/* guard_test_support.h: for tests of sampled blocks. Each test in a child, since the range is made once in a process.
 * Of the release build: the other one has none. */
#pragma once

#include "heap/heap_test_support.h"

extern "C" {
#include "guard/guard.h"
#include "guard/guard_sample.h"
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
        os_backtrace(&frame, 1);   // the unwinder allocates at its first use
        hak_free(hak_malloc(100)); // the heap has started
    }

    // body in a child with so many slots; rate 0: nothing is sampled by itself.
    static void with(uint32_t slots, uint32_t rate, const std::function<void()> &body)
    {
        EXPECT_TRUE(in_child([&] {
            ASSERT_TRUE(guard_start(slots));
            guard_sample_set(rate);
            body();
        }));
    }
};

} // namespace test

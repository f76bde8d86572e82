// guard_litmus_test.cc: the pairs of guard/guard.c and profile/sampler.c, one hand-over each. They run in children,
// since the range is made once in a process. Only in the release build: the debug-validation build samples nothing.
#include "litmus/litmus_test_support.h"

extern "C" {
#include "guard/guard.h"
#include "profile/sampler.h"
#include "hakmem/hakmem.h"
#include "os/libc.h"
}

namespace {

constexpr size_t SIZE_BYTES = 100;

class LitmusGuard : public testing::Test {
  protected:
    void SetUp() override
    {
        void *frame;
        os_backtrace(&frame, 1); // the unwinder may allocate at its first use
        hak_free(hak_malloc(1)); // starts the heap
    }
};

} // namespace

// guard_alloc (release of the slot's state) and guard_free (acquire): the record of the block.
TEST_F(LitmusGuard, TheRecordOfABlock)
{
    EXPECT_TRUE(test::in_child([] {
        ASSERT_TRUE(guard_start(4));
        litmus::Hand<void *> block;
        litmus::in_order({
            [&] { block.give(guard_alloc(SIZE_BYTES)); },
            [&] { guard_free(block.take()); },
        });
        EXPECT_EQ(guard_figures().sampled, 1u);
        EXPECT_EQ(guard_figures().live, 0u);
    }));
}

// sampling_guard_set (release) and sampling_is_on (acquire): the data that guard_start made.
TEST_F(LitmusGuard, WhatGuardStartMade)
{
    EXPECT_TRUE(test::in_child([] {
        bool is_on = false;
        void *block = nullptr;
        litmus::in_order({
            [] {
                EXPECT_TRUE(guard_start(4));
                sampling_guard_set(1);
            },
            [&] {
                is_on = sampling_is_on();
                block = guard_alloc(SIZE_BYTES);
            },
        });
        EXPECT_TRUE(is_on);
        EXPECT_NE(block, nullptr);
    }));
}

// fresh_litmus_test.cc: the start of the heap, in a process that has not used it.
#include "litmus/litmus_test_support.h"

extern "C" {
#include "cache/thread.h"
#include "superslab/pagemap.h"
}

// thread_process_start (release) and the same function in another thread (acquire): the page map's base and size.
TEST(LitmusFresh, ThePageMapIsThere)
{
    EXPECT_TRUE(test::in_child([] {
        int on_stack = 0;
        bool first = false, then = false;
        uint32_t tag = 1;
        litmus::in_order({
            [&] { first = thread_process_start(); },
            [&] {
                then = thread_process_start();
                tag = pagemap_tag_checked(&on_stack);
            },
        });
        EXPECT_TRUE(first && then);
        EXPECT_EQ(tag, 0u);
    }));
}

// guard_report_test.cc: a pointer that free or realloc cannot take, where it looks like one to a sampled block.
#include "heap/guard_test_support.h"

#include <setjmp.h>

namespace {

sigjmp_buf survived;

char *as_bytes(void *block) { return static_cast<char *>(block); }

class GuardReport : public test::GuardTest {
  protected:
    static void expect_abort(uint32_t slots, const std::function<void()> &body)
    {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            if (!guard_start(slots)) _exit(2);
            body();
            _exit(1);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << "status " << status;
    }
};

} // namespace

TEST_F(GuardReport, MisuseEndsTheProcess)
{
    expect_abort(2, [] {
        void *block = guard_alloc(100);
        hak_free(block);
        hak_free(block);
    });
    expect_abort(2, [] { hak_free(as_bytes(guard_alloc(100)) + 16); });
    expect_abort(2, [] { hak_free(as_bytes(guard_alloc(100)) + 112); });
    expect_abort(2, [] { hak_free(as_bytes(guard_alloc(100)) - 4096); }); // before the first slot
    expect_abort(2, [] { hak_free(as_bytes(guard_alloc(100)) + 40000); }); // behind the last slot
    expect_abort(2, [] {
        void *block = guard_alloc(100);
        hak_free(block);
        hak_realloc(block, 100);
    });
}

// As a crash handler's caller may: the process goes on behind the call that was to end it.
TEST_F(GuardReport, WhatWasMisusedIsKnownUntilTheHandlerIsDone)
{
    with(2, 0, [] {
        struct sigaction action = {};
        action.sa_handler = [](int) { siglongjmp(survived, 1); };
        ASSERT_EQ(sigaction(SIGABRT, &action, nullptr), 0);
        guard_history history;
        EXPECT_FALSE(guard_misuse(&history));
        void *block = guard_alloc(100);
        hak_free(block);
        if (sigsetjmp(survived, 1) == 0) hak_free(block);
        ASSERT_TRUE(guard_misuse(&history));
        EXPECT_EQ(history.address, (uint64_t)(uintptr_t)block);
        EXPECT_EQ(history.finding, RECORD_FINDING_freed_twice);
        EXPECT_EQ(history.state, RECORD_STATE_freed);
        test::in_thread([] {
            guard_history other;
            EXPECT_FALSE(guard_misuse(&other));
            guard_misuse_forget();
        });
        EXPECT_TRUE(guard_misuse(&history));
        guard_misuse_forget();
        EXPECT_FALSE(guard_misuse(&history));
    });
}

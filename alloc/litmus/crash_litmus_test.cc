// crash_litmus_test.cc: the pair of crash/crash.c. It runs in a child, so that signal handlers do not affect other
// tests.
#include "litmus/litmus_test_support.h"

#include <csetjmp>
#include <csignal>
#include <filesystem>

extern "C" {
#include "hakmem/crash.h"
}

namespace {

thread_local sigjmp_buf back;

void crash()
{
    if (sigsetjmp(back, 1) == 0) raise(SIGSEGV);
}

} // namespace

// The end of a record (release of the writer) and the next thread's record (acquire): the memory in which records are
// built.
TEST(LitmusCrash, WhatTheWriterHas)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    std::string directory = testing::TempDir() + "hakmem-litmus-crash-" + std::to_string(getpid());
    ASSERT_TRUE(std::filesystem::create_directory(directory));
    EXPECT_TRUE(test::in_child([&] {
        struct sigaction action = {};
        action.sa_handler = [](int) { siglongjmp(back, 1); };
        ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
        ASSERT_EQ(hak_crash_handler_install(directory.c_str()), 0);
        litmus::in_order({crash, crash});
    }));
    std::filesystem::directory_iterator records(directory);
    EXPECT_EQ(std::distance(begin(records), end(records)), 2);
    std::filesystem::remove_all(directory);
}

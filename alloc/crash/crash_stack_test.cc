// crash_stack_test.cc: a thread gets a signal stack if stacks are wanted and it has none. At its end it loses only a
// stack that it got here.
#include "base/test_support.h"

#include <csignal>
#include <sys/mman.h>

extern "C" {
#include "crash/crash_record.h"
#include "crash/crash_stack.h"
#include "crash/crash_try.h"
#include "os/peek.h"
}

namespace {

stack_t now()
{
    stack_t stack = {};
    EXPECT_EQ(sigaltstack(nullptr, &stack), 0);
    return stack;
}

bool is_there(const void *address)
{
    char byte;
    return os_peek(address, &byte, 1);
}

volatile sig_atomic_t handled;

// Runs on the stack that is to be taken, which therefore stays.
void take_from_within(int)
{
    crash_stack(false);
    handled = now().ss_flags == SS_ONSTACK;
}

class CrashStack : public testing::Test {
  protected:
    void SetUp() override
    {
        SKIP_UNDER_SANITIZER("it gives its threads stacks of its own");
        crash_stack_want(true);
    }
    void TearDown() override { crash_stack_want(false); }
};

TEST_F(CrashStack, IsGivenAndTaken)
{
    test::in_thread([] {
        errno = 77;
        crash_stack(true);
        stack_t given = now();
        ASSERT_EQ(given.ss_flags, 0) << "there is one";
        char *stack = static_cast<char *>(given.ss_sp);
        stack[0] = stack[given.ss_size - 1] = 1;
        EXPECT_FALSE(is_there(stack - 1)) << "a page before it catches what overflows";
        crash_stack(true);
        EXPECT_EQ(now().ss_sp, given.ss_sp) << "one is enough";
        crash_stack(false);
        EXPECT_EQ(now().ss_flags, SS_DISABLE);
        EXPECT_FALSE(is_there(stack));
        crash_stack(false);
        EXPECT_EQ(errno, 77);
    });
}

TEST_F(CrashStack, AThreadGetsOneAlone)
{
    test::in_thread([] {
        crash_stack(true);
        void *given = now().ss_sp;
        stack_t none = {};
        none.ss_flags = SS_DISABLE;
        ASSERT_EQ(sigaltstack(&none, nullptr), 0);
        crash_stack(true);
        EXPECT_EQ(now().ss_flags, SS_DISABLE) << "the program has switched it off";
        crash_stack(false);
        EXPECT_FALSE(is_there(given));
    });
}

TEST_F(CrashStack, IsNotGivenUnasked)
{
    crash_stack_want(false);
    test::in_thread([] {
        crash_stack(true);
        EXPECT_EQ(now().ss_flags, SS_DISABLE);
    });
}

TEST_F(CrashStack, AnothersStays)
{
    test::in_thread([] {
        static char memory[65536];
        stack_t another = {};
        another.ss_sp = memory;
        another.ss_size = sizeof memory;
        ASSERT_EQ(sigaltstack(&another, nullptr), 0);
        crash_stack(true);
        EXPECT_EQ(now().ss_sp, memory) << "the program has put one there";
        stack_t none = {};
        none.ss_flags = SS_DISABLE;
        ASSERT_EQ(sigaltstack(&none, nullptr), 0);
        crash_stack(true);
        ASSERT_EQ(sigaltstack(&another, nullptr), 0);
        crash_stack(false);
        EXPECT_EQ(now().ss_sp, memory) << "the program has put it in our one's place";
        ASSERT_EQ(sigaltstack(&none, nullptr), 0);
    });
}

TEST_F(CrashStack, StaysUnderAHandlerThatRunsOnIt)
{
    struct sigaction action = {}, before;
    action.sa_handler = take_from_within;
    action.sa_flags = SA_ONSTACK;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    test::in_thread([] {
        crash_stack(true);
        raise(SIGUSR1);
        EXPECT_TRUE(handled);
        EXPECT_EQ(now().ss_flags, 0);
        crash_stack(false);
        EXPECT_EQ(now().ss_flags, SS_DISABLE);
    });
    sigaction(SIGUSR1, &before, nullptr);
}

} // namespace

TEST(CrashAddress, OnlyAFaultInMemoryHasOne)
{
    siginfo_t info = {};
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
        for (int code : {1, 2, (int)SI_KERNEL, (int)SI_USER, (int)SI_TKILL, (int)SI_QUEUE}) {
            info.si_code = code;
            bool is_fault = code == 1 || code == 2;
            EXPECT_EQ(crash_has_address(number, &info), is_fault && (number == SIGSEGV || number == SIGBUS))
                << number << ", code " << code;
        }
}

TEST(CrashTry, FailsOnlyWhileAStepRuns)
{
    int steps = 0;
    auto goes_well = [](void *count) { ++*static_cast<int *>(count); };
    auto fails = [](void *count) {
        ++*static_cast<int *>(count);
        crash_try_fail();
        *static_cast<int *>(count) += 100;
    };
    crash_try_fail(); // nothing is under way: returns
    EXPECT_TRUE(crash_try(goes_well, &steps));
    crash_try_fail();
    EXPECT_FALSE(crash_try(fails, &steps));
    crash_try_fail();
    EXPECT_EQ(steps, 2);
}

// hooks_test.cc: the promises of hakmem/validate.h to a test's scheduler: a thread that waits for a lock calls the hook
// instead of sleeping, and the allocator reads the replaced clock.
#include "base/test_support.h"

#include <cstring>

#include "hakmem/validate.h"

extern "C" {
#include "base/sync_point.h"
#include "os/lock.h"
#include "os/os.h"
}

namespace {

std::atomic<int> lock_waits, lock_releases;

void count_steps(const char *step)
{
    if (strcmp(step, "lock_wait") == 0) lock_waits++;
    if (strcmp(step, "lock_release") == 0) lock_releases++;
}

unsigned long long fixed_clock(void)
{
    return 123456789012;
}

} // namespace

TEST(Hooks, AWaiterAsksTheHookAgainAndAgain)
{
    lock_waits = lock_releases = 0;
    lock_acquire(LOCK_POOL);
    hak_sync_point_hook = count_steps;
    std::thread waiter([] {
        EXPECT_FALSE(lock_acquire(LOCK_POOL));
        lock_release(LOCK_POOL);
    });
    for (int i = 0; i < 20000 && lock_waits < 3; i++) usleep(1000);
    EXPECT_GE(lock_waits, 3) << "it sleeps in the system";
    lock_release(LOCK_POOL);
    waiter.join();
    hak_sync_point_hook = nullptr;
    EXPECT_EQ(lock_releases, 2);
    test::in_thread([] { // the lock is free again, and the waiter left no mark on it
        EXPECT_FALSE(lock_acquire(LOCK_POOL));
        lock_release(LOCK_POOL);
    });
}

TEST(Hooks, TheClockIsTheOneInPlace)
{
    uint64_t before = os_now_ms();
    hak_clock_hook = fixed_clock;
    EXPECT_EQ(os_now_ms(), 123456789012u);
    hak_clock_hook = nullptr;
    EXPECT_GE(os_now_ms(), before);
    EXPECT_LT(os_now_ms(), before + 60000);
}

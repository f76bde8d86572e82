#include "engine/watch/work_clock.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "engine/base/clock.h"

namespace stress {
namespace {

struct Times {
    std::uint64_t passed_ns, worked_ns;
};

// What the clock says after a while in which `body` runs in a thread.
template <typename Body> Times times_beside(Body body)
{
    std::atomic<bool> stop{false};
    std::thread thread([&] { body(stop); });
    const std::uint64_t start_ns = clock_ns();
    WorkClock clock;
    while (clock_ns() - start_ns < 300'000'000) {
        usleep(5000);
        clock.look();
    }
    const Times times{clock_ns() - start_ns, clock.worked_ns()};
    stop = true;
    thread.join();
    return times;
}

TEST(WorkClock, AThreadThatSleepsAsksForNothing)
{
    const Times times = times_beside([](const std::atomic<bool> &stop) {
        while (!stop) usleep(100000);
    });
    // It may be seen while it wakes.
    EXPECT_GE(times.worked_ns, times.passed_ns / 2);
    EXPECT_LE(times.worked_ns, times.passed_ns);
}

// Two others want the only processor that the thread may use.
TEST(WorkClock, StandsWhileOthersHaveTheProcessor)
{
    cpu_set_t before, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    std::vector<pid_t> others(2);
    for (pid_t &other : others)
        if (other = fork(); other == 0)
            for (;;) {}
    const Times times = times_beside([](const std::atomic<bool> &stop) {
        while (!stop) {}
    });
    for (pid_t other : others) {
        kill(other, SIGKILL);
        waitpid(other, nullptr, 0);
    }
    EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
    EXPECT_LT(times.worked_ns, times.passed_ns / 10 * 7); // a third, if the system is fair and nobody else asks
    EXPECT_GE(times.worked_ns, times.passed_ns / 9); // an eighth, of a moment earlier
}

} // namespace
} // namespace stress

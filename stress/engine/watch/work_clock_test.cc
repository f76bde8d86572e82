#include "engine/watch/work_clock.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "engine/watch/figures.h"

namespace stress {
namespace {

TEST(WorkClock, RunsAsUsualWhileEachThreadHasWhatItAsksFor)
{
    WorkTime time(4);
    EXPECT_EQ(time.worked_ns(0, 0), 0u);
    time.look(1000, 3);
    EXPECT_EQ(time.worked_ns(1000, 3000), 1000u);
    EXPECT_EQ(time.worked_ns(1000, 3500), 1000u) << "more than it was seen to ask for";
}

TEST(WorkClock, RunsAsUsualWhileAllSleep)
{
    WorkTime time(4);
    time.look(1000, 0);
    EXPECT_EQ(time.worked_ns(1000, 0), 1000u);
    EXPECT_EQ(time.worked_ns(1200, 0), 1200u) << "not looked since";
}

TEST(WorkClock, RunsAtTheShareThatTheThreadsGet)
{
    WorkTime time(4);
    time.look(1000, 2);
    EXPECT_EQ(time.worked_ns(1000, 1000), 500u);
    time.look(2000, 0); // then they sleep
    EXPECT_EQ(time.worked_ns(2000, 1000), 1500u);
}

TEST(WorkClock, MoreThreadsThanProcessorsLoseNothing)
{
    WorkTime time(1.5);
    time.look(1000, 8);
    EXPECT_EQ(time.worked_ns(1000, 1500), 1000u);
    EXPECT_EQ(time.worked_ns(1000, 750), 500u);
}

TEST(WorkClock, IsNeverSlowerThanAnEighth)
{
    WorkTime time(2);
    time.look(8000, 2);
    EXPECT_EQ(time.worked_ns(8000, 4000), 2000u);
    EXPECT_EQ(time.worked_ns(8000, 2000), 1000u);
    EXPECT_EQ(time.worked_ns(8000, 0), 1000u);
}

// What it reads of this process: however busy the machine is, a thread that spins runs or waits for a processor.
TEST(WorkClock, ThreadsThatSpinAreSeen)
{
    std::atomic<bool> stop{false};
    std::atomic<int> spinning{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
        threads.emplace_back([&] {
            ++spinning;
            while (!stop) {}
        });
    while (spinning < 3) usleep(100);
    EXPECT_EQ(others_runnable_count(), 3u);
    stop = true;
    for (std::thread &thread : threads) thread.join();
    while (others_runnable_count() != 0) usleep(1000); // a joined thread may still be ending
}

// The system lists the children of each thread.
TEST(TreeFigures, HaveTheChildOfAnyThread)
{
    if (access("/proc/self/task", R_OK) != 0 || access("/proc/thread-self/children", R_OK) != 0)
        GTEST_SKIP() << "this system does not list children";
    std::atomic<pid_t> child{0};
    std::atomic<bool> seen{false};
    std::thread other([&] {
        const pid_t forked = fork();
        if (forked == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) pause();
        }
        child = forked;
        while (!seen) usleep(100);
    });
    while (child == 0) usleep(100);
    const Processes found = tree_figures(getpid()).processes;
    EXPECT_NE(std::find(found.begin(), found.end(), child), found.end());
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    seen = true;
    other.join();
}

TEST(WorkClock, TheProcessorsAreThoseThatItMayRunOn)
{
    cpu_set_t before, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    EXPECT_GT(processors_available(), 0);
    EXPECT_LE(processors_available(), CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_LE(processors_available(), 1);
    EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

} // namespace
} // namespace stress

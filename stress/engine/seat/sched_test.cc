// The seeded scheduler on threads of this test: mutual exclusion, determinism, blocking, stall.
#include "engine/seat/sched.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "engine/base/build.h"
#include "engine/base/spawn_for_test.h"

namespace stress {
namespace {

struct Worker {
    Sched *sched;
    std::size_t ticket;
    int index;
    int steps;
    void (*step)(Worker &worker);
    std::vector<int> *order;       // written by the thread that has the baton
    std::atomic<int> *running;     // how many threads are between two points
    bool *collided;
    std::atomic<bool> *stop;
};

void *worker_main(void *argument)
{
    Worker &worker = *static_cast<Worker *>(argument);
    worker.sched->enter(worker.ticket);
    for (int i = 0; i < worker.steps; ++i) {
        if (worker.running->fetch_add(1) != 0) *worker.collided = true;
        worker.order->push_back(worker.index);
        if (i % 16 == 0) sched_yield();  // tempts the system to run another thread, which the baton must prevent
        worker.running->fetch_sub(1);
        worker.step(worker);
    }
    worker.sched->leave();
    return nullptr;
}

struct Outcome {
    std::vector<int> order;
    std::uint64_t clock = 0, hash = 0;
    bool collided = false, stopped = false;
};

Outcome run_workers(std::uint64_t seed, int threads, int steps, void (*step)(Worker &worker))
{
    Outcome outcome;
    std::atomic<bool> stop{false};
    std::atomic<int> running{0};
    std::vector<Worker> workers(static_cast<std::size_t>(threads));
    {
        Sched sched(seed, stop);
        int index = 0;
        for (Worker &worker : workers) {
            worker = {&sched, sched.admit(), index++, steps, step, &outcome.order, &running, &outcome.collided, &stop};
            pthread_t thread;
            if (pthread_create(&thread, nullptr, worker_main, &worker) != 0) ADD_FAILURE() << "no thread";
            sched.admitted(worker.ticket, thread);
        }
        sched.run([](pthread_t thread) { pthread_join(thread, nullptr); });
        outcome.clock = sched.clock();
        outcome.hash = sched.hash();
    }
    outcome.stopped = stop;
    return outcome;
}

void pass_a_point(Worker &worker)
{
    worker.sched->point("test");
}

TEST(Sched, OneThreadRunsAtATimeAndAllEnd)
{
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const Outcome outcome = run_workers(seed, 4, 200, pass_a_point);
        EXPECT_FALSE(outcome.collided);
        EXPECT_FALSE(outcome.stopped);
        EXPECT_EQ(outcome.order.size(), 800u);
    }
}

TEST(Sched, TheSeedDecidesTheOrder)
{
    std::set<std::uint64_t> hashes;
    std::set<std::vector<int>> orders;
    for (std::uint64_t seed = 0; seed < 16; ++seed) {
        const Outcome first = run_workers(seed, 3, 300, pass_a_point), second = run_workers(seed, 3, 300, pass_a_point);
        EXPECT_EQ(first.order, second.order);
        EXPECT_EQ(first.hash, second.hash);
        EXPECT_EQ(first.clock, second.clock);
        hashes.insert(first.hash);
        orders.insert(first.order);
    }
    EXPECT_EQ(hashes.size(), 16u);
    EXPECT_GT(orders.size(), 12u);
}

// Threads really interleave: they do not run one after the other from start to end.
TEST(Sched, ThreadsInterleave)
{
    int changes_most = 0;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const Outcome outcome = run_workers(seed, 3, 300, pass_a_point);
        int changes = 0;
        for (std::size_t i = 1; i < outcome.order.size(); ++i) changes += outcome.order[i] != outcome.order[i - 1];
        changes_most = std::max(changes_most, changes);
    }
    EXPECT_GT(changes_most, 20);
}

std::atomic<int> gate{0};  // written by the thread that has the baton

// Threads pass a gate in the order 0, 1, 2, 0, ...: each waits for the previous one.
void wait_for_gate(Worker &worker)
{
    while (gate.load() % 3 != worker.index && !worker.stop->load()) worker.sched->blocked("gate");
    gate.fetch_add(1);
    worker.sched->progress();
}

TEST(Sched, ABlockedThreadGivesWay)
{
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        gate = 0;
        const Outcome outcome = run_workers(seed, 3, 100, wait_for_gate);
        EXPECT_FALSE(outcome.stopped) << seed;
        EXPECT_EQ(gate.load(), 300);
    }
}

void wait_for_ever(Worker &worker)
{
    while (!worker.stop->load()) worker.sched->blocked("never");
}

TEST(Sched, WhenAllWaitTheRunIsToldToStop)
{
    const Outcome outcome = run_workers(1, 4, 3, wait_for_ever);
    EXPECT_TRUE(outcome.stopped);
}

std::atomic<int> holders{0};
bool two_held = false;

void hold_across_points(Worker &worker)
{
    const SchedHold outer;
    const SchedHold inner;  // nests
    if (holders.fetch_add(1) != 0) two_held = true;
    for (int i = 0; i < 8; ++i) worker.sched->point("held");
    holders.fetch_sub(1);
}

TEST(Sched, AHoldIsExclusiveAcrossPoints)
{
    two_held = false;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const Outcome outcome = run_workers(seed, 3, 50, hold_across_points);
        EXPECT_FALSE(outcome.stopped);
    }
    EXPECT_FALSE(two_held);
}

// The whole program gives one schedule hash and one result, however busy the machine is.
class SeededRun : public testing::TestWithParam<const char *> {};

TEST_P(SeededRun, RepeatsUnderLoad)
{
    std::atomic<bool> quit{false};
    std::vector<pthread_t> loads(static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN)));
    for (pthread_t &load : loads)
        pthread_create(
            &load, nullptr,
            [](void *flag) -> void * {
                while (!static_cast<std::atomic<bool> *>(flag)->load(std::memory_order_relaxed)) {}
                return nullptr;
            },
            &quit);
    const auto line = [](const std::string &text, const std::string &key) {
        const auto at = text.find("\"" + key + "\"");
        return at == std::string::npos ? std::string("no " + key) : text.substr(at, text.find('\n', at) - at);
    };
    std::set<std::string> seen;
    const int runs = kSanitized ? 4 : 10;
    for (int i = 0; i < runs; ++i) {
        const SpawnResult result =
            spawn_stress({GetParam(), "--schedule", "seeded", "--seed", "7", "--threads", "4", "--json", "-"});
        EXPECT_EQ(result.exit_code, 0) << result.err;
        seen.insert(line(result.out, "schedule_hash") + line(result.out, "logical_clock") + line(result.out, "ops") +
                    line(result.out, "verdict"));
    }
    quit = true;
    for (pthread_t load : loads) pthread_join(load, nullptr);
    EXPECT_EQ(seen.size(), 1u) << *seen.begin() << "\n" << *seen.rbegin();
}

INSTANTIATE_TEST_SUITE_P(Sched, SeededRun, testing::Values("larson", "random-mixed"), [](const auto &tested) {
    std::string name = tested.param;
    name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
    return name;
});

}  // namespace
}  // namespace stress

// The seeded scheduler on threads of this test: mutual exclusion, determinism, blocking, stall.
#include "engine/seat/sched.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>
#include <vector>

#include "engine/base/build.h"
#include "engine/base/spawn_for_test.h"
#include "engine/seat/schedule_mark.h"

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
        static int joined;
        joined = 0;
        sched.run([](pthread_t thread) { joined += pthread_join(thread, nullptr) == 0; });
        EXPECT_EQ(joined, threads);
        outcome.clock = sched.clock();
        outcome.hash = sched.hash();
    }
    outcome.stopped = stop;
    return outcome;
}

// The allocator under test may be about to read errno.
void pass_a_point(Worker &worker)
{
    errno = worker.index;
    worker.sched->point("test");
    EXPECT_EQ(errno, worker.index);
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

TEST(Sched, AThreadThatItDoesNotControlPassesByIt)
{
    std::atomic<bool> stop{false};
    Sched sched(1, stop);
    sched.progress();
    sched.point("test");
    sched.blocked("test");
    sched.give_way("test");
    EXPECT_FALSE(sched_active());
    sched_subject_step("lock_wait");
    EXPECT_EQ(sched.clock(), 0u);
    EXPECT_EQ(sched.others_inside(), 0u);
    EXPECT_EQ(sched_subject_ms(), 1000u);
    sched.run([](pthread_t) { ADD_FAILURE() << "there is no thread"; });
    EXPECT_FALSE(stop);
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

bool one_is_over = false; // the thread with index 1 has done its last step, and keeps the baton until it has ended

void give_way_at_times(Worker &worker)
{
    if (worker.index != 1 && one_is_over) EXPECT_EQ(worker.sched->others_inside(), 0u) << "it has ended";
    if (worker.order->size() % 3 == 0) worker.sched->give_way("way");
    worker.sched->point("test");
    worker.sched->at_subject_step(worker.index == 1 ? "inside" : nullptr);
    if (worker.index == 0 && worker.sched->others_inside() > 1) *worker.collided = true;
    if (worker.index != 1) return;
    EXPECT_EQ(worker.sched->others_inside(), 0u) << "it is not another";
    one_is_over = std::count(worker.order->begin(), worker.order->end(), 1) == worker.steps;
}

// A lap gives out the tickets of the lap before again. One whose thread could not be started has no thread to join.
TEST(Sched, ATicketWithoutAThreadJoinsNoneOfTheLapBefore)
{
    Outcome outcome;
    std::atomic<bool> stop{false};
    std::atomic<int> running{0};
    Sched sched(3, stop);
    static std::vector<pthread_t> joined;
    joined.clear();
    for (std::size_t refused : {std::size_t{0}, std::size_t{1}}) {
        for (std::size_t i = 0; i < refused; ++i) sched.admit();
        Worker worker{&sched, sched.admit(), 0, 20, pass_a_point, &outcome.order, &running, &outcome.collided, &stop};
        pthread_t thread;
        ASSERT_EQ(pthread_create(&thread, nullptr, worker_main, &worker), 0);
        sched.admitted(worker.ticket, thread);
        sched.run([](pthread_t ended) { joined.push_back(ended); });
        EXPECT_EQ(joined, std::vector<pthread_t>{thread}) << refused;
        joined.clear();
        pthread_join(thread, nullptr);
    }
    EXPECT_EQ(outcome.order.size(), 40u);
}

// A seed that a build printed repeats on later ones: the schedules of a few seeds, under both policies.
TEST(Sched, TheSchedulesOfTheseSeedsStay)
{
    void (*const steps[])(Worker &) = {pass_a_point, wait_for_gate, wait_for_ever, hold_across_points,
                                       give_way_at_times};
    std::string all;
    for (void (*step)(Worker &) : steps)
        for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
            gate = 0;
            one_is_over = false;
            const Outcome outcome = run_workers(seed, 3, 20, step);
            EXPECT_FALSE(outcome.collided);
            EXPECT_EQ(outcome.stopped, step == wait_for_ever);
            std::uint64_t order = 0;
            for (const int index : outcome.order) order = order * 31 + static_cast<unsigned>(index);
            all += schedule_text({outcome.hash, outcome.clock}) + " " + std::to_string(order % 9973) + "\n";
        }
    EXPECT_EQ(all, "74d06281c2775f06:66 5434\n"
                   "5ea465cd21f5e406:66 8770\n"
                   "abd5670ae185ee9e:66 9516\n"
                   "3de0c4bda807cc7a:66 8716\n"
                   "843620a684226b7e:66 9706\n"
                   "f00418f8486d9ca9:104 899\n"
                   "8b830449f2ffcce8:92 659\n"
                   "578658adbc3c286d:82 7549\n"
                   "578658adbc3c286d:82 7549\n"
                   "f00418f8486d9ca9:104 899\n"
                   "cf75d10ead8d65a7:9 7938\n"
                   "4ca8922480b337bb:9 1209\n"
                   "5f2585b48f5b6ffb:9 1311\n"
                   "5f2585b48f5b6ffb:9 1311\n"
                   "cf75d10ead8d65a7:9 7938\n"
                   "055b31184a14d1c0:500 2044\n"
                   "062b9d9241441204:513 9940\n"
                   "35ad35e6d6e626aa:486 9516\n"
                   "26ce453ba555c666:521 6033\n"
                   "16a3e8c285b04f01:490 3412\n"
                   "4ba847f967e7230c:86 1332\n"
                   "363dfadda50e513f:86 371\n"
                   "d1778c3645f20c5c:86 1252\n"
                   "a98d43b5ae722286:86 9675\n"
                   "fe857c8ffdd3f024:86 7997\n");
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

// Tests the search itself on toy programs whose interleavings can be counted. More than 400 lines: the toy words serve all
// parts.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "explore/explore_test_support.h"

namespace stress {
namespace {

Runner &runner()
{
    return explorer().runner();
}

// --- toys -----------------------------------------------------------------------------------------------------------

stress_site load_site{"load", "", "", 0, 0, 0, 0}, store_site{"store", "", "", 0, 0, 0, 0};
stress_site swap_site{"compare-and-swap", "", "", 0, 0, 0, 0}, exchange_site{"exchange", "", "", 0, 0, 0, 0};

struct Word {
    int value = 0;

    int load()
    {
        stress_fiber_point(&load_site, this);
        return value;
    }
    void store(int to)
    {
        stress_fiber_point(&store_site, this);
        value = to;
    }
    bool swap(int from, int to)
    {
        stress_fiber_point(&swap_site, this);
        if (value != from) return false;
        value = to;
        return true;
    }
    void lock()
    {
        while (!swap(0, 1)) runner().fibers().named("lock_wait");
    }
    void unlock()
    {
        stress_fiber_point(&exchange_site, this);
        value = 0;
    }
};

Word shared, second, own_words[4];

void reset_words()
{
    shared = second = Word{};
    for (Word &word : own_words) word = Word{};
}

Program program_of(unsigned threads, std::function<void(unsigned)> body, std::function<void()> judge = {})
{
    Program program;
    program.threads = threads;
    program.reset = reset_words;
    program.body = std::move(body);
    program.judge = std::move(judge);
    return program;
}

// A program in which each thread makes this many stores.
Program steps(std::vector<unsigned> counts, unsigned own = 0)
{
    return program_of(static_cast<unsigned>(counts.size()), [counts, own](unsigned thread) {
        for (unsigned i = 0; i < counts[thread]; ++i) {
            for (unsigned n = 0; n < own; ++n) own_words[thread].store(1);
            shared.store(1);
        }
    });
}

Sweep all_of(const Program &program, unsigned bound)
{
    Shares shares;
    Sweep result;
    const bool held = sweep(runner(), program, shares, bound, 0, result);
    EXPECT_EQ(held, result.failure.rule == nullptr);
    return result;
}

std::uint64_t choose(unsigned n, unsigned k)
{
    if (k > n) return 0;
    std::uint64_t result = 1;
    for (unsigned i = 1; i <= k; ++i) result = result * (n - k + i) / i;
    return result;
}

// Interleavings of a and b steps with at most `bound` preemptions. With i stretches of one thread and j of the other,
// in turns, there are i + j - 1 switches; the one at the end of the thread that ends first costs nothing.
std::uint64_t interleavings(unsigned a, unsigned b, unsigned bound)
{
    std::uint64_t sum = 0;
    for (unsigned i = 1; i <= a; ++i)
        for (unsigned j = 1; j <= b; ++j) {
            if (i + j - 2 > bound || (i > j ? i - j : j - i) > 1) continue;
            sum += (i == j ? 2 : 1) * choose(a - 1, i - 1) * choose(b - 1, j - 1);
        }
    return sum;
}

TEST(ExploreSearch, TwoThreadsHaveAsManySchedulesAsCounted)
{
    for (unsigned a = 1; a <= 5; ++a)
        for (unsigned b = 1; b <= 5; ++b)
            for (unsigned bound = 0; bound <= 8; ++bound) {
                const Sweep result = all_of(steps({a, b}), bound);
                EXPECT_EQ(result.schedules, interleavings(a, b, bound)) << a << " and " << b << ", bound " << bound;
                EXPECT_EQ(result.points, result.schedules * (a + b));
            }
    EXPECT_EQ(interleavings(5, 5, 8), choose(10, 5)) << "the formula: with no bound that counts";
}

TEST(ExploreSearch, ThreeThreadsWithoutABound)
{
    EXPECT_EQ(all_of(steps({2, 2, 2}), 20).schedules, 90u); // 6! / (2! 2! 2!)
    EXPECT_EQ(all_of(steps({1, 2, 3}), 20).schedules, 60u);
    EXPECT_EQ(all_of(steps({4, 4, 4}), 0).schedules, 6u) << "one after the other";
}

TEST(ExploreSearch, NoScheduleTwice)
{
    std::set<std::string> seen;
    std::set<std::uint64_t> hashes;
    Program program = steps({3, 2, 2});
    program.judge = [&] {
        seen.insert(schedule_print(runner().outcome().schedule));
        hashes.insert(runner().outcome().hash);
    };
    Shares shares;
    Sweep result;
    shares.note(0, "store", &shared);
    shares.note(1, "store", &shared);
    shares.learn();
    ASSERT_TRUE(sweep(runner(), program, shares, 20, 0, result));
    EXPECT_EQ(result.schedules, 210u);
    EXPECT_EQ(result.runs, 210u) << "the shared words were known: no search started over";
    EXPECT_EQ(seen.size(), 210u);
    EXPECT_EQ(hashes.size(), 210u);
}

TEST(ExploreSearch, WordsOfOneThreadAddNoSchedules)
{
    const Sweep plain = all_of(steps({3, 3}), 3);
    const Sweep with_own = all_of(steps({3, 3}, 4), 3);
    EXPECT_EQ(with_own.schedules, plain.schedules);
    EXPECT_EQ(with_own.points, with_own.schedules * 30);
    Program every = steps({3, 3}, 4);
    every.every_point = true;
    EXPECT_EQ(all_of(every, 3).schedules, interleavings(15, 15, 3));
}

TEST(ExploreSearch, ReadersAloneAddNoSchedules)
{
    const auto reads = [](unsigned) {
        for (int i = 0; i < 5; ++i) shared.load();
    };
    EXPECT_EQ(all_of(program_of(2, reads), 3).schedules, 2u);
}

// A word that is shared in only a few schedules is still found, and then its schedules are run.
TEST(ExploreSearch, AWordThatIsSharedInOneScheduleOnly)
{
    const auto body = [](unsigned thread) {
        if (thread == 0) {
            second.store(1);
            second.store(0);
            shared.store(1);
            shared.store(0);
        } else if (shared.load() == 1 && second.load() == 1) {
            runner().fail("toy", "seen");
        } else if (second.value == 1) {
            second.store(2);
        }
    };
    Sweep result = all_of(program_of(2, body), 1);
    EXPECT_EQ(result.failure.rule, nullptr) << "shared and second are never both 1";
    EXPECT_GT(result.runs, result.schedules) << "a search started over";
}

TEST(ExploreSearch, LostUpdate)
{
    const auto add = [](unsigned) { shared.store(shared.load() + 1); };
    const auto judge = [] {
        if (shared.value != 2) runner().fail("toy", "lost: %d", shared.value);
    };
    EXPECT_EQ(all_of(program_of(2, add, judge), 0).failure.rule, nullptr);
    const Sweep result = all_of(program_of(2, add, judge), 1);
    ASSERT_STREQ(result.failure.rule, "toy");
    EXPECT_STREQ(result.failure.detail, "lost: 1");
    EXPECT_EQ(result.failure.preemptions, 1u);
    EXPECT_EQ(schedule_print(result.failure.schedule), "0:2,1,0");
}

TEST(ExploreSearch, WhatNeedsTwoPreemptionsIsNotFoundWithOne)
{
    // Thread 1 sees 1 and then 2 only if each thread is interrupted midway.
    const auto body = [](unsigned thread) {
        if (thread == 0) {
            shared.store(1);
            shared.store(2);
        } else if (shared.load() == 1 && shared.load() == 2) {
            runner().fail("toy", "seen");
        }
    };
    EXPECT_EQ(all_of(program_of(2, body), 1).failure.rule, nullptr);
    EXPECT_STREQ(all_of(program_of(2, body), 2).failure.rule, "toy");
}

// --- locks, ends ----------------------------------------------------------------------------------------------------

TEST(ExploreLocks, ALockProtects)
{
    const auto add = [](unsigned) {
        shared.lock();
        second.store(second.load() + 1);
        shared.unlock();
    };
    const auto judge = [] {
        if (second.value != 3) runner().fail("toy", "lost");
    };
    const Sweep result = all_of(program_of(3, add, judge), 3);
    EXPECT_EQ(result.failure.rule, nullptr) << result.failure.detail;
    EXPECT_GT(result.schedules, 100u);
}

TEST(ExploreLocks, AnyOfThoseThatWaitMayBeNext)
{
    static unsigned tried, done;
    static bool both_wait;
    std::set<unsigned> next;
    Program program = program_of(3, [&](unsigned thread) {
        ++tried;
        shared.lock();
        if (both_wait) next.insert(thread);
        both_wait = false;
        shared.unlock();
        both_wait = thread == 0 && tried == 3 && done == 0;
        ++done;
    });
    program.reset = [] {
        reset_words();
        tried = done = 0;
        both_wait = false;
    };
    EXPECT_EQ(all_of(program, 1).failure.rule, nullptr);
    EXPECT_EQ(next, (std::set<unsigned>{1, 2}));
}

TEST(ExploreLocks, Deadlock)
{
    const auto body = [](unsigned thread) {
        Word &first = thread == 0 ? shared : second, &other = thread == 0 ? second : shared;
        first.lock();
        other.lock();
        other.unlock();
        first.unlock();
    };
    EXPECT_EQ(all_of(program_of(2, body), 0).failure.rule, nullptr);
    const Sweep result = all_of(program_of(2, body), 1);
    ASSERT_STREQ(result.failure.rule, "deadlock");
    EXPECT_EQ(schedule_print(result.failure.schedule), "0:2,1,0");
    EXPECT_EQ(all_of(program_of(2, body), 0).failure.rule, nullptr) << "a run after one that stopped halfway";
}

TEST(ExploreLocks, OneThatIsHeldAtTheEndIsADeadlock)
{
    const auto take = [](unsigned) { shared.lock(); };
    const auto judge = [] { runner().call(1, [] { shared.lock(); }); };
    const Sweep result = all_of(program_of(1, take, judge), 0);
    ASSERT_STREQ(result.failure.rule, "deadlock");
    EXPECT_NE(std::string(result.failure.detail).find("still held"), std::string::npos) << result.failure.detail;
}

TEST(ExploreLocks, ARunThatDoesNotEnd)
{
    const auto spin = [](unsigned thread) {
        while (thread == 0 && shared.load() == 0) continue;
        shared.store(1);
    };
    const std::uint64_t before = runner().points_max;
    runner().points_max = 1000;
    const Sweep result = all_of(program_of(2, spin), 0);
    runner().points_max = before;
    EXPECT_STREQ(result.failure.rule, "progress");
}

TEST(ExploreEnds, AnAbortIsTheRunsFailure)
{
    const auto body = [](unsigned thread) {
        if (shared.load() == 1 && thread == 1) std::abort();
        shared.store(1);
    };
    for (int again = 0; again < 3; ++again) {
        const Sweep result = all_of(program_of(2, body), 0);
        ASSERT_STREQ(result.failure.rule, "crash");
        EXPECT_EQ(schedule_print(result.failure.schedule), "0,1");
    }
}

TEST(ExploreEnds, TheChildOfAForkIsAlone)
{
    std::set<int> seen;
    const auto body = [&](unsigned thread) {
        if (thread == 1) {
            runner().alone();
            seen.insert(shared.load());
            shared.load();
        } else {
            for (int i = 1; i <= 3; ++i) shared.store(i);
        }
    };
    Program program = program_of(2, body);
    program.every_point = true;
    EXPECT_EQ(all_of(program, 3).schedules, 4u);
    EXPECT_EQ(seen, (std::set<int>{0, 1, 2, 3}));
}

TEST(ExploreEnds, ARunThatDependsOnMoreThanItsSchedule)
{
    static int runs;
    runs = 0;
    const auto body = [](unsigned thread) {
        if (thread == 0) ++runs;
        for (int i = 0; i < (runs > 6 ? 2 : 3); ++i) shared.store(i);
    };
    EXPECT_STREQ(all_of(program_of(2, body), 2).failure.rule, "repeat");
}

// The last run ends before it has come to the choice that it was to change.
TEST(ExploreEnds, TheLastRunIsNoException)
{
    static std::uint64_t runs, last;
    last = UINT64_MAX;
    const auto body = [](unsigned thread) {
        if (thread == 0) ++runs;
        for (int i = 0; i < (runs == last ? 1 : 2); ++i) shared.store(i);
    };
    const auto sweep_again = [&body] {
        runs = 0;
        return all_of(program_of(2, body), 1);
    };
    last = sweep_again().runs - 1; // thread 1 is first in that run
    EXPECT_STREQ(sweep_again().failure.rule, "repeat");
}

// --- schedules as text ----------------------------------------------------------------------------------------------

TEST(ExploreReplay, EveryScheduleReplaysToTheSameRun)
{
    const Program program = steps({3, 2, 2}, 2);
    Search search(20);
    Shares shares;
    Sweep learning;
    ASSERT_TRUE(sweep(runner(), program, shares, 0, 0, learning));
    unsigned count = 0;
    do {
        const Outcome outcome = runner().run(program, search, shares);
        std::string error;
        const auto schedule = schedule_parse(schedule_print(outcome.schedule), 3, error);
        ASSERT_TRUE(schedule) << error;
        Replay replay(*schedule);
        const Outcome &again = runner().run(program, replay, shares);
        ASSERT_FALSE(replay.diverged()) << schedule_print(outcome.schedule);
        ASSERT_EQ(again.hash, outcome.hash);
        ASSERT_EQ(again.points, outcome.points);
        ASSERT_EQ(schedule_print(again.schedule), schedule_print(outcome.schedule));
        ++count;
    } while (search.next());
    EXPECT_EQ(count, 210u);
}

TEST(ExploreReplay, AScheduleOfAnotherProgramIsTold)
{
    Shares shares;
    for (const char *text : {"0:9,1,0", "0,0", "0,1,0", "1,0:1,1:1,0"}) {
        std::string error;
        const auto schedule = schedule_parse(text, 2, error);
        ASSERT_TRUE(schedule);
        Replay replay(*schedule);
        runner().run(steps({2, 2}), replay, shares);
        EXPECT_TRUE(replay.diverged()) << text;
    }
}

TEST(ExploreReplay, WhatIsNoScheduleIsRefused)
{
    for (const char *text : {"", "x", "0:", "0:1,", "2", "0:0", "0:1:1", "-1", "0:99999999999"}) {
        std::string error;
        EXPECT_FALSE(schedule_parse(text, 2, error)) << text;
        EXPECT_FALSE(error.empty());
    }
}

} // namespace
} // namespace stress

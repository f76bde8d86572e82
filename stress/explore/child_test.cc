// Tests the judgement of a forked child: it must notice each loss, and must not excuse one that was not in a stopped
// thread's hands.
#include <gtest/gtest.h>

#include "explore/explore_test_support.h"

namespace stress {
namespace {

// The failure of a child.
Outcome failure_of_child(void (*body)(World &, unsigned), void (*check)(World &))
{
    ExploreScenario scenario = *explore_scenario("fork-post");
    scenario.setup = [](World &world) {
        world.in(0, [](World &each) { each.take(10, 16384); });
        world.in(1, [](World &each) { each.take(11, 16384); });
    };
    scenario.body = body;
    scenario.check = check;
    return explorer().explore(scenario, {.threads = 2, .bound = 0, .seconds = 0}).sweep.failure;
}

void only_fork(World &world, unsigned thread)
{
    if (thread == 1) world.fork();
}

// A child that loses a block, while the other thread has stopped in a call of that size, or in none.
const char *rule_of_forgetting(std::size_t size_bytes, World::Call::Kind kind, std::size_t call_bytes)
{
    static std::size_t forgotten_bytes;
    static World::Call call;
    forgotten_bytes = size_bytes;
    call = {kind, call_bytes};
    const Outcome failure = failure_of_child(only_fork, [](World &world) {
        world.in(1, [](World &child) { child.take(0, forgotten_bytes); });
        world.now.places[0].start = nullptr;
        world.now.calls[0] = call;
    });
    return failure.rule == nullptr ? "" : failure.rule;
}

TEST(ExplorerFork, WhatAChildHasLostIsTold)
{
    EXPECT_EQ(failure_of_child(only_fork, nullptr).rule, nullptr);
    for (const std::size_t size_bytes : {std::size_t{16384}, std::size_t{100000}, std::size_t{3} << 20})
        EXPECT_STREQ(rule_of_forgetting(size_bytes, World::Call::Kind::None, 0), "balance") << size_bytes;
}

TEST(ExplorerFork, OnlyWhatAThreadWasInTheMidstOfMayBeLost)
{
    using Kind = World::Call::Kind;
    EXPECT_STREQ(rule_of_forgetting(16384, Kind::Give, 16384), "");
    EXPECT_STREQ(rule_of_forgetting(16384, Kind::Take, 16384), "balance") << "its heap was not being changed";
    EXPECT_STREQ(rule_of_forgetting(100000, Kind::Take, 100000), "");
    EXPECT_STREQ(rule_of_forgetting(100000, Kind::Take, 65536), "balance") << "two pages are more than one";
    EXPECT_STREQ(rule_of_forgetting(3 << 20, Kind::Give, 100000), "balance");
    EXPECT_STREQ(rule_of_forgetting(3 << 20, Kind::Give, 3 << 20), "");
    EXPECT_STREQ(rule_of_forgetting(100000, Kind::Give, 3 << 20), "balance");
}

TEST(ExplorerFork, AHeapThatNobodyWasChangingIsNotLeft)
{
    // The child's thread gives up its heap without leaving it as an orphan.
    const auto fork = [](World &world, unsigned thread) {
        if (thread != 1) return;
        world.fork();
        world.runner.fibers().renew(1);
    };
    const Outcome failure = failure_of_child(fork, nullptr);
    EXPECT_STREQ(failure.rule, "law");
    EXPECT_STREQ(failure.detail,
                 "law 4 in the child: heap 2, which nobody was changing at the fork, is held by 0 threads "
                 "and is no orphan");
}

} // namespace
} // namespace stress

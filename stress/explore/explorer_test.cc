// Tests the explorer on the allocator's scenarios.
#include <gtest/gtest.h>
#include <hakmem/hakmem.h>

#include <algorithm>
#include <string>

#include "explore/explore_test_support.h"
#include "explore/inside/inside_watch.h"
#include "explore/visits.h"

namespace stress {
namespace {

TEST(Explorer, EveryScenarioHoldsWithOnePreemption)
{
    for (const ExploreScenario &scenario : explore_scenarios()) {
        const ExploreResult result = explorer().explore(scenario, {.threads = 2, .bound = 1, .seconds = 0});
        EXPECT_EQ(result.sweep.failure.rule, nullptr) << scenario.name << ": " << result.sweep.failure.detail;
        EXPECT_TRUE(result.complete);
        EXPECT_GT(result.shared, 0u) << scenario.name << ": its threads have nothing in common";
        EXPECT_GT(result.sweep.schedules, 2u) << scenario.name;
    }
}

TEST(Explorer, TheSameAgain)
{
    const ExploreScenario &scenario = *explore_scenario("post-adopt");
    const ExploreRequest request{.threads = 2, .bound = 2, .seconds = 0};
    const Sweep first = explorer().explore(scenario, request).sweep;
    explorer().explore(*explore_scenario("run-claim"), {.threads = 3, .bound = 1, .seconds = 0});
    const Sweep again = explorer().explore(scenario, request).sweep;
    EXPECT_EQ(first.schedules, again.schedules);
    EXPECT_EQ(first.points, again.points);
    EXPECT_EQ(first.runs, again.runs);
}

TEST(Explorer, ReplaysAndTellsWhatHappened)
{
    const ExploreScenario &scenario = *explore_scenario("push-drain");
    bool diverged = false;
    std::string error;
    const Outcome whole = explorer().replay(scenario, 2, *schedule_parse("1,0", 2, error), diverged);
    EXPECT_EQ(whole.rule, nullptr) << whole.detail;
    EXPECT_FALSE(diverged);
    const std::string text = explorer().interleaving(false);
    EXPECT_NE(text.find("T1\n"), text.npos) << text;
    EXPECT_NE(text.find("compare-and-swap  superslab 0, slab at page "), text.npos) << text;
    EXPECT_NE(text.find(": remote  (after remote_post)"), text.npos) << text;
    EXPECT_NE(text.find("compare-and-swap  heap 1: owner.pending  (after pending_push)"), text.npos) << text;
    EXPECT_GT(explorer().interleaving(true).size(), text.size());
    const Outcome again = explorer().replay(scenario, 2, whole.schedule, diverged);
    EXPECT_EQ(again.hash, whole.hash);
    EXPECT_EQ(again.points, whole.points);
    explorer().replay(scenario, 2, *schedule_parse("0:100000,1", 2, error), diverged);
    EXPECT_TRUE(diverged);
}

TEST(Explorer, ALimitOfTimeIsTold)
{
    const ExploreRequest request{.threads = 3, .bound = 6, .seconds = 0.05};
    const ExploreResult result = explorer().explore(*explore_scenario("purge-reuse"), request);
    EXPECT_FALSE(result.complete);
    ASSERT_TRUE(result.bound_reached) << "one after the other is done before the clock is looked at";
    EXPECT_LT(*result.bound_reached, 6u);
}

TEST(Explorer, ABoundIsReachedOnlyWhereAllHeld)
{
    ExploreScenario scenario = *explore_scenario("push-drain");
    const ExploreRequest request{.threads = 2, .bound = 1, .seconds = 0};
    EXPECT_EQ(explorer().explore(scenario, request).bound_reached, 1u);
    scenario.check = [](World &world) { world.runner.fail("toy", "always"); };
    const ExploreResult none = explorer().explore(scenario, request);
    EXPECT_STREQ(none.sweep.failure.rule, "toy");
    EXPECT_FALSE(none.bound_reached);
    scenario.check = [](World &world) {
        if (world.runner.outcome().preemptions == 1) world.runner.fail("toy", "with one");
    };
    EXPECT_EQ(explorer().explore(scenario, request).bound_reached, 0u);
}

// What was noted in one scenario says nothing about the next one.
TEST(Explorer, VisitsAreTheScenariosOwn)
{
    Visits visits;
    for (const char *name : {"push-drain", "run-claim", "purge-reuse"}) {
        Visits::begin();
        explorer().explore(*explore_scenario(name), {.threads = 2, .bound = 1, .seconds = 0});
        visits.add(name);
    }
    std::size_t two_sided = 0;
    for (const Visits::Visit &visit : visits.all()) {
        two_sided += visit.two_sided.size();
        for (const std::string &name : visit.two_sided)
            EXPECT_NE(std::find(visit.scenarios.begin(), visit.scenarios.end(), name), visit.scenarios.end())
                << visit.site->function << ", line " << visit.site->line << ", in " << name;
    }
    EXPECT_GT(two_sided, 10u);
}

// What the allocator asks of the system against its contract is a failure of that scenario alone.
TEST(Explorer, ABreachIsTheScenariosOwn)
{
    ExploreScenario scenario = *explore_scenario("push-drain");
    const ExploreRequest request{.threads = 2, .bound = 1, .seconds = 0};
    scenario.check = [](World &) { inside_commit_unreserved(); };
    const ExploreResult result = explorer().explore(scenario, request);
    EXPECT_STREQ(result.sweep.failure.rule, "system");
    EXPECT_STREQ(result.sweep.failure.detail, "commit of memory that is not reserved");
    scenario.check = nullptr;
    EXPECT_EQ(explorer().explore(scenario, request).sweep.failure.rule, nullptr);
}

// A block of each kind that a scenario leaves in use, when all else was given back.
TEST(Explorer, WhatStaysInUseIsFound)
{
    ExploreScenario scenario = *explore_scenario("push-drain");
    const ExploreRequest request{.threads = 2, .bound = 0, .seconds = 0};
    static std::size_t kept_bytes;
    for (const std::size_t bytes : {16, 20'000, 40'000, 1 << 20, 3 << 20}) {
        kept_bytes = bytes;
        scenario.check = [](World &world) {
            world.in(world.stranger(), [](World &) { static_cast<void>(hak_malloc(kept_bytes)); });
        };
        const ExploreResult result = explorer().explore(scenario, request);
        EXPECT_STREQ(result.sweep.failure.rule, "balance") << bytes;
    }
    scenario.check = nullptr;
    EXPECT_EQ(explorer().explore(scenario, request).sweep.failure.rule, nullptr);
}

} // namespace
} // namespace stress

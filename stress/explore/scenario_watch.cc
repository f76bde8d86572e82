// Scenarios of what watches the heap: sampled blocks (guard/), the heap profile (profile/), frames and the quarantine
// (debug/).
#include <hakmem/hakmem.h>

#include "explore/inside/inside_watch.h"
#include "explore/scenario.h"

namespace stress {
namespace {

constexpr std::size_t kSampled = 4096; // the largest that is sampled; its lists are of one block
constexpr std::size_t kBlock = 16384, kRun = 100000;
constexpr std::uint32_t kSlots = 3;
constexpr std::size_t kMean = 4096;
constexpr int kFrames = 2; // the level of checks that has frames

// --- sampled blocks ----------------------------------------------------------------------------------------------------

bool is_sampled(const World &world, unsigned place)
{
    return world.holds(place) && inside_guard_is_live(world.block(place));
}

const ExploreScenario kGuardSlots{
    .name = "guard-slots",
    .hunts = "one slot for two sampled blocks: its way through the queue while threads sample, free and resize",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(0, [](World &each) {
                if (!inside_guard_begin(kSlots)) each.runner.fail("memory", "no room for the slots");
                inside_guard_rate(0);
            });
            all_live(world); // none in a slot
            inside_guard_rate(1);
            for (unsigned thread = 0; thread < world.threads; ++thread)
                world.in(thread, [](World &each) {
                    const unsigned first = 10 * each.runner.fibers().current();
                    for (unsigned i = 0; i < 10; ++i)
                        if (!is_sampled(each, first)) each.give(first), each.take(first, kSampled);
                    if (!is_sampled(each, first)) each.runner.fail("scenario", "no block was sampled");
                });
        },
    .body =
        [](World &world, unsigned thread) {
            const unsigned next = (thread + 1) % world.threads;
            world.give(10 * next); // the next thread's sampled block
            world.take(own(thread, 0), kSampled);
            world.take(own(thread, 1), kSampled);
            world.resize(own(thread, 1), kSampled - 1);
        },
    .check =
        [](World &world) {
            world.in(world.stranger(), [](World &each) {
                each.give_all();
                const inside_guard guard = inside_guard_now();
                if (guard.live != 0) each.runner.fail("balance", "%u slots are live, and no block is", guard.live);
            });
        },
    .fresh_only = true,
};

const ExploreScenario kGuardTwice{
    .name = "guard-twice",
    .hunts = "a sampled block that two threads free at one time: both succeed, and its slot serves two blocks",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.runner.fibers().count_reports();
            world.in(0, [](World &each) {
                if (!inside_guard_begin(kSlots)) each.runner.fail("memory", "no room for the slots");
                inside_guard_rate(0);
            });
            all_live(world); // none in a slot
            inside_guard_rate(1);
            world.in(0, [](World &each) {
                for (unsigned i = 0; i < 10 && !is_sampled(each, 0); ++i) each.give(0), each.take(0, kSampled);
                if (!is_sampled(each, 0)) each.runner.fail("scenario", "no block was sampled");
            });
        },
    .body = [](World &world, unsigned) { world.now.figures[0] += inside_guard_free(world.block(0)); },
    .check =
        [](World &world) {
            if (world.now.figures[0] != 1)
                world.runner.fail("law", "%u threads have freed one block",
                                  static_cast<unsigned>(world.now.figures[0]));
            world.forget(0, 1);
            kGuardSlots.check(world);
        },
    .fresh_only = true,
};

// The threads' next blocks are the first that may be sampled.
const ExploreScenario kGuardFirst{
    .name = "guard-first",
    .hunts = "sampling that is set and changed while threads begin; figures of a moment between",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(world.stranger(), [](World &each) {
                if (!inside_guard_begin(1)) each.runner.fail("memory", "no room for the slots");
                inside_guard_rate(0);
            });
            all_live(world);
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 0) inside_guard_rate(1);
            for (unsigned i = 0; i < 3; ++i) world.take(own(thread, i), kSampled);
            if (inside_guard_now().live > 1) world.runner.fail("law", "more slots are live than there are");
            world.give(own(thread, 2));
        },
    .check = kGuardSlots.check,
};

// --- the heap profile ----------------------------------------------------------------------------------------------------

const ExploreScenario kProfileTables{
    .name = "profile-tables",
    .hunts = "samples entered, looked up and removed by several threads: a sample lost, or counted twice",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(0, [](World &each) {
                if (!inside_profile_begin(kMean)) each.runner.fail("memory", "no room for the profile's tables");
            });
            all_live(world);
            world.in(0, [](World &each) {
                for (unsigned place = 0; place < 3; ++place) each.take(place, kBlock);
                for (unsigned place = 3; place < 5; ++place) each.take(place, kRun);
                if (inside_profile_now().bytes == 0) each.runner.fail("scenario", "no block was sampled");
            });
        },
    .body =
        [](World &world, unsigned thread) {
            world.give(thread);
            world.give(3 + thread);
            world.take(own(thread, 0), kBlock);
            if (thread == 0) return static_cast<void>(world.take(own(0, 1), kRun));
            if (!inside_profile_dump()) world.runner.fail("system", "the profile cannot be written");
        },
    .check =
        [](World &world) {
            world.in(world.stranger(), [](World &each) {
                each.give_all();
                const inside_profile profile = inside_profile_now();
                if (profile.used_bytes != 0 || profile.bytes != profile.freed_bytes)
                    each.runner.fail("balance",
                                     "no block is live, yet the profile has %llu bytes in use, %llu allocated and %llu "
                                     "freed at its sites",
                                     static_cast<unsigned long long>(profile.used_bytes),
                                     static_cast<unsigned long long>(profile.bytes),
                                     static_cast<unsigned long long>(profile.freed_bytes));
            });
        },
};

const ExploreScenario kProfileStart{
    .name = "profile-start",
    .hunts = "the profile stopped and started while another thread samples and frees",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(0, [](World &) { inside_level_set(0); });
            all_live(world);
            world.in(world.stranger(), [](World &each) {
                if (!inside_profile_begin(kMean)) each.runner.fail("memory", "no room for the profile's tables");
                for (unsigned place = 0; place < 2; ++place) each.take(place, kBlock);
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 0) {
                hak_profile_stop();
                inside_profile_begin(2 * kMean);
                return;
            }
            world.give(thread);
            world.take(own(thread, 0), kBlock);
        },
    .check = kProfileTables.check,
};

// --- frames --------------------------------------------------------------------------------------------------------------

void framed_block(World &world)
{
    world.take(0, kBlock);
}

const ExploreScenario kFrameTake{
    .name = "frame-take",
    .hunts = "a block with a frame that two threads free at one time: both succeed",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, [](World &) { inside_level_set(kFrames); });
            all_live(world);
            world.in(0, framed_block);
        },
    .body =
        [](World &world, unsigned thread) {
            void *block = world.block(0);
            if (!inside_frame_take(block)) return;
            if (++world.now.figures[0] > 1) world.runner.fail("law", "two threads have freed one block");
            world.now.figures[1] = thread;
        },
    .check =
        [](World &world) {
            world.in(static_cast<unsigned>(world.now.figures[1]), [](World &each) {
                if (each.now.figures[0] == 1) inside_frame_put(each.block(0));
                each.forget(0, 1);
            });
            if (world.now.figures[0] != 1) world.runner.fail("law", "no thread has freed the block");
        },
};

// A thread has ended and left its ring, which two others may claim.
const ExploreScenario kQuarantineRings{
    .name = "quarantine-rings",
    .hunts = "one ring of the quarantine for two threads; a ring that is looked through while blocks come and leave",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, [](World &) { inside_level_set(kFrames); });
            world.in(world.stranger(), [](World &each) {
                each.take(1, kTiny);
                each.give(1);
            });
            world.renew(world.stranger());
            all_live(world);
            world.in(0, framed_block);
            world.in(0, [](World &each) { each.take(2, kBlock); });
        },
    .body =
        [](World &world, unsigned thread) {
            world.take(own(thread, 0), kTiny);
            world.give(own(thread, 0)); // its first: takes a ring
            if (thread == 1) {
                world.give(2); // a block of thread 0
                return world.thread_end();
            }
            world.take(own(thread, 1), kBlock); // it may be that block again
            if (inside_frame_waits(world.block(0))) world.runner.fail("law", "a live block waits in a quarantine");
        },
};

const ExploreScenario kQuarantineNew{
    .name = "quarantine-new",
    .hunts = "two rings made at one time: one of them forgotten, or one for two threads",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, [](World &) { inside_level_set(kFrames); });
            all_live(world);
            world.in(0, framed_block);
        },
    .body =
        [](World &world, unsigned thread) {
            world.take(own(thread, 0), kTiny);
            const void *block = world.block(own(thread, 0));
            world.give(own(thread, 0));
            if (!inside_frame_waits(block)) world.runner.fail("law", "a block that was freed does not wait");
        },
    .check =
        [](World &world) {
            world.in(world.stranger(), [](World &each) {
                if (inside_frame_waits(each.block(0))) each.runner.fail("law", "a live block waits in a quarantine");
            });
        },
};

const ExploreScenario kForkQuarantine{
    .name = "fork-quarantine",
    .hunts = "the quarantine of a thread that the child does not have: its blocks lost, or freed twice",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, [](World &) { inside_level_set(kFrames); });
            for (unsigned thread = 0; thread < world.threads; ++thread)
                world.in(thread, [](World &each) {
                    const unsigned first = 10 * each.runner.fibers().current();
                    for (unsigned place = first; place < first + 4; ++place) each.take(place, kTiny);
                });
        },
    .body =
        [](World &world, unsigned thread) {
            world.give(10 * thread); // its first: takes a ring
            if (thread < world.threads - 1) return world.give(10 * thread + 1);
            world.fork();
            world.give(10 * thread + 1);
            world.take(own(thread, 0), kTiny);
        },
    .forks = true,
};

} // namespace

void explore_watch_scenarios(std::vector<ExploreScenario> &list)
{
    for (const ExploreScenario &each : {kGuardSlots, kGuardTwice, kGuardFirst, kProfileTables, kProfileStart,
                                        kFrameTake, kQuarantineRings, kQuarantineNew, kForkQuarantine})
        list.push_back(each);
}

} // namespace stress

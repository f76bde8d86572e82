// Scenarios of fork (cache/fork.h). The last thread is the one that exists in a forked child. The others stop where
// they are and never continue; then the allocator's handler mends the heap, and the child uses it.
#include "explore/scenario.h"

namespace stress {
namespace {

constexpr std::size_t kBlock = 16384, kRun = std::size_t{1} << 20, kHuge = std::size_t{3} << 20;

// Places: setup fills 0 to 29; the threads that stop have 30 to 49, the child's thread 50 to 69, a thread that the
// child starts 70 to 89. Long lists use 100 and up.
constexpr unsigned kStopped = 30, kChild = 50, kGrown = 70, kLong = 100;

// Blocks of the child's thread, which others free and which it then takes back.
void four_blocks(World &world)
{
    for (unsigned place = 0; place < 4; ++place) world.take(place, kBlock);
}

// A thread that has blocks in its bin.
void blocks_in_bin(World &world)
{
    const unsigned first = 10 * world.runner.fibers().current();
    for (unsigned place = first; place < first + 6; ++place) world.take(place, kBlock);
    for (unsigned place = first + 1; place < first + 6; ++place) world.give(place);
}

bool is_child(const World &world, unsigned thread)
{
    return thread == world.threads - 1;
}

// What a child does: allocates and frees blocks of every kind.
void use(World &world, unsigned first)
{
    for (unsigned i = 0; i < 8; ++i) world.take(first + i, kBlock);
    world.take(first + 8, kRun);
    world.take(first + 9, kHuge);
    for (unsigned i = 0; i < 10; i += 2) world.give(first + i);
    world.take(first, kBlock);
    world.purge();
}

void child(World &world)
{
    world.fork();
    use(world, kChild);
}

// A thread that the child starts adopts what the stopped threads have left.
void grown(World &world)
{
    world.in(world.stranger(), [](World &each) { use(each, kGrown); });
}

const ExploreScenario kForkPost{
    .name = "fork-post",
    .hunts = "a slab that was posted to and not queued, in the child",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(world.threads - 1, four_blocks);
            for (unsigned thread = 0; thread + 1 < world.threads; ++thread) world.in(thread, be_live);
        },
    .body =
        [](World &world, unsigned thread) {
            if (is_child(world, thread)) return child(world);
            world.give(2 * thread);
            world.give(2 * thread + 1);
        },
    .check = grown,
    .forks = true,
};

const ExploreScenario kForkRefill{
    .name = "fork-refill",
    .hunts = "a heap in the middle of a refill, which the child hands out again",
    .threads_max = 3,
    .setup = [](World &world) { all_live(world); },
    .body =
        [](World &world, unsigned thread) {
            if (is_child(world, thread)) return child(world);
            world.take(kStopped + 10 * thread, kBlock);
            world.take(kStopped + 10 * thread + 1, kBlock);
            world.give(kStopped + 10 * thread);
        },
    .check = grown,
    .forks = true,
    .fresh_only = true, // elsewhere its mallocs take from a bin, and child.h does not count a block taken at the fork
};

const ExploreScenario kForkFlush{
    .name = "fork-flush",
    .hunts = "a list of which some blocks are already back in their slabs, returned again in the child",
    .threads_max = 3,
    .setup =
        [](World &world) {
            for (unsigned thread = 0; thread < world.threads; ++thread) world.in(thread, blocks_in_bin);
        },
    .body =
        [](World &world, unsigned thread) {
            if (is_child(world, thread)) return child(world);
            world.purge();
        },
    .check = grown,
    .forks = true,
};

const ExploreScenario kForkRelease{
    .name = "fork-release",
    .hunts =
        "a slab of which only some pages are given back yet, by which the child comes to miss its neighbour's posts",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(0, [](World &each) {
                each.take(10, kBlock);
                each.purge(); // only this block is out of the slab now
            });
            world.in(1, [](World &each) {
                each.take(0, kBlock);
                each.take(1, kBlock);
                each.give(10); // posted, and queued
            });  // the pages behind
            world.in(0, [](World &each) { each.give(0); });  // posted, and queued
        },
    .body =
        [](World &world, unsigned thread) {
            if (is_child(world, thread)) return child(world);
            world
                .purge(); // the drain gives the slab back. Only if a drain was under way, the child walks over all slabs
        },
    .check = grown,
    .forks = true,
};

const ExploreScenario kForkPark{
    .name = "fork-park",
    .hunts = "a bin whose list was being walked back to its slabs, and which still holds that list",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(1, be_live);
            world.in(0, [](World &each) {
                for (unsigned i = 0; i < 96; ++i) each.take(kLong + i, kBlock);
                for (unsigned i = 0; i < 78; ++i) each.give(kLong + i); // as many lists as can be parked
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (is_child(world, thread)) return child(world);
            for (unsigned i = 78; i < 95; ++i) world.give(kLong + i);
        },
    .check =
        [](World &world) {
            grown(world);
            world.in(world.stranger(), [](World &each) {
                for (unsigned i = 0; i < 30; ++i) each.take(kLong + i, kBlock);
            });
        },
    .forks = true,
};

const ExploreScenario kForkExit{
    .name = "fork-exit",
    .hunts = "a heap that its thread was about to leave: an orphan twice, or owned by nobody, with its blocks lost",
    .threads_max = 3,
    .setup =
        [](World &world) {
            for (unsigned thread = 0; thread < world.threads; ++thread) world.in(thread, blocks_in_bin);
        },
    .body =
        [](World &world, unsigned thread) {
            if (is_child(world, thread)) return child(world);
            world.thread_end();
        },
    .check = grown,
    .forks = true,
};

const ExploreScenario kForkVisit{
    .name = "fork-visit",
    .hunts = "the child's own heap, in which another thread was giving back what lay in its cache",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(0, be_live);
            world.in(world.threads - 1, [](World &each) {
                four_blocks(each);
                for (unsigned place = 1; place < 4; ++place) each.give(place);
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (is_child(world, thread)) return child(world);
            world.purge_all();
        },
    .check = grown,
    .forks = true,
};

const ExploreScenario kForkLock{
    .name = "fork-lock",
    .hunts = "a lock that nobody is left to release: of the pool, of huge blocks, of heaps",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(world.threads - 1, be_live);
            world.in(world.stranger(), [](World &each) {
                for (unsigned place = 0; place < 3; ++place) each.take(place, kRun);
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (is_child(world, thread)) return child(world);
            world.take(kStopped + 10 * thread, kTiny); // its first: a new heap
            world.take(kStopped + 10 * thread + 1, kRun);
            world.take(kStopped + 10 * thread + 2, kHuge);
        },
    .check = grown,
    .forks = true,
};

} // namespace

void explore_fork_scenarios(std::vector<ExploreScenario> &list)
{
    for (const ExploreScenario &each :
         {kForkPost, kForkRefill, kForkFlush, kForkRelease, kForkPark, kForkExit, kForkVisit, kForkLock})
        list.push_back(each);
}

} // namespace stress

// Scenarios of the ownership protocol: remote frees (slab/remote.h), orphans and their adoption (slab/owner.h), the end
// and the beginning of threads (cache/thread.h).
#include "explore/inside/inside_watch.h"
#include "explore/scenario.h"

namespace stress {
namespace {

// Two classes whose blocks are posted and refilled one at a time, and one whose blocks are posted two at a time.
constexpr std::size_t kBlock = 16384, kOther = 14336, kHalf = 8192;

// SUCCESSION_FREES and SUCCESSION_DRAWN_BYTES of base/config.h.
constexpr unsigned kSuccessionFrees = 256;
constexpr std::size_t kDrawn = 4096;

// A thread's heap with four blocks that others will free.
void four_blocks(World &world)
{
    for (unsigned place = 0; place < 4; ++place) world.take(place, kBlock);
}

// Two blocks in each of two slabs.
void four_in_two_slabs(World &world)
{
    for (unsigned place = 0; place < 4; ++place) world.take(place, place % 2 == 0 ? kBlock : kOther);
}

void six_blocks_of_two(World &world)
{
    for (unsigned place = 0; place < 6; ++place) world.take(place, kHalf);
}

void one_block(World &world)
{
    world.take(0, kBlock);
}

// Blocks that are in their thread's cache when it ends.
void four_cached(World &world)
{
    four_blocks(world);
    for (unsigned place = 2; place < 4; ++place) world.give(place);
}

void others_live(World &world, unsigned first)
{
    for (unsigned thread = first; thread < world.threads; ++thread) world.in(thread, be_live);
}

void orphan_with(World &world, void (*blocks)(World &))
{
    world.in(world.stranger(), blocks);
    world.renew(world.stranger());
}

void give_two(World &world, unsigned thread)
{
    for (unsigned place = 2 * thread - 2; place < 2 * thread; ++place) world.give(place);
}

const ExploreScenario kPushDrain{
    .name = "push-drain",
    .hunts = "a post between the owner's look at a slab's word and its taking of it; two posters on one word",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, four_blocks);
            others_live(world, 1);
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread > 0) return give_two(world, thread);
            world.take(own(0, 0), kBlock);
            world.take(own(0, 1), kBlock);
        },
};

const ExploreScenario kPushDrainBatches{
    .name = "push-drain-batches",
    .hunts = "lists of two posted while the owner gives back lists whose tails it reads from the batches",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, six_blocks_of_two);
            others_live(world, 1);
            // Two of them are back in their slab: when a list is put in front of what is there, its tail is read.
            world.in(1, [](World &each) {
                each.give(4);
                each.give(5);
            });
            world.in(0, [](World &each) { each.take(4, kBlock); });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread > 0) return give_two(world, thread);
            world.take(own(0, 0), kBlock);
            world.take(own(0, 1), kHalf);
        },
};

const ExploreScenario kDrainTwoSlabs{
    .name = "drain-two-slabs",
    .hunts = "a slab posted to again, and queued again, while the queue that it stood on is drained",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, four_in_two_slabs);
            others_live(world, 1);
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 0) {
                world.take(own(0, 0), kBlock);
                world.take(own(0, 1), kBlock);
            } else if (thread == 1) {
                world.give(1);
                world.give(0);
                world.give(2);
            } else {
                world.give(3);
            }
        },
};

const ExploreScenario kPushGiveBack{
    .name = "push-give-back",
    .hunts = "a slab given to the pool while its last block is posted; its pages claimed by another",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, one_block);
            others_live(world, 1);
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 1) return world.give(0);
            if (thread == 0) world.purge();
            world.take(own(thread, 0), kBlock);
        },
};

const ExploreScenario kPostAdopt{
    .name = "post-adopt",
    .hunts = "a post to an orphan, whose poster drains it, while a new thread adopts it; two that adopt",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(1, be_live);
            orphan_with(world, four_blocks);
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 1) return give_two(world, 1);
            world.take(own(thread, 0), kBlock);
        },
};

const ExploreScenario kPostPost{
    .name = "post-post",
    .hunts = "two posters that both find an orphan: its queue, and which of them drains what the other has queued",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, be_live);
            world.in(1, be_live);
            orphan_with(world, four_in_two_slabs);
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 2) return static_cast<void>(world.take(own(2, 0), kBlock));
            world.give(thread); // each in a slab of its own
            world.give(3 - thread); // also in the other's slab
        },
};

const ExploreScenario kQueueQueue{
    .name = "queue-queue",
    .hunts = "two slabs queued at one time on a heap that is in use: one of them forgotten",
    .threads_max = 3,
    .setup =
        [](World &world) {
            all_live(world);
            world.in(world.threads == 3 ? 2 : world.stranger(), four_in_two_slabs);
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 2) return static_cast<void>(world.take(own(2, 0), kBlock));
            world.give(thread); // each in a slab of its own
            world.give(3 - thread); // also in the other's slab
        },
};

const ExploreScenario kExitFree{
    .name = "exit-free",
    .hunts = "a slab queued on a heap whose thread has looked at its queue for the last time",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, four_blocks);
            world.in(1, be_live);
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 0) return world.thread_end();
            if (thread == 1) return give_two(world, 1);
            world.take(own(2, 0), kBlock);
        },
};

const ExploreScenario kExitExit{
    .name = "exit-exit",
    .hunts = "two threads that end, each with staged blocks of the other",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, [](World &each) {
                each.take(0, kHalf);
                each.take(1, kBlock);
            });
            world.in(1, [](World &each) {
                each.take(2, kHalf);
                each.take(3, kBlock);
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 2) return static_cast<void>(world.take(own(2, 0), kBlock));
            world.give(2 - 2 * thread); // stays staged
            world.thread_end();
        },
};

const ExploreScenario kAdoptAdopt{
    .name = "adopt-adopt",
    .hunts = "one heap for two new threads",
    .threads_max = 3,
    .setup = [](World &world) { orphan_with(world, four_cached); },
    .body =
        [](World &world, unsigned thread) {
            world.take(own(thread, 0), kBlock);
            world.take(own(thread, 1), kBlock);
            world.give(own(thread, 0));
        },
};

const ExploreScenario kPurgeAdopt{
    .name = "purge-adopt",
    .hunts = "blocks that an orphan has cached, returned by a purge while a new thread adopts the orphan",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, be_live);
            orphan_with(world, four_cached);
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 0) return world.purge();
            world.take(own(thread, 0), kBlock);
            world.take(own(thread, 1), kBlock);
        },
};

const ExploreScenario kVisit{
    .name = "visit",
    .hunts = "a visit to a heap whose thread is changing it, or has ended",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(0, four_cached);
            others_live(world, 1);
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 1) return world.purge_all();
            world.take(own(0, 0), kBlock);
            world.take(own(0, 1), kOther);
            world.give(0);
            world.thread_end();
        },
};

const ExploreScenario kVisitIdle{
    .name = "visit-idle",
    .hunts = "a visit to a heap whose thread has slept, while it wakes; two that visit it",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, four_cached);
            others_live(world, 1);
            world.in(1, [](World &each) {
                give_two(each, 1); // they wait for thread 0
                inside_rounds_pass();
            });
        },
    .body =
        [](World &world, unsigned thread) {
            inside_visit_idle();
            if (thread > 0) {
                inside_rounds_pass();
                return static_cast<void>(inside_visit_idle());
            }
            for (unsigned i = 0; i < 3; ++i) world.take(own(0, i), kBlock);
            world.thread_end();
        },
};

// Thread 0 has freed nearly as many blocks of a dead thread's heap as make it the successor, and allocated.
const ExploreScenario kSucceed{
    .name = "succeed",
    .hunts = "a dead thread's heap for its successor and for a new thread; a post to it; two heaps for one thread",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(0, be_live);
            if (world.threads == 3) world.in(2, be_live);
            world.in(world.stranger(), four_blocks);
            for (unsigned free = 1; free < kSuccessionFrees; ++free) {
                world.in(world.stranger(), [](World &each) { each.take(4, kTiny); });
                world.in(0, [](World &each) { each.give(4); });
            }
            world.renew(world.stranger());
            world.in(0, [](World &each) { each.take(5, kDrawn); });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 2) return world.give(2);
            if (thread == 0) {
                world.give(0); // takes the heap, unless thread 1 has it
                world.give(1);
            }
            world.take(own(thread, 0), kBlock);
        },
};

} // namespace

void explore_remote_scenarios(std::vector<ExploreScenario> &list)
{
    for (const ExploreScenario &each :
         {kPushDrain, kPushDrainBatches, kDrainTwoSlabs, kPushGiveBack, kPostAdopt, kPostPost, kQueueQueue, kExitFree,
          kExitExit, kAdoptAdopt, kPurgeAdopt, kVisit, kVisitIdle, kSucceed})
        list.push_back(each);
}

} // namespace stress

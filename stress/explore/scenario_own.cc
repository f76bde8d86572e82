// Scenarios of heaps of the program's own (heap/own.h): several threads in one heap, and heaps that come and go while
// others are used.
#include <hakmem/hakmem.h>

#include "explore/inside/inside_watch.h"
#include "explore/scenario.h"

namespace stress {
namespace {

constexpr std::size_t kBlock = 16384, kRun = 100000, kHuge = std::size_t{3} << 20;
constexpr unsigned kSpares = 32; // of this number of destroyed heaps none is used again, under the allocator's checks

// The scenario's figures are its heaps; 0: none.
hak_heap *heap_at(const World &world, unsigned index)
{
    return reinterpret_cast<hak_heap *>(world.now.figures[index]);
}

hak_heap *make(World &world, unsigned index)
{
    hak_heap *heap = hak_heap_new();
    if (heap == nullptr) world.runner.fail("memory", "hak_heap_new gave NULL, although the system has memory");
    for (unsigned other = 0; other < 4; ++other)
        if (heap_at(world, other) == heap) world.runner.fail("law", "one heap was made twice");
    world.now.figures[index] = reinterpret_cast<std::uintptr_t>(heap);
    return heap;
}

void destroy(World &world, unsigned index)
{
    hak_heap *heap = heap_at(world, index);
    world.now.figures[index] = 0;
    hak_heap_destroy(heap);
}

void six_blocks(World &world)
{
    hak_heap *heap = make(world, 0);
    for (unsigned place = 0; place < 6; ++place) world.take_in(place, heap, kBlock);
}

// All blocks are freed: then nothing may be in use in a heap, and its books and lists must be right.
void all_back(World &world)
{
    world.in(world.stranger(), [](World &each) {
        each.laws();
        for (unsigned place = 0; place < kLive; ++place) each.give(place);
        for (unsigned index = 0; index < 4; ++index) {
            hak_heap_figures figures;
            if (heap_at(each, index) == nullptr) continue;
            hak_heap_figures_get(heap_at(each, index), &figures, sizeof figures);
            if (figures.used_bytes != 0)
                each.runner.fail("balance", "nothing of the heap is live, yet it has %llu bytes in use",
                                 static_cast<unsigned long long>(figures.used_bytes));
        }
        for (unsigned index = 0; index < 4; ++index) destroy(each, index);
        inside_dead_pages_free();
    });
}

const ExploreScenario kOwnPost{
    .name = "own-post",
    .hunts = "a block posted to a heap after its lock's holder has looked; a block freed under no lock",
    .threads_max = 3,
    .setup =
        [](World &world) {
            all_live(world);
            world.in(0, six_blocks);
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 0) {
                world.take_in(own(0, 0), heap_at(world, 0), kBlock);
                return world.give(0);
            }
            world.give(2 * thread - 1);
            world.give(2 * thread);
        },
    .check = all_back,
};

const ExploreScenario kOwnLarge{
    .name = "own-large",
    .hunts = "runs and huge blocks of one heap, made and freed by several threads: its lists and its sum of bytes",
    .threads_max = 2,
    .setup =
        [](World &world) {
            all_live(world);
            world.in(0, [](World &each) {
                hak_heap *heap = make(each, 0);
                each.take_in(0, heap, kRun);
                each.take_in(1, heap, kHuge);
            });
        },
    .body =
        [](World &world, unsigned thread) {
            world.give(thread);
            world.take_in(own(thread, 0), heap_at(world, 0), thread == 0 ? kHuge : kRun);
        },
    .check =
        [](World &world) {
            world.forget(kOwn, 20); // these go back with their heap
            world.in(world.stranger(), [](World &each) { destroy(each, 0); });
            all_back(world);
        },
};

const ExploreScenario kOwnDestroy{
    .name = "own-destroy",
    .hunts = "a heap destroyed while another one is used, and all are purged: pages that both have",
    .threads_max = 2,
    .setup =
        [](World &world) {
            all_live(world);
            world.in(0, [](World &each) {
                six_blocks(each);
                each.take_in(6, heap_at(each, 0), kRun);
                hak_heap *heap = make(each, 1);
                each.take_in(10, heap, kBlock);
                each.take_in(11, heap, kRun);
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 0) {
                world.forget(0, 7);
                destroy(world, 0);
                return inside_dead_pages_free(); // they may be the other heap's next ones
            }
            world.purge_all();
            world.give(10);
            world.take_in(own(1, 0), heap_at(world, 1), kRun);
        },
    .check = all_back,
};

const ExploreScenario kOwnNew{
    .name = "own-new",
    .hunts = "one body for two heaps, or a heap that no list has: heaps made while others are destroyed",
    .threads_max = 3,
    .setup =
        [](World &world) {
            all_live(world);
            world.in(0, [](World &each) {
                (void)each;
                hak_heap *heaps[kSpares];
                for (hak_heap *&heap : heaps) heap = hak_heap_new();
                for (hak_heap *heap : heaps) hak_heap_destroy(heap);
            });
        },
    .body =
        [](World &world, unsigned thread) {
            make(world, thread);
            if (thread == 1) return world.purge_all();
            destroy(world, thread);
            make(world, thread);
        },
    .check =
        [](World &world) {
            world.in(world.stranger(), [](World &each) {
                hak_figures figures;
                hak_figures_get(&figures, sizeof figures);
                if (figures.own_heaps != each.threads)
                    each.runner.fail("law", "%u heaps are live, and %u are found", each.threads,
                                     static_cast<unsigned>(figures.own_heaps));
            });
            all_back(world);
        },
};

const ExploreScenario kOwnPurge{
    .name = "own-purge",
    .hunts = "what lies free in a heap, given back by hak_purge_all while a thread takes it or frees more",
    .threads_max = 3,
    .setup =
        [](World &world) {
            all_live(world);
            world.in(0, six_blocks);
            world.in(0, [](World &each) {
                each.give(0);
                each.take_in(0, heap_at(each, 0), kBlock / 2); // its bin has one more
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 1) return world.purge_all();
            if (thread == 2) return world.give(3);
            world.take_in(own(0, 0), heap_at(world, 0), kBlock / 2);
            world.give(1);
        },
    .check = all_back,
};

const ExploreScenario kForkOwn{
    .name = "fork-own",
    .hunts = "a heap that a thread was changing at the fork: its lists, its lock, and what was posted to it",
    .threads_max = 2,
    .setup =
        [](World &world) {
            all_live(world);
            world.in(1, six_blocks);
            world.in(1, [](World &each) { each.take_in(6, heap_at(each, 0), kRun); });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 1) {
                world.fork();
                for (unsigned i = 0; i < 3; ++i) world.take_in(own(thread, i), heap_at(world, 0), kBlock);
                world.take_in(own(thread, 3), heap_at(world, 0), kRun);
                return world.give(own(thread, 1));
            }
            world.give(0);
            world.give(2); // the bin has the first; now both go to their slab
            world.take_in(own(0, 0), heap_at(world, 0), kBlock);
            world.give(6);
        },
    .check =
        [](World &world) {
            world.in(1, [](World &each) {
                each.give_all();
                destroy(each, 0);
                inside_dead_pages_free();
            });
        },
    .forks = true,
};

} // namespace

void explore_own_scenarios(std::vector<ExploreScenario> &list)
{
    for (const ExploreScenario &each : {kOwnPost, kOwnLarge, kOwnDestroy, kOwnNew, kOwnPurge, kForkOwn})
        list.push_back(each);
}

} // namespace stress

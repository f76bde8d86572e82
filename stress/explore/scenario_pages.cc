// Scenarios of the pool (superslab/pool.h), of the purge (superslab/purge.h), of the page map and of huge blocks.
#include <hakmem/hakmem.h>

#include "explore/inside/inside.h"
#include "explore/scenario.h"

namespace stress {
namespace {

constexpr std::size_t kPage = 65536, kMiB = std::size_t{1} << 20, kSuperslab = 4 * kMiB;
constexpr std::size_t kHuge = 3 * kMiB;

// Places: setup fills 0 to 39; each thread has ten of its own from 40 on.
constexpr unsigned kOwn = 40;

unsigned own(unsigned thread, unsigned place)
{
    return kOwn + 10 * thread + place;
}

// Fills the first superslab: place 0 gets a MiB, place 1 all the rest except a MiB.
void all_but_a_mib(World &world)
{
    world.take(0, kMiB);
    world.take(1, kMiB);
    world.take(2, kMiB);
}

// Place 0 gets a MiB; then nothing is free.
void all_of_it(World &world)
{
    all_but_a_mib(world);
    world.take(3, kMiB);
}

void reserved_at_most(World &world, std::size_t superslabs)
{
    hak_stats stats;
    hak_stats_get(&stats);
    if (stats.reserved_bytes > superslabs * kSuperslab)
        world.runner.fail("pages", "%zu superslabs where %zu have room for all: free pages were not found",
                          stats.reserved_bytes / kSuperslab, superslabs);
}

const ExploreScenario kRunClaim{
    .name = "run-claim",
    .hunts = "pages given to two threads that search the same superslab",
    .threads_max = 3,
    .setup = [](World &world) { world.in(world.stranger(), all_but_a_mib); },
    .body =
        [](World &world, unsigned thread) {
            world.take(own(thread, 0), 6 * kPage);
            if (thread == 0) world.give(own(thread, 0));
        },
};

const ExploreScenario kRunHint{
    .name = "run-hint",
    .hunts = "free pages that no search finds: a hint cleared while pages become free",
    .threads_max = 3,
    .setup = [](World &world) { world.in(world.stranger(), all_of_it); },
    .body =
        [](World &world, unsigned thread) {
            if (thread != 1) return world.give(thread);
            world.take(own(1, 0), kMiB);
        },
    .check =
        [](World &world) {
        // With what the threads hold, this makes two superslabs; all threads but one have freed a place.
            world.in(world.stranger(), [](World &each) {
                const unsigned held = 4 - (each.threads - 1) + 1;
                for (unsigned i = held; i < 8; ++i) each.take(own(3, i), kMiB);
                reserved_at_most(each, 2);
            });
        },
};

const ExploreScenario kSuperslabMake{
    .name = "superslab-make",
    .hunts = "two superslabs made although one has room for all: two threads in the pool's lock",
    .threads_max = 3,
    .setup = [](World &world) { world.in(world.stranger(), all_of_it); },
    .body = [](World &world, unsigned thread) { world.take(own(thread, 0), kMiB); },
    .check = [](World &world) { world.in(world.stranger(), [](World &each) { reserved_at_most(each, 2); }); },
};

const ExploreScenario kSuperslabRelease{
    .name = "superslab-release",
    .hunts = "a superslab given back while pages of it are claimed, or its descriptor taken for a new one",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(world.stranger(), [](World &each) {
                for (unsigned i = 0; i < 10; ++i) each.take(i, 2 * kMiB);
                for (unsigned i = 0; i < 10; ++i) each.give(i);
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 0) return world.purge();
            world.take(own(1, 0), 2 * kMiB);
            world.take(own(1, 1), 2 * kMiB);
        },
};

const ExploreScenario kPurgeReuse{
    .name = "purge-reuse",
    .hunts = "memory taken from pages that have just been claimed; pages that count as zero and are not",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(world.stranger(), [](World &each) {
                for (unsigned i = 0; i < 3; ++i) each.take(i, kPage);
                for (unsigned i = 0; i < 2; ++i) each.give(i);
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 0) return world.purge();
            world.take(own(thread, 0), kPage, true);
            world.take(own(thread, 1), kPage);
            world.give(own(thread, 0));
            world.take(own(thread, 2), kPage, true);
        },
};

const ExploreScenario kPublishLookup{
    .name = "publish-lookup",
    .hunts = "a lookup in the page map that meets a superslab or huge block half published",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(world.stranger(), all_of_it);
        // The arena gives the lowest free place, so the next reservation comes after the existing ones.
            world.now.figures[0] =
                reinterpret_cast<std::uintptr_t>(world.block(0)) / kSuperslab * kSuperslab + kSuperslab;
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 0) {
                world.take(own(0, 0), kHuge);
                world.take(own(0, 1), 2 * kMiB);
                return world.give(own(0, 0));
            }
            const auto *next = reinterpret_cast<const char *>(world.now.figures[0]);
            for (unsigned i = 0; i < 3; ++i) {
                const char *start = static_cast<const char *>(inside_lookup(next + i * kSuperslab / 2));
                if (start != nullptr && (start < next || start > next + 3 * kSuperslab))
                    world.runner.fail("lookup", "a block at %p, where there is none", static_cast<const void *>(start));
            }
        },
};

const ExploreScenario kHugeCache{
    .name = "huge-cache",
    .hunts = "a mapping in the cache of huge mappings for two threads; the lock not held around it",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.in(world.stranger(), [](World &each) {
                each.take(0, kHuge);
                each.give(0);
            });
        },
    .body =
        [](World &world, unsigned thread) {
            world.take(own(thread, 0), kHuge);
            if (thread == 0) world.give(own(0, 0));
        },
};

}  // namespace

void explore_page_scenarios(std::vector<ExploreScenario> &list)
{
    for (const ExploreScenario &each :
         {kRunClaim, kRunHint, kSuperslabMake, kSuperslabRelease, kPurgeReuse, kPublishLookup, kHugeCache})
        list.push_back(each);
}

}  // namespace stress

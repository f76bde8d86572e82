// Scenarios of the pool (superslab/pool.h), of the purge (superslab/purge.h), of the page map and of huge blocks.
#include <hakmem/hakmem.h>

#include "explore/inside/inside.h"
#include "explore/inside/inside_watch.h"
#include "explore/scenario.h"

namespace stress {
namespace {

constexpr std::size_t kPage = 65536, kMiB = std::size_t{1} << 20, kSuperslab = 4 * kMiB;
constexpr std::size_t kHuge = 3 * kMiB, kSmall = 16384;

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
    .hunts = "free pages that no search finds: a word of the index lowered while pages become free",
    .threads_max = 3,
    .setup =
        [](World &world) {
            hak_limit_set(64 * kMiB); // under a limit no run is kept, so its pages are free at once
            world.in(world.stranger(), all_of_it);
        },
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
    .fresh_only = true,
};

const ExploreScenario kSuperslabMake{
    .name = "superslab-make",
    .hunts = "two superslabs made although one has room for all: two threads in the pool's lock",
    .threads_max = 3,
    .setup = [](World &world) { world.in(world.stranger(), all_of_it); },
    .body = [](World &world, unsigned thread) { world.take(own(thread, 0), kMiB); },
    .check = [](World &world) { world.in(world.stranger(), [](World &each) { reserved_at_most(each, 2); }); },
    .fresh_only = true,
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
                world.give(own(0, 0)); // into the cache, with its descriptor
                return world.purge();
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

// The first superslab is empty and clean.
const ExploreScenario kSuperslabRemake{
    .name = "superslab-remake",
    .hunts = "a descriptor taken for a new superslab while its old one is being given back; pages freed meanwhile",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(world.stranger(), [](World &each) {
                all_but_a_mib(each);
                for (unsigned i = 0; i < 3; ++i) each.give(i);
                each.purge();
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 0) return inside_release_empty();
            world.take(own(1, 0), 2 * kMiB);
            world.give(own(1, 0));
            world.take(own(1, 1), 2 * kMiB, true);
        },
};

const ExploreScenario kFirstSuperslab{
    .name = "first-superslab",
    .hunts = "two threads that both make the process's first superslab, and the first chunk of descriptors",
    .threads_max = 3,
    .setup = [](World &) {},
    .body =
        [](World &world, unsigned thread) {
            if (thread == 1) {
                hak_stats stats;
                hak_stats_get(&stats);
                world.purge();
            }
            world.take(own(thread, 0), kMiB);
        },
    .check = [](World &world) { world.in(world.stranger(), [](World &each) { reserved_at_most(each, 1); }); },
    .fresh_only = true,
};

const ExploreScenario kRunResize{
    .name = "run-resize",
    .hunts = "pages behind a run, taken by the run that grows and by another thread; those it gave back",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(world.stranger(), [](World &each) {
                all_of_it(each);
                each.give(1); // the pages behind the run of place 2
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 1) return static_cast<void>(world.take(own(1, 0), 15 * kPage, true));
            world.resize(2, kMiB + 2 * kPage);
            world.take(own(0, 0), 3 * kPage);
            world.resize(2, kMiB - kPage);
        },
};

const ExploreScenario kLimits{
    .name = "limits",
    .hunts =
        "pages purged at once beyond the soft limit while others claim and free them; limits that change meanwhile",
    .threads_max = 3,
    .setup =
        [](World &world) {
            hak_limit_set(64 * kMiB);
            hak_limit_soft_set(kMiB);
            world.in(world.stranger(), [](World &each) {
                for (unsigned i = 0; i < 3; ++i) each.take(i, kMiB);
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 2) {
                hak_limit_set(48 * kMiB);
                return world.give(2);
            }
            if (thread == 1) {
                world.take(own(1, 0), 2 * kPage, true);
                world.take(own(1, 1), 2 * kPage);
                return world.give(1);
            }
            world.give(0);
            hak_limit_soft_set(SIZE_MAX);
            hak_limit_set(SIZE_MAX);
        },
};

const ExploreScenario kFigures{
    .name = "figures",
    .hunts = "figures read while slabs, runs and heaps come and go: more in use than there is",
    .threads_max = 2,
    .setup =
        [](World &world) {
            world.in(0, [](World &each) {
                hak_heap_destroy(hak_heap_new()); // counts no more
                each.now.figures[0] = reinterpret_cast<std::uintptr_t>(hak_heap_new());
                each.take(0, kSmall);
                each.take_in(1, reinterpret_cast<hak_heap *>(each.now.figures[0]), kSmall);
                each.now.figures[1] = reinterpret_cast<std::uintptr_t>(each.block(0));
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread > 0) {
                hak_figures figures;
                hak_figures_get(&figures, sizeof figures);
                if (figures.used_bytes > figures.mapped_bytes || figures.heaps > 4 || figures.own_heaps != 1)
                    world.runner.fail("law", "%llu bytes in use of %llu mapped, in %llu heaps",
                                      static_cast<unsigned long long>(figures.used_bytes),
                                      static_cast<unsigned long long>(figures.mapped_bytes),
                                      static_cast<unsigned long long>(figures.heaps));
                const void *block = reinterpret_cast<const void *>(world.now.figures[1]);
                const void *found = inside_lookup(block);
                if (found != nullptr && found != block) world.runner.fail("lookup", "a block in a block");
                return;
            }
            world.give(0);
            world.give(1);
            world.purge_all();
            world.take(own(0, 1), kHuge);
            world.thread_end();
        },
    .check =
        [](World &world) {
            world.in(world.stranger(), [](World &each) {
                each.give_all();
                hak_heap_destroy(reinterpret_cast<hak_heap *>(each.now.figures[0]));
                inside_dead_pages_free();
            });
        },
};

}  // namespace

void explore_page_scenarios(std::vector<ExploreScenario> &list)
{
    for (const ExploreScenario &each :
         {kRunClaim, kRunHint, kSuperslabMake, kSuperslabRelease, kPurgeReuse, kPublishLookup, kHugeCache,
          kSuperslabRemake, kFirstSuperslab, kRunResize, kLimits, kFigures})
        list.push_back(each);
}

}  // namespace stress

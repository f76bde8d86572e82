#include "explore/explorer.h"

#include <hakmem/hakmem.h>
#include <hakmem/validate.h>

#include <cstdio>
#include <cstdlib>

#include "explore/inside/arena.h"
#include "explore/child.h"
#include "explore/inside/inside.h"

namespace stress {
namespace {

constexpr unsigned long long kClockMs = 1000;  // stands still

unsigned long long clock_now()
{
    return kClockMs;
}

// A thread takes this number of blocks of several classes, of runs and of huge blocks, gives them all back, and ends.
void leave_caches(World &world, unsigned count)
{
    static unsigned blocks;
    blocks = count;
    world.in(world.stranger(), [](World &each) {
        constexpr std::size_t kSizes[] = {16, 8192, 16384, 65536, 3 << 20};
        for (std::size_t size_bytes : kSizes) {
            const unsigned of_size = size_bytes > 32768 ? (blocks + 15) / 16 : blocks;
            for (unsigned place = 0; place < of_size; ++place) each.take(place, size_bytes);
            for (unsigned place = 0; place < of_size; ++place) each.give(place);
        }
    });
    world.renew(world.stranger());
}

}  // namespace

Explorer::Explorer()
{
    if (!inside_begin(1)) {
        std::fputs("hakmem: there is no room of 26 GiB in the address space for the heap under test: raise ulimit -v\n",
                   stderr);
        std::exit(2);
    }
    hak_clock_hook = clock_now;
    fresh_.take();
}

Explorer::~Explorer()
{
    hak_clock_hook = nullptr;
}

// --- one run --------------------------------------------------------------------------------------------------------

void Explorer::prepare(const ExploreScenario &scenario, unsigned threads, ExploreStart start)
{
    fresh_.restore();
    arena_complaint_forget(); // the scenario before may have ended by it
    Fibers &fibers = runner_.fibers();
    fibers.forget();
    fibers.begin(threads + 1);
    world_.now = World::State{};
    world_.threads = threads;
    runner_.begin_setup();
    if (start != ExploreStart::Fresh) leave_caches(world_, start == ExploreStart::Warm ? 4 : World::kPlaces / 2);
    scenario.setup(world_);
    fibers.end();
    if (runner_.failed()) {
        std::fprintf(stderr, "explore: the setup of %s fails: %s: %s\n", scenario.name, runner_.outcome().rule,
                     runner_.outcome().detail);
        std::exit(1);
    }
    fibers.keep();
    image_.take();
    kept_ = world_.now;
    shares_ = Shares();
    program_ = Program{};
    program_.threads = threads;
    program_.every_point = scenario.forks;
    program_.reset = [this] { reset(); };
    program_.body = [this, &scenario](unsigned thread) { scenario.body(world_, thread); };
    program_.judge = [this, &scenario] { judge(scenario); };
}

void Explorer::reset()
{
    image_.restore();
    world_.now = kept_;
}

void Explorer::judge(const ExploreScenario &scenario)
{
    // The caches of threads that a child lacks lie as they were; child_judge looks when the child has threads.
    if (!scenario.forks) world_.heaps_apart();
    if (scenario.check != nullptr) scenario.check(world_);
    if (scenario.forks) {
        child_judge(world_);
    } else {
        world_.in(world_.stranger(), [](World &world) { world.give_all(); });
        judge_rest();
    }
    if (arena_complaint() != nullptr) runner_.fail("system", "%s", arena_complaint());
}

// Nothing is live and every thread has ended. The laws must hold before a purge, which would repair what was left
// behind on an orphan's queue; and after a purge nothing may be in use.
void Explorer::judge_rest()
{
    for (unsigned thread = 0; thread <= world_.threads; ++thread)
        world_.in(thread, [](World &world) { world.thread_end(); });
    world_.in(world_.stranger(), [](World &world) {
        world.laws();
        hak_purge();
        world.laws();
        hak_stats stats;
        hak_stats_get(&stats);
        if (stats.small_bytes != 0 || stats.run_bytes != 0 || stats.huge_count != 0)
            world.runner.fail("balance",
                              "nothing is live, yet %zu bytes are in small blocks, %zu in runs, %zu huge blocks",
                              stats.small_bytes, stats.run_bytes, stats.huge_count);
    });
}

// --- all of them ----------------------------------------------------------------------------------------------------

ExploreResult Explorer::explore(const ExploreScenario &scenario, const ExploreRequest &request)
{
    ExploreResult result;
    const double start = sweep_clock();
    const double deadline = request.seconds == 0 ? 0 : start + request.seconds;
    prepare(scenario, request.threads, request.start);
    result.complete = true;
    const Outcome &failure = result.sweep.failure;
    for (unsigned bound = 0; bound <= request.bound && result.complete && failure.rule == nullptr; ++bound) {
        const bool held = sweep(runner_, program_, shares_, bound, deadline, result.sweep);
        result.complete = held || failure.rule != nullptr;
        if (held) result.bound_reached = bound;
    }
    result.shared = shares_.count();
    result.seconds = sweep_clock() - start;
    return result;
}

const Outcome &Explorer::replay(const ExploreScenario &scenario, unsigned threads, const Schedule &schedule,
                                bool &diverged, ExploreStart start)
{
    prepare(scenario, threads, start);
    Replay chooser(schedule);
    const Outcome &outcome = runner_.run(program_, chooser, shares_);
    diverged = outcome.rule == nullptr && chooser.diverged();
    return outcome;
}

std::string Explorer::interleaving(bool all) const
{
    std::string text;
    unsigned before = ~0u;
    Shares shared;
    for (const TracePoint &point : runner_.trace()) shared.note(point.thread, point.what, point.address);
    shared.learn();
    for (const TracePoint &point : runner_.trace()) {
        const bool is_lock = point.what[0] == 'l' && point.what[2] == 'c';
        const bool is_shared = shared.note(point.thread, point.what, point.address);
        if (!all && !is_lock && !is_shared && point.thread == before) continue;
        if (point.thread != before) text += "  T" + std::to_string(point.thread) + "\n";
        before = point.thread;
        text += std::string("      ") + (is_lock ? "waits for" : point.what) + "  " + names_.of(point.address);
        if (point.step[0] != '\0') text += std::string("  (after ") + point.step + ")";
        text += '\n';
    }
    return text;
}

}  // namespace stress

// Scenarios of what tells about the heap: reports of bad calls (report/), figures at a signal (control/stats_write.h), the
// writer of crash records (crash/crash_writer.h).
#include <string>
#include <hakmem/hakmem.h>

#include "explore/inside/inside_watch.h"
#include "explore/scenario.h"

namespace stress {
namespace {

constexpr std::size_t kBlock = 16384, kRun = 100000;
constexpr std::uint32_t kProcess = 7;

const ExploreScenario kFreeFree{
    .name = "free-free",
    .hunts = "a block that two threads free at one time: both succeed; two reports in one buffer",
    .threads_max = 3,
    .setup =
        [](World &world) {
            inside_refuse();
            world.runner.fibers().count_reports();
            all_live(world);
            world.in(0, [](World &each) {
                for (unsigned place = 0; place < 2; ++place) each.take(place, kBlock);
            });
        },
    .body =
        [](World &world, unsigned thread) {
            hak_free(world.block(thread % 2));
            hak_free(world.block(1 - thread % 2));
        },
    .check =
        [](World &world) {
            const unsigned wanted = 2 * world.threads - 2;
            if (world.runner.fibers().reports() != wanted)
                world.runner.fail("law", "%u frees of a freed block were refused, and %u were not the first",
                                  world.runner.fibers().reports(), wanted);
            world.forget(0, 2);
        },
};

const std::string kFiguresBegin = std::string("hakmem: ") + program_invocation_short_name + ", process ";

// Figures take some writes, and their number is not always the same: only the first is counted.
const ExploreScenario kStatsSignal{
    .name = "stats-signal",
    .hunts = "a signal's figures written twice, or by nobody",
    .threads_max = 3,
    .setup =
        [](World &world) {
            world.runner.fibers().count_reports(kFiguresBegin);
            inside_stats_signal_begin();
            all_live(world);
            world.in(0, [](World &each) {
                const std::uint32_t before = each.runner.fibers().reports();
                inside_stats_signal();
                each.take(0, kRun); // a slow path
                if (each.runner.fibers().reports() != before + 1)
                    each.runner.fail("scenario", "the signal's figures were not written");
            });
        },
    .body =
        [](World &world, unsigned thread) {
            if (thread == 0) inside_stats_signal();
            world.take(own(thread, 0), kRun);
            world.take(own(thread, 1), kRun);
        },
    .check =
        [](World &world) {
            if (world.runner.fibers().reports() != 1)
                world.runner.fail("law", "figures were written %u times at one signal",
                                  world.runner.fibers().reports());
        },
};

// Inside the critical section others must get a chance to enter it too.
void write_record(World &world, unsigned thread)
{
    const auto self = static_cast<std::uint32_t>(thread + 1);
    if (inside_crash_is_writer(kProcess, self)) world.runner.fail("law", "a thread is the writer before it took it");
    world.now.figures[1] += inside_crash_take(kProcess, self);
    if (!inside_crash_is_writer(kProcess, self)) world.runner.fail("law", "a thread took the writer and is not");
    if (world.now.figures[0] != 0) world.runner.fail("law", "two threads write a record at one time");
    world.now.figures[0] = 1;
    const bool still = inside_crash_is_writer(kProcess, self);
    if (!still) world.runner.fail("law", "another thread has taken the writer from its holder");
    world.now.figures[0] = 0;
    inside_crash_release(kProcess, self);
}

void one_has_written(World &world)
{
    if (world.now.figures[1] == 0) world.runner.fail("law", "threads crashed, and none was to write a record");
}

const ExploreScenario kCrashWriter{
    .name = "crash-writer",
    .hunts = "two threads that crash and both write a record, or none",
    .threads_max = 3,
    .setup = all_live,
    .body = write_record,
    .check = one_has_written,
};

const ExploreScenario kCrashForked{
    .name = "crash-forked",
    .hunts = "the same in a child, where the writer is a thread that it does not have",
    .threads_max = 3,
    .setup =
        [](World &world) {
            all_live(world);
            world.in(0, [](World &) { inside_crash_take(kProcess - 1, 1); });
        },
    .body = write_record,
    .check = one_has_written,
};

} // namespace

void explore_report_scenarios(std::vector<ExploreScenario> &list)
{
    for (const ExploreScenario &each : {kFreeFree, kStatsSignal, kCrashWriter, kCrashForked}) list.push_back(each);
}

} // namespace stress

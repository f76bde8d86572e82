#include "engine/run/laps.h"

#include "engine/base/clock.h"
#include "engine/team/process_ops.h"
#include "engine/team/team.h"

namespace stress {

// Sets how many ops each seat may have done when this lap ends.
void Laps::share_ops(std::uint32_t number)
{
    const Options &options = testbed_.options;
    const Mapped<Seat *> &seats = testbed_.seats;
    for (std::size_t i = 0; i < seats.size(); ++i) {
        const std::uint64_t quota = options.ops / seats.size() + (i < options.ops % seats.size() ? 1 : 0);
        seats[i]->ops_limit = options.ops == 0 ? UINT64_MAX : quota * (number + 1) / options.laps;
    }
}

void Laps::run(std::uint32_t number)
{
    const Options &options = testbed_.options;
    share_ops(number);
    testbed_.stop.store(testbed_.failed(), std::memory_order_relaxed);
    testbed_.meter.sample();
    const std::uint64_t start_ops = testbed_.sum(&Counters::ops), start_ns = clock_ns();
    TimeLimit limit;
    if (options.seconds != 0) limit = {static_cast<std::uint64_t>(options.seconds * 1e9 / options.laps), options.check};
    for (std::size_t i = 0; i < testbed_.seats.size() && !testbed_.failed(); ++i)
        team_start(*testbed_.seats[i], testbed_.failures);
    injector_.limit_begin();
    team_wait(testbed_.seats, testbed_.slots, limit, testbed_.stop);
    injector_.limit_end();
    seconds_ += static_cast<double>(clock_ns() - start_ns) / 1e9;
    ops_ += testbed_.sum(&Counters::ops) - start_ops;
    testbed_.meter.sample();
    process_ops_rest(*testbed_.seats[0], testbed_.failures, testbed_.shared);
}

} // namespace stress

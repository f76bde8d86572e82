#include "engine/run/testbed.h"

#include <new>

namespace stress {

Testbed::Testbed(const Options &run_options, Support support, Plan &plan)
    : options(run_options), slots(plan.slot_count), seats(run_options.threads), counters(run_options.threads)
{
    for (std::uint32_t i = 0; i < seats.size(); ++i) {
        seats[i] = new (harness_map(sizeof(Seat))) Seat(i, shared, support, options.check);
        counters[i] = &seats[i]->counters;
        seats[i]->interp.touches_pages = options.touch_pages;
        seats[i]->ops.generator = plan.generators[i].get();
        if (options.latency) seats[i]->interp.latency = new (harness_map(sizeof(Latency))) Latency();
    }
    if (options.schedule == Schedule::Os && !options.strict) oracle.note_waits();
    if (plan.judge_lines && options.check) {
        lines = std::make_unique<LineMap>();
        oracle.watch_lines(lines.get(), options.strict);
    }
}

Testbed::~Testbed()
{
    for (Seat *seat : seats) {
        if (seat->interp.latency != nullptr) harness_unmap(seat->interp.latency, sizeof(Latency));
        seat->~Seat();
        harness_unmap(seat, sizeof(Seat));
    }
}

std::uint64_t Testbed::sum(std::atomic<std::uint64_t> Counters::*counter) const
{
    std::uint64_t total = 0;
    for (const Seat *seat : seats) total += read(seat->counters.*counter);
    return total;
}

} // namespace stress

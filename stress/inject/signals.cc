// Signals without pause. System calls are restarted or not; one handler changes everything that it may, the other only
// interrupts.
#include <fmt/core.h>

#include "inject/inject.h"

namespace stress::inject {

void signals_of(const Settings &settings, const std::string &scenario, Totals &totals)
{
    Totals::Row row;
    row.scenario = scenario;
    for (bool restart : {true, false}) {
        for (bool bare : {false, true}) {
            Task task{settings, scenario, Schedule::Os, settings.ops, {}, settings.threads};
            task.injection.signal_us = settings.signal_us;
            task.injection.signals_restart = restart;
            task.injection.signals_bare = bare;
            const Outcome outcome = run_once(task);
            if (!outcome.skip.empty()) return totals.skipped(scenario, outcome.skip);
            row.add(outcome);
            row.ops += outcome.ops;
            if (!totals.failed(task, outcome) && outcome.signals_inside == 0)
                totals.proves_nothing(scenario, fmt::format("of {} signals none came while a thread was inside the "
                                                            "allocator; give more --seconds",
                                                            outcome.signals));
        }
    }
    totals.done(row);
}

}  // namespace stress::inject

// Signals that hit threads inside the allocator, thousands a second, on the thread's stack and on an alternate one. The
// handler changes errno and restores it, and uses stack and vector registers.
//
// Finds state that a handler's frame destroys, interrupted system calls that are not repeated, the malloc's own threads
// if they do not block signals (jemalloc 5.0.1), and thread start-up that a signal re-enters.
//
// Under the seeded scheduler the thread signals itself at sync points, which are inside the allocator if that has any.
#include "engine/subject/whitebox.h"
#include "scenario/live_mix.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

struct Signals {
    LiveMix mix;
    bool strict;
    bool on = false;

    bool next(Op &op)
    {
        if (!on) {
            on = true;
            op = op_make(OpKind::Signals, 0, mix.rng.between(40, 200));
        } else if (mix.rng.one_in(2000)) {
            on = false; // a successor continues the stream, and has no signals yet
            const auto how = static_cast<RenewHow>(mix.rng.below(kRenewHowCount));
            op = mix.rng.one_in(4)
                     ? op_make(OpKind::Signals, 0, 0)
                     : op_make(OpKind::Renew, 0, renew_size(mix.rng, how, strict), static_cast<std::uint8_t>(how));
        } else {
            op = mix.draw();
        }
        return true;
    }
};

} // namespace

Plan signals_plan(const Setup &setup)
{
    Plan plan = plan_of_seats(setup, LiveMix::slots_per_seat(setup), [&](std::uint32_t seat, std::uint32_t) {
        return Signals{LiveMix(setup, seat), setup.options.strict};
    });
    if (!setup.options.check) plan.skip = "--no-check does not know when a thread is inside the allocator";
    else if (setup.options.schedule == Schedule::Seeded && !whitebox_has_sync_points())
        plan.skip = "this malloc has no sync points, and a seeded run can raise signals inside it only at those";
    if (setup.options.check) plan.claims = {{rule::kSignal, 100000}};
    return plan;
}

} // namespace stress

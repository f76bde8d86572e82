// Fork in a threaded program: every few hundred ops a seat forks, and the child checks, frees, allocates, starts a
// thread and forks again, in a process without the other threads.
//
// On a subject with sync points each fork happens while another thread is stopped inside the allocator, at a step that
// the op names: just before a lock, in the middle of returning a list, between two steps of a remote free (known
// failures 24, 25). If no fork of a run met such a thread, the run fails.
//
// Strict runs also read lines and flush all streams at the same time, which takes locks of libc that fork takes too.
// jemalloc 5.3.0 takes its own locks before those and hangs (24).
#include "scenario/live_mix.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

struct Forks {
    LiveMix mix;
    bool streams;
    std::uint64_t forks = 0;

    bool next(Op &op)
    {
        if (mix.rng.one_in(250)) {
            op = op_make(OpKind::Fork, 0, mix.rng.between(20, 200), static_cast<std::uint8_t>(forks++));
        } else if (mix.rng.one_in(200)) {
            op = op_make(OpKind::Renew, 0);
        } else if (streams && mix.rng.one_in(6)) {
            op = mix.rng.one_in(2) ? op_make(OpKind::FlushAll, 0)
                                   : op_make(OpKind::GetLine, 0, draw_log(mix.rng, 1, 400'000));
        } else {
            op = mix.draw();
        }
        return true;
    }
};

}  // namespace

Plan fork_plan(const Setup &setup)
{
    Plan plan = plan_of_seats(setup, LiveMix::slots_per_seat(setup), [&](std::uint32_t seat, std::uint32_t) {
        return Forks{
            .mix = LiveMix(setup, seat),
            .streams = setup.options.strict,
            .forks = seat * 3,
        };
    });
    plan.directs_forks = true;
    if (setup.options.check) plan.claims = {rule::kFork};
    return plan;
}

}  // namespace stress

// Libraries come and go while threads allocate. Some have big thread-local memory, of both models; some have
// constructors and destructors that allocate and free; some have C++ objects; one depends on another. Blocks cross
// their borders both ways.
//
// Finds exhausted static thread-local storage, deadlocks between the loader's lock and the malloc's, and thread memory
// that outlives its library (known failures 23, 26, 27).
#include "engine/team/dlopen_op.h"
#include "scenario/live_mix.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

struct Libraries {
    LiveMix mix;

    bool next(Op &op)
    {
        if (mix.rng.one_in(40)) op = op_make(OpKind::Dlopen, 0, mix.rng.below(4));
        else if (mix.rng.one_in(100)) op = op_make(OpKind::Renew, 0);
        else op = mix.draw();
        return true;
    }
};

}  // namespace

Plan dlopen_plan(const Setup &setup)
{
    Plan plan = plan_of_seats(setup, LiveMix::slots_per_seat(setup),
                              [&](std::uint32_t seat, std::uint32_t) { return Libraries{LiveMix(setup, seat)}; });
    if (const char *refusal = dlopen_refusal(); refusal != nullptr) plan.skip = refusal;
    if (setup.options.check) plan.claims = {rule::kLoading};
    return plan;
}

}  // namespace stress

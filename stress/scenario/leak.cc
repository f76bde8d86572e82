// Leak: one thread allocates, reallocates and frees blocks of up to 8 KiB, ends now and then, and a fresh one continues.
// A checked run is made in nine rounds in one process, each with the same ops, and the process is compared with itself
// (engine/judge/remains.h): one thread at a time meets the same states in each round, so what grows is lost.
//
// Finds a free in a thousand that does nothing, and caches that are lost when a thread ends: too little for the bounds on
// memory (known failures 18, 19, 24).
#include "scenario/live_mix.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr std::uint64_t kRoundOps = 250'000, kLifeOps = 5'000;

struct Leak {
    LiveMix mix;
    std::uint64_t left; // 0 from the start on all seats but the first

    bool next(Op &op)
    {
        if (left == 0) return false;
        op = --left % kLifeOps == 0 ? op_make(OpKind::Renew, 0, 0, static_cast<std::uint8_t>(RenewHow::Return))
                                    : mix.draw();
        return true;
    }
};

} // namespace

Plan leak_plan(const Setup &setup)
{
    const Setup alone{setup.options, setup.seed, 1}; // what the thread passes on comes back to it
    Plan plan = plan_of_seats(setup, LiveMix::slots_per_seat(setup), [&](std::uint32_t seat, std::uint32_t) {
        Leak leak{LiveMix(alone, 0), seat == 0 ? kRoundOps : 0};
        leak.mix.need_realloc();
        return leak;
    });
    if (setup.options.check) plan.claims = {rule::kReallocContent};
    return plan;
}

} // namespace stress

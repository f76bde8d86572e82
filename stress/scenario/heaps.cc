// Heaps of the program's own, used by all threads at once: a seat allocates in a heap, frees and reallocates there what any
// seat has allocated, and now and then gives a whole heap back. Between that it uses malloc, and threads end.
//
// Finds heaps that lose blocks which another thread frees, memory of a destroyed heap that is given out twice or stays,
// locks that are left held, and blocks that reach the wrong heap.
#include "engine/subject/extras.h"
#include "scenario/live_mix.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

struct Visitor {
    LiveMix mix;

    bool next(Op &op)
    {
        if (mix.rng.one_in(4)) op = op_make(OpKind::Heap, 0, mix.rng.below(1'000'000'000));
        else if (mix.rng.one_in(2000)) op = op_make(OpKind::Renew, 0);
        else op = mix.draw();
        return true;
    }
};

} // namespace

Plan heaps_plan(const Setup &setup)
{
    Plan plan = plan_of_seats(setup, LiveMix::slots_per_seat(setup),
                              [&](std::uint32_t seat, std::uint32_t) { return Visitor{LiveMix(setup, seat)}; });
    if (heap_calls() == nullptr) plan.skip = "this malloc has no heaps of the program's own (hak_heap_new and others)";
    if (setup.options.check) plan.claims = {rule::kHeap};
    return plan;
}

} // namespace stress

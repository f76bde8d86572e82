// Random mixed: each thread has a working set of slots and visits a random one: an empty slot gets a block
// of random size, a full one is freed or, in checked runs, reallocated.
//
// Finds mistakes in size classes, in split and refill, in calloc's zeroing of reused memory, in realloc and
// in alignment. Blocks never leave their thread: what fails here with several threads and not with one is
// shared state behind the thread caches.
//
// Checked runs are swarm: for each thread the seed picks the weights of malloc, calloc, aligned_alloc,
// posix_memalign, free and realloc, and switches some of them off. Unchecked runs are malloc and free only.
#include "scenario/random_mixed.h"

#include "engine/mapped.h"
#include "engine/mix.h"
#include "engine/run.h"

namespace stress {
namespace {

struct WorkingSet {
    Mapped<Block> slots;
    Mix mix;
    const Options *options;
};

bool visit_checked(Seat &seat, WorkingSet &set, Block &slot)
{
    const Options &o = *set.options;
    if (slot.start == nullptr)
        return seat.interp.allocate(mix_draw(set.mix, seat.rng, o.min_size_bytes, o.max_size_bytes), slot);
    if (seat.rng.below(100) < set.mix.realloc_percent)
        return seat.interp.reallocate(slot, seat.rng.between(o.min_size_bytes, o.max_size_bytes));
    return seat.interp.release(slot);
}

bool visit_plain(Seat &seat, WorkingSet &set, Block &slot)
{
    if (slot.start != nullptr) return seat.interp.release(slot);
    const std::size_t size_bytes = seat.rng.between(set.options->min_size_bytes, set.options->max_size_bytes);
    return seat.interp.allocate({Kind::Malloc, size_bytes, 0}, slot);
}

Outcome visit_slots(Seat &seat, void *argument)
{
    WorkingSet &set = *static_cast<WorkingSet *>(argument);
    const bool checks = seat.interp.checks();
    while (seat.go_on()) {
        Block &slot = set.slots[seat.rng.below(set.slots.size())];
        if (!(checks ? visit_checked(seat, set, slot) : visit_plain(seat, set, slot))) break;
    }
    return Outcome::Done;
}

}  // namespace

void random_mixed_run(Run &run)
{
    Mapped<WorkingSet> sets(run.seats().size());
    for (std::size_t i = 0; i < sets.size(); ++i) {
        sets[i].slots = Mapped<Block>(run.options.working_set);
        sets[i].mix = mix_swarm(run.seat(i).rng, run.options.strict);
        sets[i].options = &run.options;
    }
    run.phase_begin(1, sets.size());
    for (std::size_t i = 0; i < sets.size() && !run.failed(); ++i) run.start(run.seat(i), visit_slots, &sets[i]);
    run.phase_end();
    for (std::size_t i = 0; i < sets.size(); ++i)
        for (Block &slot : sets[i].slots)
            if (run.failed() || (slot.start != nullptr && !run.seat(i).interp.release(slot))) return;
}

}  // namespace stress

// Random mixed: each thread has a working set of slots and visits them at random. An empty slot gets a block of random
// size; a full one is freed or, in checked runs, reallocated.
//
// Finds mistakes in size classes, in split and refill, in calloc's zeroing of reused memory, in realloc and in
// alignment. Blocks never leave their thread, so a failure with several threads that does not occur with one points at
// shared state behind the thread caches.
//
// Checked runs are swarm: for each thread the seed picks the weights of malloc, calloc, aligned_alloc, posix_memalign,
// memalign, free and realloc, and switches some of them off, but none in all threads. Unchecked runs are malloc and free.
#include "engine/base/mapped.h"
#include "engine/judge/failure.h"
#include "engine/op/mix.h"
#include "scenario/draws.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

struct RandomMixed {
    Rng rng;
    Mix mix;
    bool plain; // only malloc and free, with nothing else drawn
    std::uint32_t first_slot;
    std::size_t min_bytes, max_bytes;
    Mapped<unsigned char> live; // of each slot: whether it holds a block

    bool next(Op &op)
    {
        const auto index = static_cast<std::uint32_t>(rng.below(live.size()));
        const std::uint32_t slot = first_slot + index;
        if (plain) {
            // Without a branch, which would be mispredicted half of the time.
            static_assert(OpKind::Malloc < OpKind::Free && static_cast<int>(OpKind::Free) == 1);
            const std::size_t size_bytes = rng.between(min_bytes, max_bytes) & (live[index] - std::size_t{1});
            op = op_make(static_cast<OpKind>(live[index]), slot, size_bytes);
            live[index] ^= 1;
        } else if (live[index] == 0) {
            op = mix_allocate(mix, rng, slot, min_bytes, max_bytes);
            live[index] = 1;
        } else {
            op = mix_visit_live(mix, rng, slot, min_bytes, max_bytes);
            live[index] = op.kind == OpKind::Realloc;
        }
        return true;
    }
};

} // namespace

Plan random_mixed_plan(const Setup &setup)
{
    const Options &o = setup.options;
    const auto slots = static_cast<std::uint32_t>(o.working_set);
    Plan plan;
    plan.slot_count = std::size_t{slots} * setup.seats;
    const std::vector<SeatMix> seats = swarm_of_seats(setup);
    if (o.check) plan.claims = {rule::kAlignment, rule::kReallocContent, rule::kCallocZero};
    for (std::uint32_t seat = 0; seat < setup.seats; ++seat)
        plan.generators.push_back(generator_of(RandomMixed{
            .rng = seats[seat].rng,
            .mix = seats[seat].mix,
            .plain = !o.check,
            .first_slot = seat * slots,
            .min_bytes = o.min_size_bytes,
            .max_bytes = o.max_size_bytes,
            .live = Mapped<unsigned char>(slots),
        }));
    return plan;
}

} // namespace stress

// Churn: a seat visits random slots of its own; an empty slot gets a block, a full one is freed or reallocated. mid,
// large and huge share this code; they differ in sizes and in how much may be live.
#pragma once

#include <algorithm>

#include "engine/base/mapped.h"
#include "scenario/draws.h"

namespace stress {

struct Churn {
    Rng rng;
    Mix mix;
    Sizes sizes;
    bool check;
    std::uint64_t budget_bytes;  // limit on live bytes; a request beyond it becomes the smallest
    std::uint32_t first_slot;
    Mapped<std::uint64_t> live;  // bytes in each slot; 0: empty
    std::uint64_t live_bytes = 0;

    // A size that leaves the seat within its budget.
    std::size_t draw_size(std::uint64_t live_beside)
    {
        const std::size_t size_bytes = sizes.draw(rng);
        return live_beside + size_bytes > budget_bytes ? sizes.min_bytes : size_bytes;
    }

    bool next(Op &op)
    {
        const auto index = static_cast<std::uint32_t>(rng.below(live.size()));
        const std::uint32_t slot = first_slot + index;
        const std::uint64_t beside = live_bytes - live[index];
        std::uint64_t now = 0;
        if (live[index] == 0) {
            const std::size_t size_bytes = draw_size(beside);
            op = mix_allocate(mix, rng, slot, size_bytes, size_bytes);
            now = op_size(op);
        } else if (mix.realloc_percent != 0 && rng.below(100) < mix.realloc_percent) {
            op = op_make(OpKind::Realloc, slot, draw_size(beside));
            now = op_size(op);
        } else if (check && rng.one_in(16)) {
            op = op_make(rng.one_in(2) ? OpKind::Check : OpKind::UsableSize, slot);
            now = live[index];
        } else {
            op = draw_free(rng, slot, check);
        }
        live_bytes = beside + now;
        live[index] = now;
        return true;
    }
};

// Checked runs are swarm; others malloc and free blocks of evenly spread sizes.
inline Plan churn_plan(const Setup &setup, std::uint64_t budget_bytes)
{
    const Options &o = setup.options;
    const std::uint64_t seat_bytes = budget_bytes / setup.seats;
    const std::vector<SeatMix> seats = swarm_of_seats(setup);
    Plan plan = plan_of_seats(setup, o.working_set, [&](std::uint32_t seat, std::uint32_t first_slot) {
        auto [rng, mix] = seats[seat];
        // One block takes at most half of the seat's budget.
        const std::size_t seat_max = std::min<std::size_t>(o.max_size_bytes, seat_bytes / 2);
        const std::size_t max_bytes = std::max(o.min_size_bytes, seat_max);
        const Sizes sizes =
            o.check ? sizes_swarm(rng, o.min_size_bytes, max_bytes) : sizes_uniform(o.min_size_bytes, max_bytes);
        return Churn{
            .rng = rng,
            .mix = mix,
            .sizes = sizes,
            .check = o.check,
            .budget_bytes = seat_bytes,
            .first_slot = first_slot,
            .live = Mapped<std::uint64_t>(o.working_set),
        };
    });
    plan.swing_bytes = budget_bytes / 2;
    if (o.check) plan.claims = {rule::kOverlap, rule::kContent, rule::kReallocContent, rule::kCallocZero};
    return plan;
}

}  // namespace stress

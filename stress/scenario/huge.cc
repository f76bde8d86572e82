// Huge: blocks above 2 MiB, each with its own mapping, few of them live. They come and go. In checked runs realloc
// grows and shrinks them: a little, to twice and to half, by about a page. So mremap works in place and to another
// place, with the pages after it taken or free. Finds mappings that keep their old size in the books, content lost when
// a mapping moved, caches that hand out a mapping that is too small, and a calloc that does not zero a mapping that was
// used before.
#include <algorithm>

#include "engine/base/mapped.h"
#include "scenario/draws.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr std::uint64_t kBudgetBytes = std::uint64_t{200} << 20;

struct Huge {
    Rng rng;
    Mix mix;
    std::size_t min_bytes, max_bytes;
    bool check;
    std::uint64_t budget_bytes;
    std::uint32_t first_slot;
    Mapped<std::uint64_t> live; // bytes in each slot; 0: empty
    std::uint64_t live_bytes = 0;

    std::size_t within(std::size_t size_bytes, std::uint64_t beside) const
    {
        const std::size_t clamped = std::clamp(size_bytes, min_bytes, max_bytes);
        return beside + clamped > budget_bytes ? min_bytes : clamped;
    }

    std::size_t draw_size()
    {
        const std::size_t size_bytes = draw_log(rng, min_bytes, max_bytes);
        return rng.one_in(2) ? size_bytes / kPageBytes * kPageBytes + rng.below(3) - 1 : size_bytes;
    }

    std::size_t draw_step(std::size_t now)
    {
        switch (rng.below(6)) {
        case 0: return now * 2;
        case 1: return now / 2;
        case 2: return now + kPageBytes;
        case 3: return now + 1;
        case 4: return now - rng.below(2 * kPageBytes);
        default: return now + now / 8;
        }
    }

    bool next(Op &op)
    {
        const auto index = static_cast<std::uint32_t>(rng.below(live.size()));
        const std::uint32_t slot = first_slot + index;
        const std::uint64_t beside = live_bytes - live[index];
        std::uint64_t now = 0;
        if (live[index] == 0) {
            const std::size_t size_bytes = within(draw_size(), beside);
            op = mix_allocate(mix, rng, slot, size_bytes, size_bytes);
            now = op_size(op);
        } else if (check && rng.below(100) < 25 + mix.realloc_percent) {
            now = within(draw_step(live[index]), beside);
            op = op_make(OpKind::Realloc, slot, now);
        } else {
            op = draw_free(rng, slot, check);
        }
        live_bytes = beside + now;
        live[index] = now;
        return true;
    }
};

} // namespace

Plan huge_plan(const Setup &setup)
{
    const Options &o = setup.options;
    const std::uint64_t seat_bytes = kBudgetBytes / setup.seats;
    const std::vector<SeatMix> seats = swarm_of_seats(setup);
    Plan plan = plan_of_seats(setup, o.working_set, [&](std::uint32_t seat, std::uint32_t first_slot) {
        auto [rng, mix] = seats[seat];
        const std::size_t seat_max = std::min<std::size_t>(o.max_size_bytes, seat_bytes / 2);
        const std::size_t max_bytes = std::max(o.min_size_bytes, seat_max);
        return Huge{
            .rng = rng,
            .mix = mix,
            .min_bytes = o.min_size_bytes,
            .max_bytes = max_bytes,
            .check = o.check,
            .budget_bytes = seat_bytes,
            .first_slot = first_slot,
            .live = Mapped<std::uint64_t>(o.working_set),
        };
    });
    plan.swing_bytes = kBudgetBytes / 2;
    if (o.check) plan.claims = {rule::kOverlap, rule::kContent, rule::kReallocContent, rule::kCallocZero};
    return plan;
}

} // namespace stress

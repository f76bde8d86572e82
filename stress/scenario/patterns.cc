// Patterns: the orders in which programs free blocks. Each seat runs through them, starting where the seed says. For
// each pattern it draws one size, or a mix of sizes, of up to 4 KiB:
//
// - lifo, fifo, random: a window is filled, and freed in the opposite order, the same order or any order.
// - interleaved: a window is filled, every second block freed, and the holes filled again.
// - layered: half of a window stays live while short-lived blocks come and go on top of it.
//
// Finds free lists that lose or repeat a block when their order changes, refills that carve blocks that are already on
// a list, slabs that are returned with one block live, and frees that write into the neighbouring block.
#include "engine/base/mapped.h"
#include "scenario/draws.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

enum class Pattern : unsigned char { Lifo, Fifo, Random, Interleaved, Layered };
constexpr std::uint64_t kPatternCount = 5;

struct Patterns {
    Rng rng;
    Mix mix;
    bool check;
    std::size_t min_bytes, max_bytes;
    std::uint32_t first_slot;
    Mapped<std::uint32_t> order;  // the window's slots in the order of their frees
    std::uint64_t turn;
    std::uint32_t switches;  // patterns that are on
    // The current pattern, in passes over the order. `fill` is true in a pass that allocates.
    Pattern pattern = Pattern::Lifo;
    Sizes sizes{};
    std::uint64_t count = 0;  // slots of the window in use
    std::uint64_t step = 0, steps = 0;

    bool next(Op &op)
    {
        if (step == steps) begin();
        op = draw(step++);
        return true;
    }

    void begin()
    {
        do pattern = static_cast<Pattern>(turn++ % kPatternCount);
        while ((switches >> static_cast<unsigned>(pattern) & 1) == 0);
        sizes = check ? sizes_swarm(rng, min_bytes, max_bytes) : sizes_uniform(min_bytes, max_bytes);
        count = 2 * (1 + rng.below(order.size() / 2));
        for (std::uint32_t i = 0; i < count; ++i) order[i] = i;
        if (pattern == Pattern::Random) shuffle(rng, &order[0], count);
        step = 0;
        const bool longer = pattern == Pattern::Interleaved || pattern == Pattern::Layered;
        steps = longer ? 3 * count : 2 * count;
    }

    Op fill(std::uint64_t index)
    {
        const std::size_t size_bytes = sizes.draw(rng);
        return mix_allocate(mix, rng, first_slot + static_cast<std::uint32_t>(index), size_bytes, size_bytes);
    }
    Op drop(std::uint64_t index) { return draw_free(rng, first_slot + static_cast<std::uint32_t>(index), check); }

    Op draw(std::uint64_t i)
    {
        const std::uint64_t half = count / 2;
        switch (pattern) {
        case Pattern::Interleaved:  // fill all; free the even ones; fill them; free all
            if (i < count) return fill(i);
            if (i < count + half) return drop(2 * (i - count));
            if (i < 2 * count) return fill(2 * (i - count - half));
            return drop(i - 2 * count);
        case Pattern::Layered:  // fill the lower half; come and go in the upper; free the lower
            if (i < half) return fill(i);
            if (i < 3 * count - half) {
                const std::uint64_t pair = (i - half) / 2;
                return (i - half) % 2 == 0 ? fill(half + pair % half) : drop(half + pair % half);
            }
            return drop(i - (3 * count - half));
        default:
            if (i < count) return fill(i);
            return drop(pattern == Pattern::Lifo ? 2 * count - 1 - i : order[i - count]);
        }
    }
};

}  // namespace

Plan patterns_plan(const Setup &setup)
{
    const Options &o = setup.options;
    const std::uint64_t slots = o.working_set < 2 ? 2 : o.working_set;
    Plan plan = plan_of_seats(setup, slots, [&](std::uint32_t seat, std::uint32_t first_slot) {
        Rng rng = setup.rng(seat);
        const Mix mix = o.check ? mix_few_others(rng, o.strict) : mix_malloc_only();
        const std::uint64_t turn = rng.below(kPatternCount);
        const std::uint32_t switches = o.check ? draw_switches(rng, kPatternCount) : (1U << kPatternCount) - 1;
        return Patterns{
            .rng = rng,
            .mix = mix,
            .check = o.check,
            .min_bytes = o.min_size_bytes,
            .max_bytes = o.max_size_bytes,
            .first_slot = first_slot,
            .order = Mapped<std::uint32_t>(slots),
            .turn = turn,
            .switches = switches,
        };
    });
    plan.swing_bytes = slots * setup.seats * o.max_size_bytes / 2;
    if (o.check) plan.claims = {rule::kOverlap, rule::kContent, rule::kErrnoKept};
    return plan;
}

}  // namespace stress

// Fragmentation: each seat fills memory with blocks of one class, frees all but every nth, moves on to another class
// and fills again, over and over. The survivors of a class live until the next class has been filled and thinned; then
// they are freed too.
//
// Finds slabs that are never returned or never reused for another class (each change of class then adds a fill, and
// after a few the memory bound is passed), slabs returned while a survivor lives in them, and partial slabs that are
// lost when they are full of holes.
#include <algorithm>

#include "engine/base/mapped.h"
#include "scenario/draws.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr std::uint64_t kFillBytes = std::uint64_t{48} << 20;  // of all seats

// The age of the fill that the block in a slot belongs to.
enum Age : unsigned char { None, Newest, Older };

struct Fragmentation {
    Rng rng;
    Mix mix;
    bool check;
    std::size_t min_bytes, max_bytes;
    std::uint64_t fill_bytes;
    std::uint32_t first_slot;
    Mapped<Age> ages;
    enum Pass : unsigned char { Drop, Fill, Thin } pass = Thin;
    std::uint64_t at = 0;  // slot that the pass has reached
    std::size_t size_bytes = 0;
    std::uint64_t filled = 0, keep_one_in = 1, seen = 0;

    bool next(Op &op)
    {
        for (;; ++at) {
            if (at == ages.size()) begin_pass();
            const std::uint32_t slot = first_slot + static_cast<std::uint32_t>(at);
            Age &age = ages[at];
            if (pass == Drop) {
                const bool goes = age == Older;
                age = age == Newest ? Older : None;
                if (!goes) continue;
                op = draw_free(rng, slot, check);
            } else if (pass == Fill) {
                if (age != None || filled >= fill_bytes) continue;
                op = mix_allocate(mix, rng, slot, size_bytes, size_bytes);
                filled += op_size(op);
                age = Newest;
            } else {
                if (age != Newest || seen++ % keep_one_in == 0) continue;
                op = draw_free(rng, slot, check);
                age = None;
            }
            ++at;
            return true;
        }
    }

    void begin_pass()
    {
        at = 0;
        pass = static_cast<Pass>((pass + 1) % 3);
        if (pass == Fill) {
            // A class that differs from the previous one by at least a quarter.
            std::size_t fresh = draw_border(rng, min_bytes, max_bytes);
            for (int i = 0; i < 8 && fresh / 4 * 3 <= size_bytes && size_bytes <= fresh / 4 * 5; ++i)
                fresh = draw_border(rng, min_bytes, max_bytes);
            size_bytes = fresh;
            filled = 0;
        }
        if (pass == Thin) {
            keep_one_in = std::uint64_t{8} << rng.below(6);
            seen = rng.below(keep_one_in);
        }
    }
};

}  // namespace

Plan fragmentation_plan(const Setup &setup)
{
    const Options &o = setup.options;
    const std::uint64_t slots_max = std::max(1U, kOpSlotsMax / setup.seats);
    const std::uint64_t slots = std::min(o.working_set, slots_max);
    Plan plan = plan_of_seats(setup, slots, [&](std::uint32_t seat, std::uint32_t first_slot) {
        Rng rng = setup.rng(seat);
        const Mix mix = o.check ? mix_few_others(rng, o.strict) : mix_malloc_only();
        return Fragmentation{
            .rng = rng,
            .mix = mix,
            .check = o.check,
            .min_bytes = o.min_size_bytes,
            .max_bytes = o.max_size_bytes,
            .fill_bytes = kFillBytes / setup.seats,
            .first_slot = first_slot,
            .ages = Mapped<Age>(slots),
        };
    });
    plan.swing_bytes = 2 * kFillBytes;
    // A seat fills all of its slots before it frees any.
    if (o.check) plan.claims = {rule::kOverlap, {rule::kContent, 4 * slots * setup.seats}};
    return plan;
}

}  // namespace stress

// At the limit. The seats live under a limit of the subject's own (hak_limit_set); where it has none, under one of the
// address space. In turns it is roomy, tight, and gone.
//
// Under a tight limit NULL with ENOMEM is a right answer, and all other rules hold: no block is lost or damaged. Under a
// roomy one, which leaves several times what can be live, and without one nothing may be refused.
//
// Finds limits that refuse for ever what they refused once, and books of what is committed that drift: memory that was
// freed and still counts.
#include "engine/base/build.h"
#include "engine/subject/extras.h"
#include "scenario/live_mix.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr std::size_t kBigBytes = std::size_t{6} << 20, kRoomBytes = std::size_t{48} << 20; // a seat

struct Limited {
    enum class Turn : std::uint8_t { Roomy, Tight, Gone };

    LiveMix mix;
    std::uint32_t big_slot; // one slot for blocks that have pages or a mapping of their own
    std::size_t room_bytes;
    Turn turn = Turn::Gone;
    std::uint64_t left = 30;

    Op turn_over()
    {
        switch (turn) {
        case Turn::Gone:
            turn = Turn::Roomy;
            left = mix.rng.between(200, 800);
            return op_make(OpKind::Limit, 0, room_bytes);
        case Turn::Roomy:
            turn = Turn::Tight;
            left = mix.rng.between(20, 100);
            return op_make(OpKind::Limit, 0, draw_log(mix.rng, 4096, std::size_t{1} << 20));
        default:
            turn = Turn::Gone;
            left = mix.rng.between(20, 100);
            return op_make(OpKind::Limit, 0, 0);
        }
    }

    bool next(Op &op)
    {
        if (left == 0) {
            op = turn_over();
            return true;
        }
        --left;
        if (mix.rng.one_in(8)) {
            constexpr OpKind kinds[] = {OpKind::Malloc, OpKind::Calloc, OpKind::Realloc, OpKind::Free, OpKind::Free};
            const OpKind kind = kinds[mix.rng.below(std::size(kinds))];
            op = op_normalise(op_make(kind, big_slot, draw_log(mix.rng, 32768, kBigBytes), 1)); // free has no size
        } else {
            op = mix.draw();
        }
        return true;
    }
};

} // namespace

Plan limit_plan(const Setup &setup)
{
    const std::size_t slots = LiveMix::slots_per_seat(setup);
    Plan plan = plan_of_seats(setup, slots, [&](std::uint32_t seat, std::uint32_t) {
        return Limited{
            .mix = LiveMix(setup, seat),
            .big_slot = static_cast<std::uint32_t>(slots * setup.seats) + seat,
            .room_bytes = kRoomBytes * setup.seats,
        };
    });
    plan.slot_count += setup.seats;
    if (kSanitized) plan.skip = "a sanitizer needs the address space that would be limited";
    if (!setup.options.check) return plan;
    plan.claims = {{rule::kExhausted, 20000}};
    if (subject_has_limit()) plan.claims.emplace_back(rule::kEnomem, 20000);
    return plan;
}

} // namespace stress

// False sharing: all seats allocate small blocks at the same time, and pass some on to the next seat, which frees them
// and at once asks for the same sizes.
//
// Two threads that write to blocks in one cache line slow each other down, though they share nothing. Active: the
// allocator gives blocks of one line to two threads. Passive: a thread frees another thread's block and is then given
// that block, while its neighbours in the line still belong to the first thread. The rule false_sharing finds both: a
// fresh block must not share a line with a live block of another seat. Strict runs fail there; others count the lines
// and report them.
#include <algorithm>

#include "engine/base/mapped.h"
#include "scenario/draws.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr std::uint64_t kBurstMax = 32;
constexpr std::uint32_t kRingLog2 = 7;

struct FalseSharing {
    Rng rng, conductor;  // every seat has its own copy of the conductor, so all draw the same bursts
    Sizes sizes;
    bool check;
    std::uint64_t visits_max;  // to own slots, in one round
    std::uint32_t first_slot;
    Channel out, in;
    Mapped<bool> live;  // of each own slot
    std::uint64_t visits = 0, sends = 0, receives = 0;  // left to do in this round
    std::uint64_t sent = 0, received = 0;
    Burst reuse{};  // what follows the free of a block of another seat

    bool next(Op &op)
    {
        if (reuse.take(op)) return true;
        if (visits + sends + receives == 0) {
            visits = 1 + rng.below(visits_max);
            sends = receives = 1 + conductor.below(kBurstMax);
        }
        op = visits > 0 ? visit() : sends > 0 ? send() : receive();
        return true;
    }

    Op visit()
    {
        --visits;
        const auto index = static_cast<std::uint32_t>(rng.below(live.size()));
        live[index] = !live[index];
        if (!live[index]) return draw_free(rng, first_slot + index, check);
        return op_make(OpKind::Malloc, first_slot + index, sizes.draw(rng));
    }

    Op send()
    {
        --sends;
        const Op op = op_make(OpKind::Malloc, out.slot(sent), sizes.draw(rng), 0, out.send_link(sent));
        ++sent;
        return op;
    }

    Op receive()
    {
        --receives;
        const Op op = op_make(OpKind::Free, in.slot(received), 0, 0, in.receive_link(received));
        ++received;
        // No realloc: in place, it would take over a block of an earlier lap, beside blocks of the heap's new owner.
        const auto index = static_cast<std::uint32_t>(rng.below(live.size()));
        if (live[index]) reuse.add(op_make(OpKind::Free, first_slot + index));
        reuse.add(op_make(OpKind::Malloc, first_slot + index, sizes.draw(rng)));
        live[index] = true;
        return op;
    }
};

} // namespace

Plan false_sharing_plan(const Setup &setup)
{
    const Options &o = setup.options;
    const auto ring_first = static_cast<std::uint32_t>(o.working_set * setup.seats);
    Plan plan = plan_of_seats(setup, o.working_set, [&](std::uint32_t seat, std::uint32_t first_slot) {
        Rng rng = setup.rng(seat), conductor = setup.rng(0, 1);
        const Sizes sizes = o.check ? sizes_swarm(rng, o.min_size_bytes, o.max_size_bytes)
                                    : sizes_uniform(o.min_size_bytes, o.max_size_bytes);
        // The same for all seats; otherwise the busiest would use up its ops and end the lap for the others.
        const std::uint64_t visits_max = std::uint64_t{8} << conductor.below(6);
        const std::uint32_t next_seat = (seat + 1) % setup.seats;
        return FalseSharing{
            .rng = rng,
            .conductor = conductor,
            .sizes = sizes,
            .check = o.check,
            .visits_max = visits_max,
            .first_slot = first_slot,
            .out = {ring_first + (next_seat << kRingLog2), kRingLog2},
            .in = {ring_first + (seat << kRingLog2), kRingLog2},
            .live = Mapped<bool>(o.working_set),
        };
    });
    plan.slot_count += std::size_t{setup.seats} << kRingLog2;
    plan.judge_lines = true;
    if (o.check) plan.claims = {rule::kFalseSharing};
    if (o.check && setup.seats > 1) plan.claims.push_back(rule::kHandover);
    return plan;
}

} // namespace stress

// Purge cycle: the seats allocate about 64 MiB in many sizes and free nearly all of it. Memory returns to the system,
// by a purge or by waiting for the decay. Then the seats check the survivors and use all of the memory again, round
// after round.
//
// Finds pages that are returned while a block lives in them, pages that are reused without being committed, books of
// committed memory that drift, purges that race with another thread's allocation, and memory that comes back from the
// system but is wrongly taken for used or for zero (jemalloc 5.2.0, rpmalloc#368, mimalloc 52d5661f).
//
// Under the seeded scheduler the allocator's clock counts steps, so its runs purge but never wait.
#include <algorithm>

#include "engine/base/mapped.h"
#include "scenario/draws.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr std::uint64_t kRoundBytes = std::uint64_t{64} << 20;  // of all seats

enum class Stage : unsigned char { Fill, Free, Rest, Check };

struct PurgeCycle {
    Rng rng;
    Mix mix;
    Sizes sizes;
    bool check, may_sleep;
    std::uint64_t round_bytes;
    std::uint32_t first_slot;
    Mapped<std::uint32_t> order;  // order of the frees, by slot
    Mapped<bool> live;
    Stage stage = Stage::Fill;
    std::uint64_t at = 0, filled = 0;
    std::uint64_t keep_one_in = 0;  // 0: nothing survives

    bool next(Op &op)
    {
        while (!draw(op)) {}
        return true;
    }

    // False: there is nothing to do at this point.
    bool draw(Op &op)
    {
        switch (stage) {
        case Stage::Fill: return fill(op);
        case Stage::Free: return drop(op);
        case Stage::Rest:
            stage = Stage::Check;
            at = 0;
            return rest(op);
        case Stage::Check:
            if (at == live.size()) {
                stage = Stage::Fill;
                at = filled = 0;
                return false;
            }
            op = op_make(OpKind::Check, first_slot + static_cast<std::uint32_t>(at));
            return live[at++] && check;
        }
        return false;
    }

    bool fill(Op &op)
    {
        if (at == live.size() || filled >= round_bytes) {
            stage = Stage::Free;
            at = 0;
            keep_one_in = rng.one_in(2) ? 0 : std::uint64_t{4} << rng.below(6);
            for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
            if (rng.one_in(2)) shuffle(rng, &order[0], order.size());
            return false;
        }
        const std::uint64_t index = at++;
        if (live[index]) return false;
        const std::size_t size_bytes = sizes.draw(rng);
        op = mix_allocate(mix, rng, first_slot + static_cast<std::uint32_t>(index), size_bytes, size_bytes);
        filled += op_size(op);
        live[index] = true;
        return true;
    }

    bool drop(Op &op)
    {
        if (at == live.size()) {
            stage = Stage::Rest;
            return false;
        }
        const std::uint32_t index = order[at++];
        if (!live[index] || (keep_one_in != 0 && rng.one_in(keep_one_in))) return false;
        live[index] = false;
        op = draw_free(rng, first_slot + index, check);
        return true;
    }

    bool rest(Op &op)
    {
        switch (rng.below(4)) {
        case 0: return false;
        case 1:
            if (!may_sleep) return false;
            op = op_make(OpKind::Sleep, 0, std::size_t{1} << rng.below(8));
            return true;
        default: op = op_make(OpKind::Purge, 0); return true;
        }
    }
};

}  // namespace

Plan purge_cycle_plan(const Setup &setup)
{
    const Options &o = setup.options;
    Plan plan = plan_of_seats(setup, o.working_set, [&](std::uint32_t seat, std::uint32_t first_slot) {
        Rng rng = setup.rng(seat);
        const Mix mix = o.check ? mix_few_others(rng, o.strict) : mix_malloc_only();
        Sizes sizes = o.check ? sizes_swarm(rng, o.min_size_bytes, o.max_size_bytes)
                              : sizes_uniform(o.min_size_bytes, o.max_size_bytes);
        if (sizes.how == Sizes::How::Uniform) sizes.how = Sizes::How::Log;
        return PurgeCycle{
            .rng = rng,
            .mix = mix,
            .sizes = sizes,
            .check = o.check,
            .may_sleep = o.check && o.schedule == Schedule::Os,
            .round_bytes = kRoundBytes / setup.seats,
            .first_slot = first_slot,
            .order = Mapped<std::uint32_t>(o.working_set),
            .live = Mapped<bool>(o.working_set),
        };
    });
    plan.swing_bytes = kRoundBytes;
    if (o.check) plan.claims = {rule::kOverlap, {rule::kContent, 4 * o.working_set * setup.seats}};
    return plan;
}

}  // namespace stress

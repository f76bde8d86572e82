// Memory runs out. In turns, a seat makes the nth system call for memory fail, once or from then on, where n grows over
// the run; or the process may map only a little more than it has (RLIMIT_AS). Then the limit is lifted, and ordinary
// requests must succeed again.
//
// While memory is scarce, NULL with ENOMEM is a right answer, and all other rules hold: no block is lost or damaged,
// realloc keeps its block, free succeeds and keeps errno even if munmap or madvise fails.
//
// Finds NULL dereferenced on error paths, locks left held and pages lost on those paths, memory touched before it was
// committed, and mallocs that never recover (known failures 11, 29, 30, 31).
#include "engine/base/build.h"
#include "engine/subject/fault_os.h"
#include "scenario/live_mix.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr std::size_t kMappedBytes = std::size_t{12} << 20;

struct Oom {
    LiveMix mix;
    std::uint32_t big_slot; // one slot for blocks that have their own mapping
    std::uint64_t turn = 0, left = 30;
    bool scarce = false;
    bool limited = false; // this turn sets RLIMIT_AS

    // Fails a call whose number grows from turn to turn, and also the first call; each once and for ever.
    Op begin()
    {
        const std::uint64_t number = turn++;
        limited = number % 5 == 4;
        if (limited) return op_make(OpKind::LimitMemory, 0, draw_log(mix.rng, 4096, std::size_t{16} << 20));
        return op_make(OpKind::FailOs, 0, number % 5 < 2 ? 1 + number / 5 % 40 : 1,
                       static_cast<std::uint8_t>(number % 5 % 2));
    }

    bool next(Op &op)
    {
        if (left == 0) {
            scarce = !scarce;
            left = scarce ? mix.rng.between(10, 60) : mix.rng.between(20, 100);
            op = scarce ? begin() : op_make(limited ? OpKind::LimitMemory : OpKind::FailOs, 0, 0);
            return true;
        }
        --left;
        if (mix.rng.one_in(8)) {
            // Mostly realloc: if it cannot move the block, the block must be unchanged.
            constexpr OpKind kinds[] = {OpKind::Malloc,  OpKind::Realloc, OpKind::Realloc,
                                        OpKind::Realloc, OpKind::Calloc,  OpKind::Free};
            const OpKind kind = kinds[mix.rng.below(std::size(kinds))];
            op = op_normalise(op_make(kind, big_slot, draw_log(mix.rng, 32768, kMappedBytes), 1)); // free has no size
        } else if (mix.rng.one_in(30)) {
            op = op_make(OpKind::Purge, 0);
        } else {
            op = mix.draw();
        }
        return true;
    }
};

} // namespace

Plan oom_plan(const Setup &setup)
{
    const std::size_t slots = LiveMix::slots_per_seat(setup);
    Plan plan = plan_of_seats(setup, slots, [&](std::uint32_t seat, std::uint32_t) {
        return Oom{LiveMix(setup, seat), static_cast<std::uint32_t>(slots * setup.seats) + seat};
    });
    plan.slot_count += setup.seats;
    plan.skip = fault_os_refusal();
    plan.traps_os = plan.skip.empty();
    if (setup.options.check) plan.claims = {{rule::kExhausted, 20000}};
    return plan;
}

} // namespace stress

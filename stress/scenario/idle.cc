// All threads asleep. Each seat allocates a burst of blocks, frees nearly all of them, and goes to sleep. While all sleep
// and none calls malloc or free, the memory must return to the system, as in a server without requests.
//
// Only a malloc with a thread of its own that purges can do this; the plan starts that of hakmem or of jemalloc.
//
// Finds memory that goes back only when a thread calls again, caches of sleeping threads that nobody can take back, and a
// background thread that ends, hangs, or does not see what other threads freed.
#include "engine/subject/extras.h"
#include "scenario/draws.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr std::size_t kBurstBytes = std::size_t{96} << 20; // of all seats

// Each seat's Idle has the same number, so that all seats come to it.
struct Sleeper {
    Rng rng;
    std::size_t min_bytes, max_bytes, sleep_ms;
    std::uint32_t first_slot, slots;
    std::uint32_t at = 0;
    std::uint32_t keeps = 0; // this slot of every 256 survives a burst

    bool next(Op &op)
    {
        const std::uint32_t index = at % slots, slot = first_slot + index;
        if (at == 2 * slots) {
            op = op_make(OpKind::Idle, 0, sleep_ms);
            at = 0;
            keeps = static_cast<std::uint32_t>(rng.below(256));
            return true;
        }
        if (at < slots) op = op_make(OpKind::Malloc, slot, rng.between(min_bytes, max_bytes));
        else op = op_make(index % 256 == keeps ? OpKind::Check : OpKind::Free, slot);
        ++at;
        return true;
    }
};

} // namespace

Plan idle_plan(const Setup &setup)
{
    const Options &o = setup.options;
    const auto slots =
        static_cast<std::uint32_t>(kBurstBytes / setup.seats / ((o.min_size_bytes + o.max_size_bytes) / 2 + 1) + 1);
    // jemalloc 5.3.1 needs up to four seconds for pages whose decay time is one.
    const double seconds_max = o.return_seconds * (o.strict ? 1 : 4);
    Plan plan = plan_of_seats(setup, slots, [&](std::uint32_t seat, std::uint32_t first_slot) {
        return Sleeper{
            .rng = setup.rng(seat),
            .min_bytes = o.min_size_bytes,
            .max_bytes = o.max_size_bytes,
            .sleep_ms = static_cast<std::size_t>(seconds_max * 1000),
            .first_slot = first_slot,
            .slots = slots,
        };
    });
    plan.swing_bytes = kBurstBytes;
    if (o.schedule == Schedule::Seeded) plan.skip = "time passes in steps here, so no thread can sleep";
    else if (!subject_background())
        plan.skip = "this malloc has no thread that gives idle memory back (hak_background, or jemalloc's)";
    // Four rounds: where a lap ends before all seats have come to their Idle, nothing is judged.
    if (o.check) plan.claims = {{rule::kMemoryReturn, 4 * (2 * slots + 2) * std::uint64_t{setup.seats}}};
    return plan;
}

} // namespace stress

// Realloc walk: blocks grow and shrink through every class border: one byte below it, on it and one byte above it. The
// walk goes from one byte to beyond 2 MiB, past the end of slabs and of page runs to where mappings begin. In between,
// blocks jump to any border, shrink to a few bytes, go through reallocarray, start out aligned, and pass through all
// seats, each of which reallocs the block that the previous one left.
//
// Finds content lost when a block moves to another class, in-place growth beyond the class or over the next run,
// shrinks that return memory still in use, and faults in realloc of another owner's block and of an aligned block, by
// the size of its class (mimalloc#603, gperftools#470, glibc BZ#27870).
//
// Shared slots: in its t-th visit, seat i does op number t x seats + i on each of them. All seats visit them in the
// same order, so the ops ordered by (t, slot, seat) are a sequence that every seat follows: no jam (see draws.h).
#include <algorithm>

#include "engine/judge/failure.h"
#include "engine/base/mapped.h"
#include "scenario/draws.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr std::uint32_t kWideSlots = 2;       // slots of each seat that walk to the largest size
constexpr std::size_t kNarrowMaxBytes = 40960;  // the others
constexpr std::uint32_t kSharedPerSeat = 4;

enum Switch : std::uint32_t { Jump = 1, Tiny = 2, Array = 4, AlignedStart = 8, Remote = 16 };

// The distance between class borders at this size.
std::size_t border_step(std::size_t size_bytes)
{
    if (size_bytes <= 1024) return 16;
    if (size_bytes <= 32768) return std::size_t{1} << (63 - __builtin_clzll(size_bytes - 1) - 3);
    return size_bytes <= std::size_t{2} << 20 ? 65536 : 4096 * 64;
}

// The next size on the way up: border - 1, border, border + 1, then on to the next border.
std::size_t walk_up(std::size_t size_bytes)
{
    const std::size_t step = border_step(size_bytes), border = (size_bytes + step - 1) / step * step;
    return size_bytes + 1 < border ? border - 1 : size_bytes + 1;
}

std::size_t walk_down(std::size_t size_bytes)
{
    const std::size_t step = border_step(size_bytes), border = size_bytes / step * step;
    return size_bytes > border + 1 ? border + 1 : size_bytes - 1;
}

struct ReallocWalk {
    Rng rng;
    Mix aligned;
    bool check;
    std::uint32_t switches;
    std::size_t min_bytes, max_bytes;
    std::uint32_t seat, seats, first_slot, shared_first, shared_count;
    Mapped<std::uint64_t> live;  // bytes in each slot of its own; 0: empty
    Mapped<bool> down;
    std::uint64_t shared_visits = 0;

    bool on(Switch which) const { return (switches & which) != 0; }
    std::size_t limit(std::uint32_t index) const
    {
        return index < kWideSlots ? max_bytes : std::clamp(kNarrowMaxBytes, min_bytes, max_bytes);
    }

    std::size_t draw_size(std::size_t now, std::uint32_t index)
    {
        const std::size_t high = limit(index);
        if (on(Tiny) && rng.one_in(32)) return std::clamp<std::size_t>(1 + rng.below(24), min_bytes, high);
        if (on(Jump) && rng.one_in(16)) return draw_border(rng, min_bytes, high);
        const std::size_t next = down[index] ? walk_down(now) : walk_up(now);
        if (next <= min_bytes || next >= high || rng.one_in(256)) down[index] = !down[index];
        return std::clamp(next, min_bytes, high);
    }

    Op grow(std::uint32_t slot, std::size_t size_bytes)
    {
        if (!on(Array) || !rng.one_in(4)) return op_make(OpKind::Realloc, slot, size_bytes);
        const std::size_t count = rng.between(1, std::min<std::size_t>(size_bytes, 16));
        return op_make(OpKind::ReallocArray, slot, size_bytes / count, static_cast<std::uint8_t>(count));
    }

    bool next(Op &op)
    {
        if (on(Remote) && rng.one_in(4)) {
            op = shared_visit();
            return true;
        }
        const bool wide = rng.one_in(16);
        const auto index =
            static_cast<std::uint32_t>(wide ? rng.below(kWideSlots) : kWideSlots + rng.below(live.size() - kWideSlots));
        op = own_visit(index);
        return true;
    }

    Op own_visit(std::uint32_t index)
    {
        const std::uint32_t slot = first_slot + index;
        if (live[index] != 0 && rng.one_in(128)) {
            live[index] = 0;
            return draw_free(rng, slot, check);
        }
        if (live[index] == 0) {
            const std::size_t size_bytes = draw_border(rng, min_bytes, limit(index));
            live[index] = size_bytes;
            if (on(AlignedStart) && rng.one_in(2)) {
                const Op op = mix_allocate(aligned, rng, slot, size_bytes, size_bytes);
                live[index] = op_size(op);
                return op;
            }
            return op_make(OpKind::Realloc, slot, size_bytes);
        }
        const Op op = grow(slot, draw_size(live[index], index));
        live[index] = op_size(op) * (op.kind == OpKind::ReallocArray ? op.arg : 1U);
        return op;
    }

    Op shared_visit()
    {
        const std::uint64_t visit = shared_visits / shared_count;
        const auto index = static_cast<std::uint32_t>(shared_visits % shared_count);
        ++shared_visits;
        const std::uint32_t slot = shared_first + index;
        const std::size_t high = limit(index == 0 && rng.one_in(4) ? 0 : kWideSlots);
        Op op = rng.one_in(16) ? draw_free(rng, slot, check)
                               : grow(slot, rng.one_in(8) ? min_bytes : draw_border(rng, min_bytes, high));
        op.link = Channel::link_of(visit * seats + seat);
        return op;
    }
};

}  // namespace

Plan realloc_walk_plan(const Setup &setup)
{
    const Options &o = setup.options;
    const std::uint64_t slots = std::max<std::uint64_t>(o.working_set, kWideSlots + 1);
    const std::uint32_t shared = kSharedPerSeat * setup.seats;
    const auto shared_first = static_cast<std::uint32_t>(slots * setup.seats);
    Plan plan = plan_of_seats(setup, slots, [&](std::uint32_t seat, std::uint32_t first_slot) {
        Rng rng = setup.rng(seat);
        std::uint32_t switches = Jump | Tiny | Array | AlignedStart | Remote;
        if (!o.check) switches = Jump | Tiny;  // only realloc and free
        // All seats pass blocks on, or none does; otherwise those that do would wait for those that do not.
        Rng all_seats = setup.rng(0, 1);
        const std::uint32_t remote = all_seats.one_in(8) ? 0U : +Remote;
        if (o.check) switches = (draw_switches(rng, 5) & ~+Remote) | remote;
        return ReallocWalk{
            .rng = rng,
            .aligned = Mix{.kind_weights = {0, 0, 1, 1, 1}, .realloc_percent = 0, .strict = o.strict},
            .check = o.check,
            .switches = switches,
            .min_bytes = o.min_size_bytes,
            .max_bytes = o.max_size_bytes,
            .seat = seat,
            .seats = setup.seats,
            .first_slot = first_slot,
            .shared_first = shared_first,
            .shared_count = shared,
            .live = Mapped<std::uint64_t>(slots),
            .down = Mapped<bool>(slots),
        };
    });
    plan.slot_count += shared;
    plan.swing_bytes = setup.seats * kWideSlots * o.max_size_bytes;
    if (o.check) plan.claims = {rule::kReallocContent};
    return plan;
}

}  // namespace stress

// Calloc: memory that was just dirty must come back zero. The harness fills every block to its last byte, so all reused
// memory is dirty. Steps, of sizes to 8 MiB and with counts from 1 to 255:
//
// - reuse: a block is freed and calloc asks for the same size.
// - shrink: a block is filled, shrunk by realloc, and calloc asks for the bytes that the shrink freed.
// - purge: several blocks are freed, memory is returned to the system, and calloc asks for as many blocks.
// - plain: malloc and calloc in turn.
//
// Finds a calloc that takes a page for fresh from the system although it was used, purged in part, or shrunk, and dirty
// bytes between the requested size and the class size. Seen in mimalloc 2.2.7, jemalloc 4.0.3 and 5.2.0.
#include <algorithm>

#include "engine/judge/failure.h"
#include "engine/base/mapped.h"
#include "scenario/draws.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

enum Switch : std::uint32_t { Reuse = 1, Shrink = 2, Purge = 4, Plain = 8 };

struct CallocReuse {
    Rng rng;
    bool check;
    std::uint32_t switches;
    std::size_t min_bytes, max_bytes;
    std::uint64_t purge_one_in;
    std::uint32_t first_slot;
    Mapped<std::uint64_t> live; // bytes in each slot; 0: empty
    Burst burst{};

    // Most sizes are small: one large block takes as much time as thousands of small ones.
    std::size_t draw_size()
    {
        const std::size_t bounds[] = {1024, 1024, 1024, 1024, 1024, 32768, 32768, std::size_t{8} << 20};
        const std::uint64_t which = rng.below(8);
        // One in 32 goes beyond 32 KiB.
        const std::size_t bound = which == 7 && !rng.one_in(4) ? 32768 : bounds[which];
        const std::size_t high = std::clamp(bound, min_bytes, max_bytes);
        return rng.one_in(2) ? draw_log(rng, min_bytes, high) : draw_border(rng, min_bytes, high);
    }

    // calloc of about size_bytes, as one element or several.
    Op make_calloc(std::uint32_t slot, std::size_t size_bytes)
    {
        const std::size_t count = rng.one_in(2) ? 1 : rng.between(1, std::min<std::size_t>(255, size_bytes));
        return op_make(OpKind::Calloc, slot, size_bytes / count, static_cast<std::uint8_t>(count));
    }

    void refill(std::uint32_t index, std::size_t size_bytes)
    {
        burst.add(make_calloc(first_slot + index, size_bytes));
        live[index] = size_bytes;
    }

    void add_purge()
    {
        constexpr std::uint32_t blocks = 3;
        const auto first = static_cast<std::uint32_t>(rng.below(live.size() - blocks + 1));
        for (std::uint32_t i = first; i < first + blocks; ++i)
            if (live[i] != 0) burst.add(op_make(OpKind::Free, first_slot + i));
        burst.add(op_make(OpKind::Purge, 0));
        for (std::uint32_t i = first; i < first + blocks; ++i) refill(i, live[i] != 0 ? live[i] : draw_size());
    }

    void add_shrink(std::uint32_t index, std::uint32_t beside)
    {
        const std::size_t before = live[index], after = 1 + rng.below(before);
        burst.add(op_make(OpKind::Realloc, first_slot + index, after));
        live[index] = after;
        if (live[beside] != 0) burst.add(op_make(OpKind::Free, first_slot + beside));
        refill(beside, std::max<std::size_t>(1, before - after));
    }

    bool next(Op &op)
    {
        while (!burst.take(op)) draw();
        return true;
    }

    void draw()
    {
        const auto index = static_cast<std::uint32_t>(rng.below(live.size()));
        const std::uint32_t slot = first_slot + index;
        if ((switches & Purge) != 0 && rng.one_in(purge_one_in)) {
            add_purge();
        } else if (live[index] == 0) {
            const std::size_t size_bytes = draw_size();
            burst.add((switches & Plain) != 0 && rng.one_in(2) ? make_calloc(slot, size_bytes)
                                                               : op_make(OpKind::Malloc, slot, size_bytes));
            live[index] = size_bytes;
        } else if ((switches & Shrink) != 0 && rng.one_in(4)) {
            add_shrink(index, static_cast<std::uint32_t>((index + 1) % live.size()));
        } else {
            burst.add(draw_free(rng, slot, check));
            const std::size_t size_bytes = live[index];
            live[index] = 0;
            if ((switches & Reuse) != 0 && rng.one_in(2)) refill(index, size_bytes);
        }
    }
};

} // namespace

Plan calloc_plan(const Setup &setup)
{
    const Options &o = setup.options;
    const std::uint64_t slots = std::max<std::uint64_t>(o.working_set, 4);
    const std::uint64_t purge_one_in = scaled(setup, 2000, 20, 50);
    Plan plan = plan_of_seats(setup, slots, [&](std::uint32_t seat, std::uint32_t first_slot) {
        Rng rng = setup.rng(seat);
        const std::uint32_t all = Reuse | Shrink | Purge | Plain;
        // A checked run needs a step that calls calloc; otherwise it would be another scenario.
        const std::uint32_t switches = o.check ? draw_switches(rng, 4) | Plain : all;
        return CallocReuse{
            .rng = rng,
            .check = o.check,
            .switches = switches,
            .min_bytes = o.min_size_bytes,
            .max_bytes = o.max_size_bytes,
            .purge_one_in = purge_one_in,
            .first_slot = first_slot,
            .live = Mapped<std::uint64_t>(slots),
        };
    });
    // A block of the largest size is rare, but while it lives it decides how much memory is live.
    plan.swing_bytes = 2 * setup.seats * o.max_size_bytes;
    if (o.check) plan.claims = {rule::kCallocZero};
    return plan;
}

} // namespace stress

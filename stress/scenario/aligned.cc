// Aligned: aligned_alloc, posix_memalign and memalign with every power of two from 8 bytes to 2 MiB, with small sizes,
// sizes equal to the alignment, one byte below and above it, and multiples of it. The blocks are freed by plain and by
// sized free, and reallocated, which may lose the alignment but nothing else.
//
// Finds alignments that hold only for some sizes (size == alignment: a block as large as its class but not aligned to
// it), pages before an aligned block that are lost or handed out, frees that do not find the start of the block, and a
// realloc that trusts the size of the class instead of the block's. Seen in mimalloc (#700, #602, #603), gperftools
// (#467, #909, #1096) and snmalloc (#597, #671).
//
// Each seat keeps few blocks of more than a page of alignment: they cost memory in every malloc.
#include "engine/judge/failure.h"
#include "engine/base/mapped.h"
#include "scenario/draws.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr std::uint64_t kSmallLog2Max = 12, kLog2Min = 3, kLog2Max = 21;
constexpr OpKind kKinds[] = {OpKind::AlignedAlloc, OpKind::PosixMemalign, OpKind::Memalign};

struct Aligned {
    Rng rng;
    bool check, strict;
    std::uint32_t kinds;  // which of kKinds are on, one bit each
    std::uint32_t realloc_percent;
    std::size_t max_bytes;
    std::uint32_t first_slot, wide_slots;  // the first wide_slots have alignments above a page
    Mapped<unsigned char> live;

    std::size_t draw_size(std::size_t align_bytes)
    {
        // Above this, sizes stay near the alignment; otherwise a few blocks would decide how much memory is live.
        constexpr std::size_t multiples_max = 64 << 10;
        const std::uint64_t choice = rng.below(6);
        if (align_bytes > multiples_max && choice >= 3) return rng.between(1, align_bytes);
        switch (choice) {
        case 0: return align_bytes;
        case 1: return align_bytes - 1;
        case 2: return align_bytes + 1;
        case 3: return align_bytes * rng.between(2, 4);
        case 4: return rng.between(1, 64);
        default: return rng.between(1, 2 * align_bytes);
        }
    }

    // As in mix.cc: aligned_alloc gets a multiple, as C11 demands. mimalloc 2.0.9 misaligns sizes of 256 and above that
    // are the alignment times a power of two, so only strict runs ask for those.
    std::size_t settle(OpKind kind, std::size_t size_bytes, std::size_t align_bytes) const
    {
        const bool avoid = !strict && align_bytes >= 256;
        if (kind != OpKind::AlignedAlloc) return avoid && size_bytes % align_bytes == 0 ? size_bytes + 8 : size_bytes;
        const std::size_t times = (size_bytes + align_bytes - 1) / align_bytes;
        return (!avoid ? times : times < 3 ? 3 : times | 1) * align_bytes;
    }

    Op allocate(std::uint32_t slot, bool wide)
    {
        const std::uint64_t log2 =
            wide ? rng.between(kSmallLog2Max + 1, kLog2Max) : rng.between(kLog2Min, kSmallLog2Max);
        const std::size_t align_bytes = std::size_t{1} << log2;
        std::uint64_t kind = rng.below(3);
        while ((kinds >> kind & 1) == 0) kind = (kind + 1) % 3;
        const std::size_t size_bytes = settle(kKinds[kind], draw_size(align_bytes), align_bytes);
        const std::size_t fitting = size_bytes <= max_bytes || kKinds[kind] == OpKind::AlignedAlloc ? size_bytes : 24;
        return op_make(kKinds[kind], slot, fitting, static_cast<std::uint8_t>(log2));
    }

    bool next(Op &op)
    {
        const auto index = static_cast<std::uint32_t>(rng.below(live.size()));
        const std::uint32_t slot = first_slot + index;
        const bool wide = index < wide_slots;
        if (live[index] == 0) {
            op = allocate(slot, wide);
            live[index] = 1;
        } else if (rng.below(100) < realloc_percent) {
            op = op_make(OpKind::Realloc, slot, draw_size(std::size_t{1} << rng.between(kLog2Min, wide ? 16 : 12)));
        } else if (check && rng.one_in(16)) {
            op = op_make(OpKind::UsableSize, slot);
        } else {
            op = op_make(check && rng.one_in(4) ? OpKind::FreeAlignedSized : OpKind::Free, slot);
            live[index] = 0;
        }
        return true;
    }
};

} // namespace

Plan aligned_plan(const Setup &setup)
{
    const Options &o = setup.options;
    Plan plan = plan_of_seats(setup, o.working_set, [&](std::uint32_t seat, std::uint32_t first_slot) {
        Rng rng = setup.rng(seat);
        const std::uint32_t kinds = o.check ? draw_switches(rng, 3) : 7;
        const std::uint32_t realloc_percent =
            !o.check || rng.one_in(4) ? 0 : 5 + static_cast<std::uint32_t>(rng.below(40));
        const auto wide_slots = static_cast<std::uint32_t>((o.working_set + 31) / 32);
        return Aligned{
            .rng = rng,
            .check = o.check,
            .strict = o.strict,
            .kinds = kinds,
            .realloc_percent = realloc_percent,
            .max_bytes = o.max_size_bytes,
            .first_slot = first_slot,
            .wide_slots = wide_slots,
            .live = Mapped<unsigned char>(o.working_set),
        };
    });
    plan.swing_bytes = setup.seats * ((o.working_set + 31) / 32) * (std::uint64_t{1} << 20);
    if (o.check) plan.claims = {rule::kAlignment};
    return plan;
}

} // namespace stress

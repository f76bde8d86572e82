#include "scenario/draws.h"

#include <algorithm>

namespace stress {
namespace {

std::size_t log2_floor(std::size_t value)
{
    return 63 - static_cast<std::size_t>(__builtin_clzll(value | 1));
}

}  // namespace

std::size_t draw_log(Rng &rng, std::size_t min_bytes, std::size_t max_bytes)
{
    const std::size_t base = std::size_t{1} << rng.between(log2_floor(min_bytes), log2_floor(max_bytes));
    return std::clamp(base + rng.below(base), min_bytes, max_bytes);
}

std::size_t draw_border(Rng &rng, std::size_t min_bytes, std::size_t max_bytes)
{
    std::size_t size_bytes = draw_log(rng, min_bytes, max_bytes);
    // Borders of size classes: every 16 bytes up to 1 KiB, then eight for each doubling; then pages.
    const std::size_t eighth = std::max(std::size_t{16}, std::size_t{1} << log2_floor(size_bytes) >> 3);
    switch (rng.below(3)) {
    case 0: size_bytes = (size_bytes + eighth - 1) / eighth * eighth; break;
    case 1: size_bytes = std::size_t{1} << log2_floor(size_bytes); break;
    default:
        if (size_bytes >= kPageBytes) size_bytes = size_bytes / kPageBytes * kPageBytes;
        break;
    }
    return std::clamp(size_bytes + rng.below(3) - 1, min_bytes, max_bytes);
}

std::size_t Sizes::draw(Rng &rng) const
{
    switch (how) {
    case How::Log: return draw_log(rng, min_bytes, max_bytes);
    case How::Borders: return draw_border(rng, min_bytes, max_bytes);
    case How::Few: return few[rng.below(few_count)];
    default: return rng.between(min_bytes, max_bytes);
    }
}

Sizes sizes_uniform(std::size_t min_bytes, std::size_t max_bytes)
{
    return {Sizes::How::Uniform, min_bytes, max_bytes, {}, 0};
}

Sizes sizes_swarm(Rng &rng, std::size_t min_bytes, std::size_t max_bytes)
{
    Sizes sizes = sizes_uniform(min_bytes, max_bytes);
    sizes.how = static_cast<Sizes::How>(rng.below(4));
    sizes.few_count = 1 + static_cast<std::uint32_t>(rng.below(Sizes::kFew));
    for (std::size_t &size_bytes : sizes.few) size_bytes = draw_border(rng, min_bytes, max_bytes);
    return sizes;
}

Mix mix_few_others(Rng &rng, bool strict)
{
    Mix mix{{60, 0, 0, 0, 0}, static_cast<std::uint32_t>(rng.below(4)), strict};
    for (std::size_t i = 1; i < Mix::kKinds; ++i) mix.kind_weights[i] = static_cast<std::uint32_t>(rng.below(3));
    return mix;
}

Op draw_free(Rng &rng, std::uint32_t slot, bool check)
{
    if (!check || !rng.one_in(16)) return op_make(OpKind::Free, slot);
    return op_make(rng.one_in(2) ? OpKind::FreeSized : OpKind::FreeAlignedSized, slot);
}

std::uint32_t draw_switches(Rng &rng, std::uint32_t how_many)
{
    const std::uint32_t all = (1U << how_many) - 1;
    // The "or" of two draws: three of four switches are on.
    const auto on = static_cast<std::uint32_t>(rng.next() | rng.next()) & all;
    return on != 0 ? on : all;
}

std::uint64_t ops_per_seat(const Setup &setup)
{
    return setup.options.ops == 0 ? std::uint64_t{1} << 53 : setup.options.ops / setup.seats + 1;
}

std::uint64_t scaled(const Setup &setup, std::uint64_t wanted, std::uint64_t times, std::uint64_t least)
{
    return std::min(wanted, std::max(least, ops_per_seat(setup) / times));
}

std::vector<SeatMix> swarm_of_seats(const Setup &setup)
{
    const Options &o = setup.options;
    std::vector<SeatMix> seats;
    std::vector<Mix> mixes;
    for (std::uint32_t seat = 0; seat < setup.seats; ++seat) {
        seats.push_back({setup.rng(seat), {}});
        mixes.push_back(o.check ? mix_swarm(seats.back().rng, o.strict) : mix_malloc_only());
    }
    Rng rng = setup.rng(0, 1);
    if (o.check) mix_complete(mixes, rng);
    for (std::size_t seat = 0; seat < seats.size(); ++seat) seats[seat].mix = mixes[seat];
    return seats;
}

}  // namespace stress

#include "engine/op/mix.h"

#include <algorithm>

namespace stress {
namespace {

constexpr OpKind kKinds[Mix::kKinds] = {OpKind::Malloc, OpKind::Calloc, OpKind::AlignedAlloc, OpKind::PosixMemalign,
                                        OpKind::Memalign};

OpKind draw_kind(const Mix &mix, Rng &rng)
{
    std::uint64_t sum = 0;
    for (std::uint32_t weight : mix.kind_weights) sum += weight;
    std::uint64_t left = rng.below(sum);
    for (std::size_t i = 0; i < Mix::kKinds; ++i) {
        if (left < mix.kind_weights[i]) return kKinds[i];
        left -= mix.kind_weights[i];
    }
    return OpKind::Malloc;
}

// Mostly 16 to 256, sometimes up to a page. Large alignments of small blocks waste memory in every malloc, and would
// exceed the memory bound.
std::uint8_t draw_align_log2(Rng &rng)
{
    return static_cast<std::uint8_t>(4 + (rng.one_in(32) ? rng.below(9) : rng.below(5)));
}

// The size to ask for with this alignment. aligned_alloc gets a multiple of it, as C11 demands; posix_memalign takes
// any size.
//
// mimalloc 2.0.9 misaligns blocks such as memalign(256, 256) and memalign(256, 1024): 256 and above, times a power of
// two. A default run on any malloc must not stop at this known defect, so only strict runs ask for such sizes. The rule
// itself is the same in both.
std::size_t aligned_size(OpKind kind, std::size_t size_bytes, std::size_t align_bytes, bool strict, Rng &rng)
{
    const bool avoid = !strict && align_bytes >= 256;
    const std::size_t times = (size_bytes + align_bytes - 1) / align_bytes;
    if (kind == OpKind::AlignedAlloc) {
        if (!avoid) return times * align_bytes;
        return (times < 3 ? 3 : times | 1) * align_bytes;
    }
    if (strict && rng.one_in(2)) return times * align_bytes;
    return avoid && size_bytes % align_bytes == 0 ? size_bytes + 8 : size_bytes;
}

} // namespace

Mix mix_swarm(Rng &rng, bool strict)
{
    constexpr std::uint32_t weight_max[Mix::kKinds] = {8, 4, 2, 2, 2};
    Mix mix{};
    mix.kind_weights[0] = 4 + static_cast<std::uint32_t>(rng.below(weight_max[0]));
    for (std::size_t i = 1; i < Mix::kKinds; ++i)
        mix.kind_weights[i] = rng.one_in(4) ? 0 : 1 + static_cast<std::uint32_t>(rng.below(weight_max[i]));
    mix.realloc_percent = rng.one_in(4) ? 0 : 5 + static_cast<std::uint32_t>(rng.below(40));
    mix.strict = strict;
    return mix;
}

void mix_complete(std::span<Mix> mixes, Rng &rng)
{
    const auto missing = [&](auto &&has) { return std::none_of(mixes.begin(), mixes.end(), has); };
    for (std::size_t kind = 1; kind < Mix::kKinds; ++kind)
        if (missing([&](const Mix &mix) { return mix.kind_weights[kind] != 0; }))
            mixes[rng.below(mixes.size())].kind_weights[kind] = 1;
    if (missing([](const Mix &mix) { return mix.realloc_percent != 0; }))
        mixes[rng.below(mixes.size())].realloc_percent = 5 + static_cast<std::uint32_t>(rng.below(40));
}

Mix mix_malloc_only()
{
    return {{1, 0, 0, 0, 0}, 0, false};
}

Op mix_allocate(const Mix &mix, Rng &rng, std::uint32_t slot, std::size_t min_bytes, std::size_t max_bytes)
{
    const std::size_t size_bytes = rng.between(min_bytes, max_bytes);
    const OpKind kind = draw_kind(mix, rng);
    if (kind == OpKind::Malloc) return op_make(kind, slot, size_bytes);
    if (kind == OpKind::Calloc) return op_make(kind, slot, size_bytes, 1);

    const std::uint8_t align_log2 = draw_align_log2(rng);
    return op_make(kind, slot, aligned_size(kind, size_bytes, std::size_t{1} << align_log2, mix.strict, rng),
                   align_log2);
}

Op mix_visit_live(const Mix &mix, Rng &rng, std::uint32_t slot, std::size_t min_bytes, std::size_t max_bytes)
{
    if (mix.realloc_percent != 0 && rng.below(100) < mix.realloc_percent)
        return op_make(OpKind::Realloc, slot, rng.between(min_bytes, max_bytes));
    return op_make(OpKind::Free, slot);
}

} // namespace stress

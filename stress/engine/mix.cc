#include "engine/mix.h"

namespace stress {
namespace {

Kind draw_kind(const Mix &mix, Rng &rng)
{
    std::uint64_t sum = 0;
    for (std::uint32_t weight : mix.kind_weights) sum += weight;
    std::uint64_t left = rng.below(sum);
    for (std::size_t i = 0; i < kKindCount; ++i) {
        if (left < mix.kind_weights[i]) return static_cast<Kind>(i);
        left -= mix.kind_weights[i];
    }
    return Kind::Malloc;
}

// Mostly 16 to 256, now and then up to a page: large alignments for small blocks waste memory in every
// malloc, and would drown the memory bound.
std::size_t draw_align(Rng &rng)
{
    return std::size_t{16} << (rng.one_in(32) ? rng.below(9) : rng.below(5));
}

// The size to ask for with this alignment. aligned_alloc gets a multiple, by the letter of C11;
// posix_memalign takes any size.
//
// mimalloc 2.0.9 misaligns blocks such as memalign(256, 256) and memalign(256, 1024): 256 and above, times
// a power of two. That is a known defect, which a default run on any malloc must not stop at; so only
// strict runs ask for such sizes. The rule itself is the same in both.
std::size_t aligned_size(Kind kind, std::size_t size_bytes, std::size_t align_bytes, bool strict, Rng &rng)
{
    const bool avoid = !strict && align_bytes >= 256;
    const std::size_t times = (size_bytes + align_bytes - 1) / align_bytes;
    if (kind == Kind::AlignedAlloc) {
        if (!avoid) return times * align_bytes;
        return (times < 3 ? 3 : times | 1) * align_bytes;
    }
    if (strict && rng.one_in(2)) return times * align_bytes;
    return avoid && size_bytes % align_bytes == 0 ? size_bytes + 8 : size_bytes;
}

}  // namespace

Mix mix_swarm(Rng &rng, bool strict)
{
    constexpr std::uint32_t weight_max[kKindCount] = {8, 4, 2, 2};
    Mix mix{};
    mix.kind_weights[0] = 4 + static_cast<std::uint32_t>(rng.below(weight_max[0]));
    for (std::size_t i = 1; i < kKindCount; ++i)
        mix.kind_weights[i] = rng.one_in(4) ? 0 : 1 + static_cast<std::uint32_t>(rng.below(weight_max[i]));
    mix.realloc_percent = rng.one_in(4) ? 0 : 5 + static_cast<std::uint32_t>(rng.below(40));
    mix.strict = strict;
    return mix;
}

Mix mix_mostly_malloc(bool strict)
{
    return {{61, 1, 1, 1}, 2, strict};
}

Request mix_draw(const Mix &mix, Rng &rng, std::size_t min_bytes, std::size_t max_bytes)
{
    const std::size_t size_bytes = rng.between(min_bytes, max_bytes);
    const Kind kind = draw_kind(mix, rng);
    if (kind == Kind::Malloc || kind == Kind::Calloc) return {kind, size_bytes, 0};

    const std::size_t align_bytes = draw_align(rng);
    return {kind, aligned_size(kind, size_bytes, align_bytes, mix.strict, rng), align_bytes};
}

}  // namespace stress

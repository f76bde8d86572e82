// The parts of a block whose content is checked: the whole block, or a sample of a large one. See content.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/base/rng.h"
#include "engine/op/content.h"

namespace stress {

inline constexpr std::size_t kContentEdgeBytes = kContentFullBytes / 16;
inline constexpr std::size_t kContentPageBytes = 4096;
inline constexpr std::uint64_t kContentPages = (kContentFullBytes + (1 << 15)) >> 16;
inline constexpr std::uint64_t kContentBorders = kContentFullBytes >> 16 << 2;

// Calls visit(from, to) for each part until one returns false; returns whether none did. `from` is a multiple of 8, and
// so is `to` except at the end of the block. Parts may overlap, since content depends only on the offset.
template <typename Visit> inline bool content_parts(std::size_t size_bytes, std::uint64_t generation, Visit visit)
{
    if (size_bytes <= kContentFullBytes) [[likely]]
        return visit(std::size_t{0}, size_bytes);

    const std::size_t tail = (size_bytes - kContentEdgeBytes) & ~(kContentPageBytes - 1);
    if (!visit(std::size_t{0}, kContentEdgeBytes) || !visit(tail, size_bytes)) return false;

    if constexpr (kContentPages == 0) return true;
    const std::size_t first_page = std::max<std::size_t>(kContentEdgeBytes / kContentPageBytes, 1);
    const std::size_t pages = tail / kContentPageBytes - first_page;
    std::uint64_t state = generation ^ 0x70a675ULL;
    for (std::uint64_t i = 0; i < kContentPages; ++i) {
        const std::size_t page = first_page + static_cast<std::size_t>(splitmix_next(state) % pages);
        if (!visit(page * kContentPageBytes, (page + 1) * kContentPageBytes)) return false;
    }
    if constexpr (kContentBorders == 0) return true;
    // Spread evenly, starting at a place that the generation picks.
    const std::uint64_t borders = std::min<std::uint64_t>(kContentBorders, pages);
    const std::size_t stride = pages / borders, phase = static_cast<std::size_t>(splitmix_next(state) % stride);
    for (std::uint64_t i = 0; i < borders; ++i) {
        const std::size_t border = (first_page + phase + i * stride) * kContentPageBytes;
        if (!visit(border - 8, border + 8)) return false;
    }
    return true;
}

} // namespace stress

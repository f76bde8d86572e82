// What the harness writes into a block, and how it reads it back.
//
// Word i of a block holds mix(generation) + i * step, so content that is stale, shifted or from another block differs
// in nearly every byte. The loops are plain sums and xors, built for the widest vectors that the machine has.
//
// A block of more than kContentFullBytes is checked in parts: a sixteenth of that size at its start and at its end,
// sixteen pages that its generation picks, and one word on either side of 64 page borders spread over the rest. So less
// than a MiB of a block of many GiB is touched, and corruption at its ends, at page borders or over long stretches is
// still found.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/build.h"

namespace stress {

inline constexpr std::size_t kNoDifference = ~static_cast<std::size_t>(0);
inline constexpr std::size_t kContentFullBytes = std::size_t{1} << STRESS_CONTENT_FULL_LOG2;

// All of these take the size of the whole block, which decides which parts are checked.
void content_fill(void *start, std::size_t size_bytes, std::uint64_t generation);

// Whether the block's first `kept_bytes` still hold the content of this generation, in the parts that are checked.
bool content_holds(const void *start, std::size_t size_bytes, std::size_t kept_bytes, std::uint64_t generation);

// Offset of the first wrong byte below `kept_bytes`, or kNoDifference. Slow; for reports.
std::size_t content_first_difference(const void *start, std::size_t size_bytes, std::size_t kept_bytes,
                                     std::uint64_t generation);

// The byte that this generation's content has at an offset.
unsigned char content_byte(std::uint64_t generation, std::size_t offset_bytes);

// Offset of the first byte that is not zero, or kNoDifference. A large block is checked in the parts that this
// generation picks.
std::size_t content_first_nonzero(const void *start, std::size_t size_bytes, std::uint64_t generation);

} // namespace stress

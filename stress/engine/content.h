// What the harness writes into a block, and how it reads it back.
//
// Word i of a block holds mix(generation) + i * step, so content that is stale, shifted or from
// another block differs in nearly every byte. The loops are plain sums and xors: they vectorise.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stress {

inline constexpr std::size_t kNoDifference = ~static_cast<std::size_t>(0);

void content_fill(void *start, std::size_t size_bytes, std::uint64_t generation);

// Whether bytes [from_bytes, to_bytes) of the block still hold the content of this generation.
// from_bytes may lie anywhere; the words it cuts are compared by the byte.
bool content_holds(const void *start, std::size_t from_bytes, std::size_t to_bytes, std::uint64_t generation);

// Offset of the first byte in [from_bytes, to_bytes) that differs, or kNoDifference. Slow; for reports.
std::size_t content_first_difference(const void *start, std::size_t from_bytes, std::size_t to_bytes,
                                     std::uint64_t generation);

// The byte that the content of this generation has at an offset.
unsigned char content_byte(std::uint64_t generation, std::size_t offset_bytes);

// Offset of the first byte that is not zero, or kNoDifference.
std::size_t content_first_nonzero(const void *start, std::size_t size_bytes);

}  // namespace stress

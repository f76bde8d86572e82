// The record of one live block. It belongs to the harness, lies outside the subject's memory, and is copied along with
// the block when another thread takes the block over.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stress {

struct Block {
    void *start;               // nullptr: no block
    std::size_t size_bytes;    // as asked for
    std::uint64_t generation;  // who allocated it and when; decides the content
    std::size_t align_bytes;   // as asked for; 0 for plain malloc
};

// A generation encodes the seat that allocated and the index of the op. No two blocks share one.
inline constexpr int kGenerationOpBits = 44;

inline std::uint64_t generation_make(std::uint32_t seat, std::uint64_t op_index)
{
    return (static_cast<std::uint64_t>(seat) << kGenerationOpBits) | (op_index & ((1ULL << kGenerationOpBits) - 1));
}

inline std::uint32_t generation_seat(std::uint64_t generation)
{
    return static_cast<std::uint32_t>(generation >> kGenerationOpBits);
}

inline std::uint64_t generation_op(std::uint64_t generation)
{
    return generation & ((1ULL << kGenerationOpBits) - 1);
}

}  // namespace stress

// Sizes that no malloc can provide: larger than any address space, and sizes that wrap when something is added.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stress::conform {

inline constexpr std::size_t kImpossible[] = {
    std::size_t{1} << 60, PTRDIFF_MAX - 65536ul, PTRDIFF_MAX - 1ul,      PTRDIFF_MAX,      PTRDIFF_MAX + 1ul,
    PTRDIFF_MAX + 2ul,    PTRDIFF_MAX + 4096ul,  SIZE_MAX - (1ul << 21), SIZE_MAX - 65536, SIZE_MAX - 8192,
    SIZE_MAX - 4097,      SIZE_MAX - 4096,       SIZE_MAX - 4095,        SIZE_MAX - 255,   SIZE_MAX - 64,
    SIZE_MAX - 63,        SIZE_MAX - 32,         SIZE_MAX - 17,          SIZE_MAX - 16,    SIZE_MAX - 15,
    SIZE_MAX - 8,         SIZE_MAX - 7,          SIZE_MAX - 1,           SIZE_MAX};

}  // namespace stress::conform

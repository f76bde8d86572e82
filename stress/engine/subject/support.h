// Which optional entry points belong to the subject. A call of one that the library does not define would reach libc's
// malloc instead, which must never get the subject's blocks.
#pragma once

#include <cstddef>

namespace stress {

struct Support {
    bool usable_size = true;
    bool aligned_alloc = true;
    bool posix_memalign = true;
    bool memalign = true;
    bool reallocarray = true;
    bool malloc_trim = true;
    // Entry points that libc itself may lack; nullptr if the subject has none.
    void (*free_sized)(void *block, std::size_t size_bytes) noexcept = nullptr;
    void (*free_aligned_sized)(void *block, std::size_t align_bytes, std::size_t size_bytes) noexcept = nullptr;
};

}  // namespace stress

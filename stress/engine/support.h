// Which optional entry points belong to the subject. One that a library does not define would reach
// libc's malloc instead, and must not be handed the subject's blocks.
#pragma once

namespace stress {

struct Support {
    bool usable_size = true;
    bool aligned_alloc = true;
    bool posix_memalign = true;
};

}  // namespace stress

// Sizes at which the allocator behaves differently from one byte below: the edge of each size class, of a page run, of
// mapped blocks, and of what can be requested at all. They are computed from the constants of alloc/base, so that they
// follow the allocator.
#pragma once

#include <cstddef>
#include <vector>

namespace fuzz {

// Each edge with its neighbours, ascending, without duplicates; SIZE_MAX is the last.
const std::vector<std::size_t> &boundary_sizes();

}  // namespace fuzz

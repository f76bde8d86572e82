// Sizes at which the allocator does something else than one byte below: the edge of each size class, of a page run, of
// what is mapped, and of what can be asked for at all. From the constants of alloc/base, so that they follow it.
#pragma once

#include <cstddef>
#include <vector>

namespace fuzz {

// Each edge with its neighbours, ascending, none twice; SIZE_MAX is the last.
const std::vector<std::size_t> &boundary_sizes();

}  // namespace fuzz

#include "fuzz/boundary_sizes.h"

#include <algorithm>
#include <cstdint>

extern "C" {
#include "base/sizeclass.h"
}

namespace fuzz {
namespace {

std::vector<std::size_t> all()
{
    std::vector<std::size_t> edges{0, PTRDIFF_MAX, SIZE_MAX, SIZE_MAX - PAGE_BYTES, SUPERSLAB_BYTES, GUARD_BYTES_MAX};
    for (std::uint32_t c = 1; c < CLASS_COUNT; ++c) edges.push_back(sizeclass_bytes(c));
    for (std::size_t pages = 1; pages <= RUN_PAGES_MAX; ++pages) edges.push_back(pages * PAGE_BYTES);
    // malloc's own edges: the linear classes, the small classes, the runs. The frames of the validate build shift them.
    for (int frame : {16, 32, 48, 64})
        for (int edge : {SMALL_LINEAR_BYTES_MAX, SMALL_BYTES_MAX, RUN_BYTES_MAX})
            edges.push_back(static_cast<std::size_t>(edge - frame));
    std::vector<std::size_t> sizes;
    for (const std::size_t edge : edges) {
        if (edge > 0) sizes.push_back(edge - 1);
        sizes.push_back(edge);
        if (edge < SIZE_MAX) sizes.push_back(edge + 1);
    }
    // An op stores a size as a signed number of 48 bits.
    std::erase_if(sizes,
                  [](std::size_t size) { return size >= std::size_t{1} << 47 && size < SIZE_MAX - (SIZE_MAX >> 17); });
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

} // namespace

const std::vector<std::size_t> &boundary_sizes()
{
    static const std::vector<std::size_t> sizes = all();
    return sizes;
}

} // namespace fuzz

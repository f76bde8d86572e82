// Instead of rows.cc where hakmem-stress has a sanitizer or an emulator under it, and no loop is worth timing.
#include "bench/row.h"

namespace bench {

std::span<const Row> rows()
{
    return {};
}

const Row *row_find(std::string_view)
{
    return nullptr;
}

Plan plan_of(const Row &, std::uint32_t, std::uint64_t, std::uint64_t)
{
    return {};
}

} // namespace bench

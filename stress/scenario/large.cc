// Large: churn of blocks of 32 KiB to 2 MiB, which are page runs, not slabs. Finds runs that overlap after a split or a
// merge, growth in place over a neighbour, runs that are returned while part of them is live, and fragmentation that
// never heals.
#include "scenario/churn.h"
#include "scenario/scenarios.h"

namespace stress {

Plan large_plan(const Setup &setup)
{
    return churn_plan(setup, std::uint64_t{160} << 20);
}

} // namespace stress

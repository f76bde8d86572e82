// Large: churn of 32 KiB to 2 MiB, page runs rather than slabs. Finds runs that overlap after a split or a merge,
// growth in place over a neighbour, runs that are given back while part of them is live, and fragmentation that
// never mends.
#include "scenario/churn.h"
#include "scenario/scenarios.h"

namespace stress {

Plan large_plan(const Setup &setup)
{
    return churn_plan(setup, std::uint64_t{160} << 20);
}

}  // namespace stress

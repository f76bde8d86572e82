// Mid: churn of blocks of 1 to 8 KiB, where a slab holds few blocks and the classes are wide. Finds wrong rounding in
// the classes above the linear ones, slabs whose last block extends past the end, credits and lists that hold too much
// (growth), and page counts that are off by one.
#include "scenario/churn.h"
#include "scenario/scenarios.h"

namespace stress {

Plan mid_plan(const Setup &setup)
{
    return churn_plan(setup, std::uint64_t{64} << 20);
}

}  // namespace stress

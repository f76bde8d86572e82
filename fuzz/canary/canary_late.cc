// A canary, a target that is broken on purpose, for the test of ci/fuzz: one that no input shows alone, since it takes the 300 runs
// before it in the same process.
#include <cstddef>
#include <cstdint>

#include "fuzz/find.h"

namespace {

int runs;

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *, std::size_t)
{
    if (++runs == 300) fuzz::find("canary_late", "after so many runs");
    return 0;
}

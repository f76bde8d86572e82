// A canary, broken on purpose for the test of ci/fuzz. No input shows the bug alone: it needs 300 earlier runs in the
// same process.
#include <cstddef>
#include <cstdint>

#include "fuzz/find.h"

namespace {

int runs;

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *, std::size_t)
{
    if (++runs == 300) fuzz::find("canary_late", "after 300 runs");
    return 0;
}

// A canary that is not broken, for the test of ci/fuzz. It has a few branches to cover.
#include <cstddef>
#include <cstdint>

namespace {

volatile int seen;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    if (size > 2 && data[0] == 'a') seen = data[1] == 'b' ? 2 : 1;
    if (size > 3 && data[2] > 100) seen = data[3] > 100 ? 4 : 3;
    return 0;
}

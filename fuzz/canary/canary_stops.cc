// A canary, broken on purpose for the test of ci/fuzz: a realloc stops at 3 or later, and meanwhile another thread
// frees the same block.
#include <algorithm>
#include <cstdint>

#include "fuzz/find.h"
#include "fuzz/op_input.h"

namespace {

volatile int stopped, met;  // each step to the bug is a separate branch, as in an allocator

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const fuzz::OpInput input = fuzz::op_input_decode({data, size}, fuzz::op_shape);
    for (std::size_t i = 0; i < input.ops.size(); ++i) {
        const fuzz::Op &op = input.ops[i];
        const fuzz::OpStop stop = fuzz::op_stop(op);
        if (op.kind != fuzz::OpKind::Realloc || stop.point < 3) continue;
        stopped = stopped + 1;
        const std::size_t end = std::min(input.ops.size(), i + 1 + stop.ops);
        for (std::size_t j = i + 1; j < end; ++j) {
            const fuzz::Op &other = input.ops[j];
            if (other.thread == op.thread || other.slot != op.slot) continue;
            met = met + 1;
            if (other.kind == fuzz::OpKind::Free) fuzz::find("canary_stop", "in block b" + std::to_string(op.slot));
        }
    }
    return 0;
}

// A canary, broken on purpose for the test of ci/fuzz: a malloc of 512 bytes, and later a realloc of the same block to
// 1025 bytes, with any number of ops around them.
#include <cstdint>

#include "engine/op/op.h"
#include "fuzz/find.h"
#include "fuzz/op_input.h"

namespace {

volatile int blocks_of_512, resized; // each step to the bug is a separate branch, as in an allocator

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const fuzz::OpInput input = fuzz::op_input_decode({data, size}, fuzz::op_shape);
    bool is_512[fuzz::kOpInputSlots] = {};
    for (const fuzz::Op &op : input.ops) {
        if (op.kind == fuzz::OpKind::Malloc && stress::op_size(op) == 512) {
            is_512[op.slot] = true;
            blocks_of_512 = blocks_of_512 + 1;
        }
        if (op.kind != fuzz::OpKind::Realloc || !is_512[op.slot]) continue;
        resized = resized + 1;
        if (stress::op_size(op) == 1025) fuzz::find("canary_realloc", "in block b" + std::to_string(op.slot));
    }
    return 0;
}

// libFuzzer's hooks, which change its inputs as sequences of operations (op_mutator.h).
#include <cstring>

#include "fuzz/op_mutator.h"

// libFuzzer's own changes of bytes, which use the values that it has seen compared.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t *data, std::size_t size, std::size_t max_size);

namespace {

constexpr std::uint64_t kOneInBytes = 24;  // one change in 24 is libFuzzer's own, which knows what was compared

std::size_t ops_max(std::size_t max_size)
{
    if (max_size < fuzz::kOpInputHeadBytes + sizeof(fuzz::Op)) return 1;
    return std::min((max_size - fuzz::kOpInputHeadBytes) / sizeof(fuzz::Op), fuzz::kOpInputOpsMax);
}

// Leaves the input unchanged if it does not fit: there is no room for an op.
std::size_t write_out(const fuzz::OpInput &input, std::uint8_t *out, std::size_t max_size, std::size_t size_before)
{
    const std::vector<std::uint8_t> bytes = fuzz::op_input_encode(input);
    if (bytes.size() > max_size) return size_before;
    std::memcpy(out, bytes.data(), bytes.size());
    return bytes.size();
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t *data, std::size_t size, std::size_t max_size,
                                               unsigned seed)
{
    stress::Rng rng(seed, 0);
    if (size > 0 && rng.one_in(kOneInBytes)) size = LLVMFuzzerMutate(data, size, max_size);
    fuzz::OpInput input = fuzz::op_input_decode({data, size}, fuzz::op_shape);
    fuzz::mutate(input, fuzz::op_shape, ops_max(max_size), rng);
    return write_out(input, data, max_size, size);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t *first, std::size_t first_size,
                                                 const std::uint8_t *second, std::size_t second_size, std::uint8_t *out,
                                                 std::size_t max_size, unsigned seed)
{
    stress::Rng rng(seed, 1);
    return write_out(fuzz::cross_over(fuzz::op_input_decode({first, first_size}, fuzz::op_shape),
                                      fuzz::op_input_decode({second, second_size}, fuzz::op_shape), fuzz::op_shape,
                                      ops_max(max_size), rng),
                     out, max_size, 0);
}

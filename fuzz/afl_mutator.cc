// The same changes for AFL++, as a library of hooks: AFL_CUSTOM_MUTATOR_LIBRARY. One changer, one thread.
#include "fuzz/op_mutator.h"

namespace {

struct Changer {
    stress::Rng rng;
    std::vector<std::uint8_t> bytes;
};

}  // namespace

extern "C" void *afl_custom_init(void *, unsigned seed)
{
    return new Changer{stress::Rng(seed, 0), {}};
}

// `other` is another entry of the corpus, or null. The result stays until the next call.
extern "C" std::size_t afl_custom_fuzz(void *changer, std::uint8_t *data, std::size_t size, std::uint8_t **out,
                                       std::uint8_t *other, std::size_t other_size, std::size_t max_size)
{
    auto &self = *static_cast<Changer *>(changer);
    const fuzz::OpShape &shape = fuzz::op_shape;
    fuzz::OpInput input = fuzz::op_input_decode({data, size}, shape);
    if (other != nullptr && self.rng.one_in(8))
        input = fuzz::cross_over(input, fuzz::op_input_decode({other, other_size}, shape), shape, fuzz::kOpInputOpsMax,
                                 self.rng);
    fuzz::mutate(input, shape, fuzz::kOpInputOpsMax, self.rng);
    self.bytes = fuzz::op_input_encode(input);
    if (self.bytes.size() > max_size) {
        *out = data;
        return size;
    }
    *out = self.bytes.data();
    return self.bytes.size();
}

extern "C" void afl_custom_deinit(void *changer)
{
    delete static_cast<Changer *>(changer);
}

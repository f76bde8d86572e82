// Sequences of ops on the allocator, judged by the suite's interpreter and oracle: see op_machine.h. The shape that is
// linked in decides between one thread and several threads whose ops stop in the middle.
//
// With HAKMEM_FUZZ_TRACE in the environment, each op is printed before it runs, and each stop when it happens.
#include <cstdint>
#include <cstdlib>

#include "fuzz/find.h"
#include "fuzz/op_input.h"
#include "fuzz/op_machine.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    static fuzz::OpMachine &machine = []() -> fuzz::OpMachine & {
        static fuzz::OpMachine made;
        made.verbose = std::getenv("HAKMEM_FUZZ_TRACE") != nullptr;
        return made;
    }();
    const fuzz::OpInput input = fuzz::op_input_decode({data, size}, fuzz::op_shape);
    const fuzz::MachineResult result = machine.run(input.ops, input.threads);
    if (result.rule != nullptr) fuzz::find(result.rule, result.detail);
    return 0;
}

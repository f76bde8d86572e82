// Every run of a litmus test on the runtime, through the code that the compiler instrumented.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "order/litmus/program.h"
#include "order/model/memory.h"
#include "order/run/search.h"

namespace stress::order {

struct LitmusSeen {
    std::set<std::string> outcomes; // "race": the program's behaviour is undefined
    std::uint64_t executions = 0; // distinct: what was read from which store, and the modification orders
    std::uint64_t runs = 0; // with those that ended because another one had been there
};

LitmusSeen litmus_explore(const LitmusProgram &program, Rules rules, Bounds bounds);

} // namespace stress::order

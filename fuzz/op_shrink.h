// Makes a failing OpInput small by trying. It does what stress::minimise does for a program, but stops stay with their
// ops, and there are no repeats. It does not know how an input is run.
#pragma once

#include <functional>

#include "fuzz/op_input.h"

namespace fuzz {

struct OpShrink {
    std::function<bool(const OpInput &)> fails;  // in the same way as the original
    std::function<bool()> give_up;               // time is over: keep the best so far
};

// `input` must be normal and fail. The result fails too, and none of these steps makes it smaller, unless give_up ended
// the search: fewer ops, fewer threads, simpler kinds, smaller sizes and arguments, fewer stops, and earlier and
// shorter ones.
OpInput op_shrink(OpInput input, const OpShape &shape, const OpShrink &how);

} // namespace fuzz

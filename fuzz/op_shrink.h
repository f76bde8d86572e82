// Makes an OpInput that fails small, by trying: what stress::minimise does for a program, but stops stay with their
// ops and there are no repeats. It knows nothing of how an input is run.
#pragma once

#include <functional>

#include "fuzz/op_input.h"

namespace fuzz {

struct OpShrink {
    std::function<bool(const OpInput &)> fails;  // in the same way as the first
    std::function<bool()> give_up;               // time is over: keep what there is
};

// `input` is normal and fails. What comes back fails too, and none of these steps makes it smaller, unless give_up said
// so: fewer ops, fewer threads, simpler kinds, smaller sizes and arguments, fewer stops, which are earlier and shorter.
OpInput op_shrink(OpInput input, const OpShape &shape, const OpShrink &how);

} // namespace fuzz

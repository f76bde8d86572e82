// OpStop: where the thread of an op stops in the middle of it, and for how long. Stored in the op's `link`, which has
// no other use for ops that one process runs in file order. See op_machine.h.
#pragma once

#include <cstdint>

#include "engine/op/op.h"

namespace fuzz {

struct OpStop {
    std::uint8_t point = 0; // the allocator's atomic access before which it stops, counted from 1; 0: it does not stop
    std::uint8_t ops = 0; // number of ops that begin meanwhile

    friend bool operator==(OpStop, OpStop) = default;
};

inline OpStop op_stop(const stress::Op &op)
{
    return {static_cast<std::uint8_t>(op.link & 0xff), static_cast<std::uint8_t>(op.link >> 8)};
}

// A stop at point 0 is no stop, so it has no ops.
inline void op_set_stop(stress::Op &op, OpStop stop)
{
    op.link = stop.point == 0 ? 0 : static_cast<std::uint64_t>(stop.point | stop.ops << 8) & 0xffff;
}

} // namespace fuzz

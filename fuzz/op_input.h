// OpInput: what the op targets read from a fuzzer's bytes, and how it is written as bytes again. Any bytes decode; none
// are refused.
//
// Format, little-endian:
//
//     0        version, now 1; another value counts as 1
//     1        threads, folded into 1 to OpShape::threads_max
//     2 to 3   reserved: written as 0, ignored when read
//     then     16 bytes an op: kind, argument, thread, slot, the stop's point, its ops, size (6), scale (2), more of
//              the thread, more of the slot; at most kOpInputOpsMax ops; bytes after the last complete op are ignored
//
// A stop says at which point the op's thread stops in the middle of the op, and how many other ops begin meanwhile
// (op_stop.h). Each field is folded from all of its bytes, so that nearly every change of a byte changes an op. The
// scale limits the size, which makes large sizes reachable but rare: three of five random ops have at most 1 KiB.
//
// Law: decode(encode(x)) is x for each x that normalise leaves unchanged, and decode gives only such x. A file of
// version v keeps its meaning for ever: kinds of op are numbered by op_input_kinds(), which only grows at its end, and
// the version says how many kinds existed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/op/op.h"
#include "fuzz/op_stop.h"

namespace fuzz {

using stress::Op;
using stress::OpKind;

inline constexpr std::size_t kOpInputHeadBytes = 4;
inline constexpr std::size_t kOpInputOpsMax = 256;
inline constexpr std::uint32_t kOpInputSlots = 64;
inline constexpr std::uint8_t kOpStopPointMax = 127;
inline constexpr std::uint8_t kOpStopOpsMax = 15;
inline constexpr std::size_t kOpInputFailMax = 63; // FailOs: which call; a run of 256 ops makes few calls

// What inputs of a target can contain.
struct OpShape {
    std::uint8_t threads_max = 1;
    bool stops = false; // whether ops may stop in the middle

    // The longest encoding.
    static constexpr std::size_t bytes_max() { return kOpInputHeadBytes + kOpInputOpsMax * sizeof(Op); }
};
inline constexpr OpShape kShapeOps{1, false};
inline constexpr OpShape kShapeOpsMt{4, true};

// The shape of the target that this is linked into. shape_ops.cc and shape_ops_mt.cc each define it.
extern const OpShape &op_shape;

struct OpInput {
    std::uint8_t threads = 1;
    std::vector<Op> ops; // links are stops
};
bool operator==(const OpInput &a, const OpInput &b);

using Bytes = std::span<const std::uint8_t>;

// The kinds of op, and the number of them in each version from 1 on. Tests have others.
struct OpFormat {
    std::span<const OpKind> kinds;
    std::span<const std::uint8_t> kind_counts;
};
const OpFormat &op_input_format();

OpInput op_input_decode(Bytes bytes, const OpShape &shape, const OpFormat &format = op_input_format());

// Encodes in the newest version. `input` must be normal.
std::vector<std::uint8_t> op_input_encode(const OpInput &input);

// Folds values into range; ops of kinds that inputs do not have become Check, and surplus ops are cut off.
void op_input_normalise(OpInput &input, const OpShape &shape);
Op op_input_normalise(Op op, std::uint8_t threads, const OpShape &shape);

// Whether ops of the kind may stop: only those that the allocator carries out.
bool op_input_stops(OpKind kind, const OpShape &shape);

// The kinds of op that inputs have: those that one process can repeat again and again.
std::span<const OpKind> op_input_kinds();

} // namespace fuzz

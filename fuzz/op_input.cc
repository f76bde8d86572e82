#include "fuzz/op_input.h"

#include <algorithm>
#include <cstring>

namespace fuzz {
namespace {

using stress::op_has_slot;
using stress::op_size;

// Add new kinds at the end, with a new version that counts them. The files in golden/ test this.
constexpr OpKind kKinds[] = {
    OpKind::Malloc,        OpKind::Free,     OpKind::Realloc,      OpKind::Calloc,    OpKind::AlignedAlloc,
    OpKind::PosixMemalign, OpKind::Memalign, OpKind::ReallocArray, OpKind::FreeSized, OpKind::FreeAlignedSized,
    OpKind::UsableSize,    OpKind::Check,    OpKind::Purge,        OpKind::Renew,     OpKind::FailOs,
    OpKind::Sleep,
};
constexpr std::uint8_t kKindCounts[] = {16};  // for version 1, 2, ...
static_assert(kKindCounts[std::size(kKindCounts) - 1] == std::size(kKinds), "a kind was added without a version");

constexpr OpFormat kFormat{kKinds, kKindCounts};

constexpr std::uint8_t kAlignLog2Common = 16; // an argument that is not a logarithm is folded to at most this: 64 KiB

// The limit of a size, for each value of the scale's low byte from `from` on. The limits are not powers of two, so that
// the high bytes of a size matter as well.
struct Scale {
    std::uint8_t from;
    std::uint64_t limit; // of sizes; 0: unchanged, SIZE_MAX - n too
};
constexpr Scale kScales[] = {
    {0, 1024 + 17}, {150, (32 << 10) + 4097}, {215, (2 << 20) + 65537}, {244, (64 << 20) + 65537}, {253, 0},
};

const Scale &scale_of(std::uint8_t low)
{
    const Scale *found = kScales;
    for (const Scale &scale : kScales)
        if (low >= scale.from) found = &scale;
    return *found;
}

struct Raw {
    std::uint8_t kind, arg, thread, slot, stop_point, stop_ops, size[6], scale[2], thread_more, slot_more;
};
static_assert(sizeof(Raw) == sizeof(Op));

std::uint64_t size_from(const Raw &raw)
{
    std::uint64_t size = 0;
    for (std::size_t i = sizeof raw.size; i-- > 0;) size = size << 8 | raw.size[i];
    size = (size ^ raw.scale[1]) & stress::kOpSizeMask;
    const Scale &scale = scale_of(raw.scale[0]);
    return scale.limit == 0 ? size : size % scale.limit;
}

Op op_from(const Raw &raw, OpKind kind, std::uint8_t threads, const OpShape &shape)
{
    Op op{};
    op.kind = kind;
    op.arg = raw.arg;
    if (op_has_align(op.kind) && op.arg > stress::kOpAlignLog2Max)
        op.arg = static_cast<std::uint8_t>(op.arg % (kAlignLog2Common + 1));
    op.thread = static_cast<std::uint16_t>(raw.thread ^ raw.thread_more);
    op.slot = static_cast<std::uint32_t>(raw.slot ^ raw.slot_more);
    op.size48 = size_from(raw) & stress::kOpSizeMask;
    op_set_stop(op, {static_cast<std::uint8_t>(raw.stop_point % (kOpStopPointMax + 1)), raw.stop_ops});
    return op_input_normalise(op, threads, shape);
}

Raw raw_of(const Op &op)
{
    Raw raw{};
    raw.kind = static_cast<std::uint8_t>(std::find(std::begin(kKinds), std::end(kKinds), op.kind) - kKinds);
    raw.arg = op.arg;
    raw.thread = static_cast<std::uint8_t>(op.thread);
    raw.slot = static_cast<std::uint8_t>(op.slot);
    raw.stop_point = op_stop(op).point;
    raw.stop_ops = op_stop(op).ops;
    for (std::size_t i = 0; i < sizeof raw.size; ++i)
        raw.size[i] = static_cast<std::uint8_t>(std::uint64_t{op.size48} >> 8 * i);
    for (const Scale &scale : kScales)
        if (scale.limit == 0 || op.size48 < scale.limit) {
            raw.scale[0] = scale.from;
            break;
        }
    return raw;
}

} // namespace

bool operator==(const OpInput &a, const OpInput &b)
{
    return a.threads == b.threads && a.ops.size() == b.ops.size() &&
           (a.ops.empty() || std::memcmp(a.ops.data(), b.ops.data(), a.ops.size() * sizeof(Op)) == 0);
}

const OpFormat &op_input_format()
{
    return kFormat;
}

std::span<const OpKind> op_input_kinds()
{
    return kKinds;
}

bool op_input_stops(OpKind kind, const OpShape &shape)
{
    return shape.stops && kind != OpKind::Sleep && kind != OpKind::FailOs;
}

Op op_input_normalise(Op op, std::uint8_t threads, const OpShape &shape)
{
    if (std::find(std::begin(kKinds), std::end(kKinds), op.kind) == std::end(kKinds)) op.kind = OpKind::Check;
    OpStop stop = op_stop(op);
    stop.point %= kOpStopPointMax + 1;
    stop.ops %= kOpStopOpsMax + 1;
    op = stress::op_normalise(op); // without a link
    if (stop.ops != 0 && op_input_stops(op.kind, shape)) op_set_stop(op, stop);
    op.thread = static_cast<std::uint16_t>(op.thread % threads);
    op.slot %= kOpInputSlots;
    if (op.kind == OpKind::FailOs) op.size48 = op.size48 % (kOpInputFailMax + 1);
    return op;
}

void op_input_normalise(OpInput &input, const OpShape &shape)
{
    input.threads = static_cast<std::uint8_t>((input.threads + shape.threads_max - 1U) % shape.threads_max + 1);
    if (input.ops.size() > kOpInputOpsMax) input.ops.resize(kOpInputOpsMax);
    for (Op &op : input.ops) op = op_input_normalise(op, input.threads, shape);
}

OpInput op_input_decode(Bytes bytes, const OpShape &shape, const OpFormat &format)
{
    OpInput input;
    if (bytes.size() < kOpInputHeadBytes) return input;
    const std::size_t version = bytes[0] >= 1 && bytes[0] <= format.kind_counts.size() ? bytes[0] : 1;
    const std::size_t kind_count = format.kind_counts[version - 1];
    input.threads = static_cast<std::uint8_t>((bytes[1] + shape.threads_max - 1U) % shape.threads_max + 1);
    bytes = bytes.subspan(kOpInputHeadBytes);
    const std::size_t count = std::min(bytes.size() / sizeof(Op), kOpInputOpsMax);
    input.ops.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        Raw raw;
        std::memcpy(&raw, bytes.data() + i * sizeof raw, sizeof raw);
        input.ops.push_back(op_from(raw, format.kinds[raw.kind % kind_count], input.threads, shape));
    }
    return input;
}

std::vector<std::uint8_t> op_input_encode(const OpInput &input)
{
    std::vector<std::uint8_t> bytes(kOpInputHeadBytes + input.ops.size() * sizeof(Op));
    bytes[0] = static_cast<std::uint8_t>(std::size(kKindCounts));
    bytes[1] = input.threads;
    std::uint8_t *at = bytes.data() + kOpInputHeadBytes;
    for (const Op &op : input.ops) {
        const Raw raw = raw_of(op);
        std::memcpy(at, &raw, sizeof raw);
        at += sizeof raw;
    }
    return bytes;
}

} // namespace fuzz

#include "engine/op/op.h"

namespace stress {
namespace {

enum class Arguments {
    None,
    Size,
    Block,
    BlockSize,
    CountSize,
    AlignSize,
    BlockCountSize,
    Renew,
    Fork,
    Count,
    Fail,
    Repeat
};

constexpr Arguments kArguments[] = {
#define X(name, text, arguments) Arguments::arguments,
    STRESS_OP_KINDS(X)
#undef X
};

// The largest `arg` of a kind.
std::uint8_t arg_limit(OpKind kind)
{
    switch (kArguments[static_cast<std::size_t>(kind)]) {
    case Arguments::AlignSize: return kOpAlignLog2Max;
    case Arguments::CountSize:
    case Arguments::BlockCountSize: return 255;
    case Arguments::Renew: return kRenewHowCount - 1;
    case Arguments::Fork: return 255;
    case Arguments::Fail: return 1;
    case Arguments::Repeat: return 255;
    default: return 0;
    }
}

// The largest size of kinds whose size is not a number of bytes. A test must not wait for hours.
std::size_t size_limit(OpKind kind)
{
    switch (kind) {
    case OpKind::Renew: return 1000;
    case OpKind::Signals: return 1'000'000;
    case OpKind::FailOs: return 1'000'000;
    case OpKind::Sleep: return 1000;
    case OpKind::Idle: return 60'000;
    case OpKind::Heap: return 1'000'000'000;
    case OpKind::Repeat: return 1'000'000;
    case OpKind::GetLine: return 1 << 20;
    case OpKind::Dlopen: return 16;
    case OpKind::Purge:
    case OpKind::FlushAll: return 0;
    case OpKind::Free:
    case OpKind::FreeSized:
    case OpKind::FreeAlignedSized:
    case OpKind::UsableSize:
    case OpKind::Check: return 0;
    default: return SIZE_MAX;
    }
}

}  // namespace

std::size_t op_size_max(OpKind kind)
{
    return size_limit(kind);
}

// Computes op_has_slot from the list of kinds. op_has_slot itself is in the hot loop and must be a single comparison.
constexpr bool slots_are_as_listed()
{
    for (std::size_t i = 0; i < kOpKindCount; ++i) {
        const auto kind = static_cast<OpKind>(i);
        const Arguments with = kArguments[i];
        const bool listed = kind == OpKind::Malloc || with == Arguments::Block || with == Arguments::BlockSize ||
                            with == Arguments::CountSize || with == Arguments::AlignSize ||
                            with == Arguments::BlockCountSize;
        if (listed != op_has_slot(kind)) return false;
    }
    return true;
}
static_assert(slots_are_as_listed());

bool op_allocates(OpKind kind)
{
    return op_has_slot(kind) && kArguments[static_cast<std::size_t>(kind)] != Arguments::Block;
}

bool op_frees(OpKind kind)
{
    return kind == OpKind::Free || kind == OpKind::FreeSized || kind == OpKind::FreeAlignedSized;
}

Op op_normalise(Op op, std::size_t kind_count)
{
    op.kind = static_cast<OpKind>(static_cast<std::size_t>(op.kind) % kind_count);
    const std::uint8_t arg_max = arg_limit(op.kind);
    op.arg = arg_max == 255 ? op.arg : static_cast<std::uint8_t>(op.arg % (arg_max + 1));
    op.thread = static_cast<std::uint16_t>(op.thread % kOpThreadsMax);
    op.slot = op_has_slot(op.kind) || op.kind == OpKind::Repeat ? op.slot % kOpSlotsMax : 0;
    const std::size_t size_max = size_limit(op.kind);
    if (size_max != SIZE_MAX) op.size48 = (op_size(op) % (size_max + 1)) & 0xffff'ffff'ffffULL;
    op.link = 0;
    return op;
}

}  // namespace stress

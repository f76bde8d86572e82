// Op: one operation of a sequence, 16 bytes. Scenarios generate ops, logs and files store them, and fuzzers mutate
// them, so every value of every field has a meaning: see op_normalise.
//
// Blocks live in numbered slots that all threads share. `link` orders the ops of a slot that several threads use. 0
// means that the slot belongs to one thread. Otherwise the op waits until the previous op on this slot is done; that
// hand-over is the only order that the harness puts between threads. Links count 1, 2, 3, ... and after 65535 start
// again from 1.
//
// Law: an op can always be applied. Allocating into a full slot and freeing an empty one do nothing; realloc of an
// empty slot is realloc(NULL, n). So any op may be left out, which lets a failing sequence shrink.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stress {

// X(name, text, arguments). The order is the file format: add new kinds at the end. `arguments` names what the text
// form prints; see program/op_text.h.
#define STRESS_OP_KINDS(X)                           \
    X(Malloc, "malloc", Size)                        \
    X(Free, "free", Block)                           \
    X(Realloc, "realloc", BlockSize)                 \
    X(Calloc, "calloc", CountSize)                   \
    X(AlignedAlloc, "aligned_alloc", AlignSize)      \
    X(PosixMemalign, "posix_memalign", AlignSize)    \
    X(Memalign, "memalign", AlignSize)               \
    X(ReallocArray, "reallocarray", BlockCountSize)  \
    X(FreeSized, "free_sized", Block)                \
    X(FreeAlignedSized, "free_aligned_sized", Block) \
    X(UsableSize, "usable_size", Block)              \
    X(Check, "check", Block)                         \
    X(Purge, "purge", None)                          \
    X(Renew, "renew", Renew)                         \
    X(Fork, "fork", Fork)                            \
    X(Signals, "signals", Size)                      \
    X(Dlopen, "dlopen", Count)                       \
    X(FailOs, "fail_os", Fail)                       \
    X(LimitMemory, "limit_memory", Size)             \
    X(GetLine, "getline", Size)                      \
    X(FlushAll, "flush_all", None)                   \
    X(Sleep, "sleep_ms", Size)                       \
    X(Repeat, "repeat", Repeat)                      \
    X(Heap, "heap", Size)                            \
    X(Limit, "limit", Size)                          \
    X(Idle, "idle", Size)                            \
    X(Touches, "touches", Size)

enum class OpKind : std::uint8_t {
#define X(name, text, arguments) name,
    STRESS_OP_KINDS(X)
#undef X
};

#define X(name, text, arguments) +1
inline constexpr std::size_t kOpKindCount = 0 STRESS_OP_KINDS(X);
#undef X

// How Renew ends the thread on the seat. A fresh thread then continues with the seat's ops.
enum class RenewHow : std::uint8_t {
    Return,       // the thread returns
    Exit,         // pthread_exit
    Cancel,       // a deferred cancellation, pending during the next `size` ops, takes effect
    SmallStack,   // like Return; the successor has the smallest stack that the system allows
    // like Return; thread-local and key destructors allocate and free in several rounds. `size` seeds what they draw;
    // with size 0 only destructors of C++ objects do
    Destructors,
    // DELETE
};
inline constexpr std::size_t kRenewHowCount = 5;

struct Op {
    OpKind kind;
    // log2 of the alignment (aligned kinds), element count (Calloc, ReallocArray), RenewHow (Renew),
    // slot step (Repeat), 1 for "for ever" (FailOs); otherwise 0
    std::uint8_t arg;
    std::uint16_t thread; // the seat
    std::uint32_t slot; // Repeat: how many of the following ops are its body
    // Bytes, as 48-bit two's complement: 0xffff'ffff'ffff stands for SIZE_MAX. Renew: ops; Signals: us;
    // Repeat: times; FailOs: which call; Sleep: ms; LimitMemory: bytes above what is mapped, 0: no limit;
    // Limit: of what the subject has committed, up to 8 MiB above what it has, more in all; 0: no limit; Idle: ms at most;
    // Heap: what it draws; Touches: of the next block that the seat gets, how many bytes an unchecked run touches.
    std::uint64_t size48 : 48;
    std::uint64_t link : 16;
};
static_assert(sizeof(Op) == 16);

inline constexpr std::uint32_t kOpSlotsMax = 1U << 20;
inline constexpr std::uint32_t kOpThreadsMax = 1024;
inline constexpr std::uint8_t kOpAlignLog2Max = 30;
inline constexpr std::uint64_t kOpSizeMask = 0xffff'ffff'ffffULL;

inline std::size_t op_size(const Op &op)
{
    return static_cast<std::size_t>(static_cast<std::int64_t>(static_cast<std::uint64_t>(op.size48) << 16) >> 16);
}

// Whether the op names an alignment, in its arg.
inline bool op_has_align(OpKind kind)
{
    return kind == OpKind::AlignedAlloc || kind == OpKind::PosixMemalign || kind == OpKind::Memalign;
}

inline std::size_t op_align(const Op &op)
{
    return std::size_t{1} << op.arg;
}

inline Op op_make(OpKind kind, std::uint32_t slot, std::size_t size_bytes = 0, std::uint8_t arg = 0,
                  std::uint16_t link = 0)
{
    Op op{};
    op.kind = kind;
    op.arg = arg;
    op.slot = slot;
    op.size48 = size_bytes & kOpSizeMask;
    op.link = link;
    return op;
}

inline std::uint16_t link_next(std::uint16_t link)
{
    return link == 0xffff ? std::uint16_t{1} : static_cast<std::uint16_t>(link + 1);
}

// Whether the op names a slot.
inline constexpr bool op_has_slot(OpKind kind)
{
    return kind <= OpKind::Check; // op.cc proves it
}
bool op_allocates(OpKind kind); // into an empty slot
bool op_frees(OpKind kind);

// The largest size that op_normalise leaves unchanged; SIZE_MAX: any.
std::size_t op_size_max(OpKind kind);

// Turns any 16 bytes into an op that can be applied: values out of range are folded into range. `kind_count` is the
// number of kinds that existed when the bytes were written.
Op op_normalise(Op op, std::size_t kind_count = kOpKindCount);

} // namespace stress

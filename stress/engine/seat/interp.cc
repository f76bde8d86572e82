// More than 400 lines: the kinds of op share the block in hand and its counters.
#include "engine/seat/interp.h"

#include <sched.h>

#include <cstdint>

#include "engine/op/block.h"
#include "engine/op/content.h"

namespace stress {

namespace {

// The errno value before each call. No successful call of the subject may change it.
constexpr int kErrnoMark = 4711;

// A small machine may refuse a larger request; the oracle then says nothing.
constexpr std::size_t kOrdinaryBytesMax = std::size_t{256} << 20;

std::size_t product(std::size_t count, std::size_t size_bytes)
{
    std::size_t bytes = 0;
    return __builtin_mul_overflow(count, size_bytes, &bytes) ? SIZE_MAX : bytes;
}

// The bytes that an op asks for; SIZE_MAX when the product overflows.
std::size_t requested_bytes(const Op &op)
{
    const bool counted = op.kind == OpKind::Calloc || op.kind == OpKind::ReallocArray;
    return counted ? product(op.arg, op_size(op)) : op_size(op);
}

// No object is larger than PTRDIFF_MAX.
bool cannot_exist(std::size_t size_bytes)
{
    return static_cast<std::ptrdiff_t>(size_bytes) < 0;
}

const char *kind_name(OpKind kind)
{
    static constexpr const char *names[] = {
#define X(name, text, arguments) text,
        STRESS_OP_KINDS(X)
#undef X
    };
    return names[static_cast<std::size_t>(kind)];
}

void *call(const Op &op, std::size_t align_bytes)
{
    const InsideSubject inside;
    switch (op.kind) {
    case OpKind::Calloc: return subject::call_calloc(op.arg, op_size(op));
    case OpKind::ReallocArray: return subject::call_malloc(requested_bytes(op));
    case OpKind::AlignedAlloc: return subject::call_aligned_alloc(align_bytes, op_size(op));
    case OpKind::Memalign: return subject::call_memalign(align_bytes, op_size(op));
    case OpKind::PosixMemalign: {
        void *start = nullptr;
        const int error = subject::call_posix_memalign(&start, align_bytes, op_size(op));
        if (error == 0) return start;
        errno = error;  // it returns the error instead of setting errno
        return nullptr;
    }
    default: return subject::call_malloc(op_size(op));
    }
}

}  // namespace

std::size_t Interp::usable_bytes(void *start) const
{
    return support_.usable_size ? subject::call_usable_size(start) : Oracle::kUsableUnknown;
}

// Waits until the op is in turn. False: the lap is over, so its turn will not come.
bool Interp::await_turn(const Op &op)
{
    waits_for_.store(std::uint64_t{op.slot} << 16 | op.link, std::memory_order_release);
    bool came = false;
    while (!came && !shared_.stop.load(std::memory_order_relaxed)) {
        if (sched_active()) sched_blocked("slot");
        else sched_yield();  // with more threads than cores, spinning would keep the other thread off the core
        came = in_turn(shared_.slots, op.slot, op.link);
    }
    waits_for_.store(0, std::memory_order_relaxed);
    return came;
}

Applied Interp::apply_linked(const Op &op)
{
    if (!in_turn(shared_.slots, op.slot, op.link) && !await_turn(op)) return Applied::Waiting;
    const bool held = apply_now(op);
    // release: publishes the block's record and content. Pairs with the acquire in in_turn.
    shared_.slots.turns[op.slot].store(op.link, std::memory_order_release);
    sched_progress();
    return held ? Applied::Done : Applied::Failed;
}

// The subject returned NULL. That is right if the request cannot be met, or while memory is scarce.
bool Interp::refused(const char *call_name, std::size_t size_bytes, std::size_t align_bytes)
{
    const int error = errno;
    touch_next_bytes_ = SIZE_MAX;
    note(OpOutcome::Null, error);
    const bool scarce = shared_.scarce_since(scarce_mark_);
    if (size_bytes == 0) return true;  // C leaves this choice to the implementation
    if (size_bytes > kOrdinaryBytesMax || scarce) {
        if (scarce) bump(counters_.refused, 1);
        if (error == ENOMEM || !check_) return true;
        // probe_impossible judges sizes that cannot exist, in strict runs.
        return cannot_exist(size_bytes) ||
               shared_.oracle.impossible_refused(call_name, size_bytes, nullptr, error, witness());
    }
    shared_.oracle.exhausted(call_name, size_bytes, align_bytes, error, witness());
    return false;
}

// A monitor takes what was freed from what was allocated, so the old block counts as live until the new one does.
void Interp::count_moved(Block &block, const Block &fresh)
{
    bump(counters_.bytes_allocated, fresh.size_bytes);
    bump(counters_.bytes_freed, block.size_bytes);
    block = fresh;
}

void Interp::op_begins(const Block &block)
{
    in_hand_ = block;
    scarce_mark_ = shared_.scarce_mark();
    bump(counters_.ops, 1);
}

void Interp::count_given(Block &block, const Block &fresh, OpKind kind)
{
    block = fresh;
    count_allocated(fresh.size_bytes);
    count_judged(kind);
}

void Interp::count_moved(Block &block, const Block &fresh, OpKind kind)
{
    count_moved(block, fresh);
    count_judged(kind);
}

void Interp::count_freed(std::size_t size_bytes, OpKind kind)
{
    count_freed(size_bytes);
    count_judged(kind);
}

void Interp::count_look(OpKind kind)
{
    note(OpOutcome::Skipped, 0);
    count_judged(kind);
}

bool Interp::apply_plain_other(const Op &op, Block &block)
{
    if (latency != nullptr && latency->due() && (op.kind == OpKind::Malloc || op.kind == OpKind::Free) &&
        (op.kind == OpKind::Malloc) == (block.start == nullptr)) {
        const bool is_malloc = op.kind == OpKind::Malloc;
        const std::uint64_t start = latency_ticks();
        const bool held = is_malloc ? allocate_plain(op_size(op), block) : release_plain(block);
        latency->add(is_malloc ? Latency::Malloc : Latency::Free, latency_ticks() - start);
        return held;
    }
    if (op_frees(op.kind)) return block.start == nullptr || release_plain(block);
    if (op.kind == OpKind::Realloc && block.start != nullptr) {
        if (op_size(op) == 0) return true;  // it frees or does not: see reallocate
        const bool timed = latency != nullptr && latency->due();
        const std::uint64_t begin = timed ? latency_ticks() : 0;
        void *start = subject::call_realloc(block.start, op_size(op));
        if (timed) latency->add(Latency::Realloc, latency_ticks() - begin);
        if (start == nullptr) return refused("realloc", op_size(op));
        touch(start, block.size_bytes, op_size(op));
        count_moved(block, {start, op_size(op), block.generation, block.align_bytes});
        return true;
    }
    if (!op_allocates(op.kind) || block.start != nullptr) return true;
    if (op.kind == OpKind::Malloc || op.kind == OpKind::Realloc) return allocate_plain(op_size(op), block);
    const bool timed = latency != nullptr && latency->due();
    const std::uint64_t begin = timed ? latency_ticks() : 0;
    void *start = call(op, op_align(op) < sizeof(void *) ? sizeof(void *) : op_align(op));
    if (timed) latency->add(Latency::Malloc, latency_ticks() - begin); // as in checked runs
    if (start == nullptr)
        return refused(kind_name(op.kind), requested_bytes(op), op_has_align(op.kind) ? op_align(op) : 0);
    if (requested_bytes(op) != 0) *static_cast<volatile unsigned char *>(start) = 1;
    if (op.kind != OpKind::Calloc || touch_next_bytes_ != SIZE_MAX) touch(start, 0, requested_bytes(op));
    block = {start, requested_bytes(op), 0, 0};
    count_allocated(block.size_bytes);
    return true;
}

bool Interp::apply_checked(const Op &op)
{
    Block &block = shared_.slots.blocks[op.slot];
    const bool empty = block.start == nullptr;
    if (!empty && op.link != 0 && generation_seat(block.generation) != seat_) bump(counters_.handed_over, 1);
    op_begins(block);
    switch (op.kind) {
    case OpKind::Malloc:
    case OpKind::Calloc:
    case OpKind::AlignedAlloc:
    case OpKind::PosixMemalign:
    case OpKind::Memalign:
        if (empty) return allocate(op, block);
        break;
    case OpKind::Realloc:
    case OpKind::ReallocArray: return reallocate(op, block);
    case OpKind::Free:
    case OpKind::FreeSized:
    case OpKind::FreeAlignedSized:
        if (!empty) return release(op, block);
        break;
    case OpKind::UsableSize:
        if (!empty) return usable(block);
        break;
    case OpKind::Check:
        if (!empty) return still_holds(block);
        break;
    default: break;
    }
    note(OpOutcome::Skipped, 0);
    return true;
}

// Judges a fresh block and fills it.
bool Interp::fresh_is_sound(const Block &fresh, bool from_calloc)
{
    note(OpOutcome::Given, 0, &fresh);
    if (shared_.oracle.allocated(fresh, usable_bytes(fresh.start), from_calloc, witness())) return true;
    if (trace != nullptr) trace->mark_unsound();
    return false;  // not freed: it may be part of another block
}

bool Interp::allocate(const Op &asked, Block &block)
{
    Op op = asked;
    if ((op.kind == OpKind::AlignedAlloc && !support_.aligned_alloc) ||
        (op.kind == OpKind::PosixMemalign && !support_.posix_memalign) ||
        (op.kind == OpKind::Memalign && !support_.memalign))
        op.kind = OpKind::Malloc;
    std::size_t align_bytes = op_has_align(op.kind) ? op_align(op) : 0;
    // Under POSIX, and under C11 before its correction, smaller alignments are errors; other tests ask for them.
    if (align_bytes != 0 && align_bytes < sizeof(void *)) align_bytes = sizeof(void *);

    const bool timed = latency != nullptr && latency->due();
    errno = 0;
    const std::uint64_t begin = timed ? latency_ticks() : 0;
    void *start = call(op, align_bytes);
    if (timed) latency->add(Latency::Malloc, latency_ticks() - begin);
    const std::size_t size_bytes = requested_bytes(op);
    if (start == nullptr) return refused(kind_name(op.kind), size_bytes, align_bytes);
    if (cannot_exist(size_bytes)) {
        note(OpOutcome::Given, 0);
        return shared_.oracle.impossible_refused(kind_name(op.kind), size_bytes, start, 0, witness());
    }
    const Block fresh{start, size_bytes, generation(), align_bytes};
    if (!fresh_is_sound(fresh, op.kind == OpKind::Calloc)) return false;
    count_given(block, fresh, op.kind);
    return true;
}

bool Interp::release(const Op &op, Block &block)
{
    const Block old = block;
    block = {};
    if (!shared_.oracle.before_free(old, witness())) {
        note(OpOutcome::Freed, 0);
        if (trace != nullptr) trace->mark_unsound();
        return false;
    }
    const bool timed = latency != nullptr && latency->due();
    errno = kErrnoMark;
    const std::uint64_t begin = timed ? latency_ticks() : 0;
    {
        const InsideSubject inside;
        // free_aligned_sized takes only blocks of aligned_alloc; free_sized only blocks of malloc and realloc.
        if (op.kind == OpKind::FreeSized && old.align_bytes == 0 && support_.free_sized != nullptr)
            support_.free_sized(subject::launder(old.start), old.size_bytes);
        else if (op.kind == OpKind::FreeAlignedSized && old.align_bytes != 0 && support_.free_aligned_sized != nullptr)
            support_.free_aligned_sized(subject::launder(old.start), old.align_bytes, old.size_bytes);
        else subject::call_free(old.start);
    }
    if (timed) latency->add(Latency::Free, latency_ticks() - begin);
    const int after = errno;
    count_freed(old.size_bytes, op.kind);
    note(OpOutcome::Freed, after == kErrnoMark ? 0 : after);
    return shared_.oracle.errno_kept(old, kErrnoMark, after, witness());
}

bool Interp::reallocate(const Op &op, Block &block)
{
    const Block old = block;
    const std::size_t size_bytes = requested_bytes(op);
    // The implementation chooses whether realloc(p, 0) frees. There is nothing to judge, so it is never called.
    if (size_bytes == 0) {
        note(OpOutcome::Skipped, 0);
        return true;
    }
    if (old.start != nullptr && !shared_.oracle.before_realloc(old, witness())) {
        note(OpOutcome::Skipped, 0);
        if (trace != nullptr) trace->mark_unsound();
        return false;
    }
    const bool timed = latency != nullptr && latency->due();
    errno = 0;
    const std::uint64_t begin = timed ? latency_ticks() : 0;
    void *start = nullptr;
    {
        const InsideSubject inside;
        start = op.kind == OpKind::ReallocArray && support_.reallocarray
                    ? subject::call_reallocarray(old.start, op.arg, op_size(op))
                    : subject::call_realloc(old.start, size_bytes);
    }
    if (timed) latency->add(Latency::Realloc, latency_ticks() - begin);
    if (start == nullptr) {
        const int error = errno;
        if (old.start != nullptr && !shared_.oracle.realloc_refused(old, witness())) {
            note(OpOutcome::Null, error);
            if (trace != nullptr) trace->mark_unsound();
            return false;
        }
        errno = error;
        return refused("realloc", size_bytes);
    }
    if (cannot_exist(size_bytes)) {
        note(OpOutcome::Given, 0);
        return shared_.oracle.impossible_refused("realloc", size_bytes, start, 0, witness());
    }
    const Block fresh{start, size_bytes, generation(), 0};
    if (old.start == nullptr) {
        if (!fresh_is_sound(fresh, false)) return false;
        count_given(block, fresh, OpKind::Malloc);
        return true;
    }
    note(OpOutcome::Given, 0, &fresh);
    if (!shared_.oracle.after_realloc(old, fresh, usable_bytes(start), witness())) {
        if (trace != nullptr) trace->mark_unsound();
        block = {};
        return false;
    }
    count_moved(block, fresh, op.kind);
    return true;
}

bool Interp::usable(Block &block)
{
    count_look(OpKind::UsableSize);
    if (!support_.usable_size || shared_.oracle.usable_is_enough(block, usable_bytes(block.start), witness()))
        return true;
    if (trace != nullptr) trace->mark_unsound();
    return false;
}

bool Interp::still_holds(const Block &block)
{
    count_look(OpKind::Check);
    if (shared_.oracle.still_holds(block, witness())) return true;
    if (trace != nullptr) trace->mark_unsound();
    return false;
}

bool Interp::sweep(std::uint32_t slot)
{
    Block &block = shared_.slots.blocks[slot];
    if (block.start == nullptr) return true;
    const Op op = op_make(OpKind::Free, slot);
    bump(counters_.ops, 1);
    return check_ ? release(op, block) : release_plain(block);
}

bool Interp::probe_recovery()
{
    for (std::size_t size_bytes : {std::size_t{16}, std::size_t{500}, std::size_t{3000}, std::size_t{20'000},
                                   std::size_t{300'000}, std::size_t{5} << 20}) {
        Block block{};
        op_begins(block);
        if (!allocate(op_make(OpKind::Malloc, 0, size_bytes), block)) return false;
        if (!release(op_make(OpKind::Free, 0), block)) return false;
    }
    return true;
}

bool Interp::probe_impossible()
{
    errno = 0;
    void *start = subject::call_malloc(SIZE_MAX - 4096);
    if (!shared_.oracle.impossible_refused("malloc", SIZE_MAX - 4096, start, errno, witness())) return false;
    errno = 0;
    start = subject::call_calloc(SIZE_MAX / 2, 4);
    if (!shared_.oracle.impossible_refused("calloc(SIZE_MAX / 2, 4)", SIZE_MAX, start, errno, witness())) return false;

    Block block{};
    if (!allocate(op_make(OpKind::Malloc, 0, 100), block)) return false;
    errno = 0;
    start = subject::call_realloc(block.start, SIZE_MAX / 2 + 2);
    if (!shared_.oracle.impossible_refused("realloc", SIZE_MAX / 2 + 2, start, errno, witness())) return false;
    return release(op_make(OpKind::Free, 0), block);
}

} // namespace stress

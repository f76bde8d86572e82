// The interpreter applies one op to the subject and tells the oracle. Each seat has its own.
//
// With check off it touches one byte of each fresh block, as the classic benchmarks do, and judges nothing. If it touches
// pages, it is one byte of each page that malloc or realloc gives, as a program does that uses what it asks for.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "engine/judge/oracle.h"
#include "engine/op/counters.h"
#include "engine/op/latency.h"
#include "engine/op/op.h"
#include "engine/op/slots.h"
#include "engine/seat/sched.h"
#include "engine/seat/trace.h"
#include "engine/subject/inside.h"
#include "engine/subject/scarcity.h"
#include "engine/subject/subject.h"
#include "engine/subject/support.h"

namespace stress {

enum class Applied {
    Done,
    Waiting, // the previous op on its slot did not come before the end of the run or lap; nothing was done
    Failed, // the oracle has recorded a failure: the run must stop
};

// What the interpreters of a run share, besides the slots.
struct InterpShared {
    Oracle &oracle;
    Slots &slots;
    const std::atomic<bool> &stop;
    Scarcity own_scarce{};
    Scarcity *scarce = &own_scarce; // the run's own, if this interpreter is a part with slots of its own

    void scarce_begin() { scarce->begin(); }
    void scarce_end() { scarce->end(); }
    std::uint32_t scarce_mark() const { return scarce->mark(); }
    bool scarce_since(std::uint32_t mark) const { return scarce->since(mark); }
};

class Interp {
  public:
    Interp(InterpShared &shared, Counters &counters, Support support, std::uint32_t seat, bool check)
        : shared_(shared), counters_(counters), support_(support), seat_(seat), check_(check)
    {}

    bool checks() const { return check_; }

    // Optional: where to record latencies and outcomes. Set before the run.
    Latency *latency = nullptr;
    Trace *trace = nullptr;
    // Unchecked runs: whether to touch each page of a block. Set before the run.
    bool touches_pages = false;

    // Applies a memory op. The seat applies the other kinds (engine/team/process_ops.h).
    Applied apply(const Op &op)
    {
        if (op.link == 0) [[likely]]
            return apply_now(op) ? Applied::Done : Applied::Failed;
        return apply_linked(op);
    }

    // For the next block above a page that the seat asks for, also from calloc, whose blocks are else not touched.
    void touch_next(std::size_t size_bytes) { touch_next_bytes_ = size_bytes; }

    // Frees and judges the block of a slot, whichever thread allocated it. For the end of a run.
    bool sweep(std::uint32_t slot);

    // Makes one request of each kind, once memory is no longer scarce: all must succeed.
    bool probe_recovery();

    // Makes requests that cannot be met: they must return NULL with ENOMEM, and the block given to realloc must be
    // unchanged.
    bool probe_impossible();

    Witness witness() const { return {seat_, read(counters_.ops)}; }

    // The slot and link that this seat waits for: slot << 16 | link; 0 if it does not wait. See team_wait.
    std::uint64_t waits_for() const { return waits_for_.load(std::memory_order_acquire); }

    // Whether a linked op has its turn.
    static bool in_turn(const Slots &slots, std::uint32_t slot, std::uint16_t link)
    {
        // acquire: the block's record and content are visible. Pairs with the release in apply_linked.
        const std::uint32_t done = slots.turns[slot].load(std::memory_order_acquire);
        return link_next(static_cast<std::uint16_t>(done)) == link;
    }

    // Whether this thread is inside the subject; for handlers that must know.
    static bool inside() { return inside_subject; }

    const Support &support() const { return support_; }

    // The block that the op in hand found in its slot, for reports: a free has already cleared the slot. nullptr: the op
    // has none.
    const Block *block_of(const Op &op) const
    {
        if (!op_has_slot(op.kind) || op.slot >= shared_.slots.blocks.size()) return nullptr;
        return check_ ? &in_hand_ : &shared_.slots.blocks[op.slot];
    }

  private:
    static constexpr std::size_t kTouchBytes = 4096; // no system has smaller pages

    bool apply_now(const Op &op) { return check_ ? apply_checked(op) : apply_plain(op); }
    Applied apply_linked(const Op &op);
    bool await_turn(const Op &op);

    bool apply_plain(const Op &op)
    {
        Block &block = shared_.slots.blocks[op.slot];
        bump(counters_.ops, 1);
        if (op.kind == OpKind::Malloc && block.start == nullptr && latency == nullptr) [[likely]]
            return allocate_plain(op_size(op), block);
        if (op.kind == OpKind::Free && block.start != nullptr && latency == nullptr) [[likely]]
            return release_plain(block);
        return apply_plain_other(op, block);
    }

    bool allocate_plain(std::size_t size_bytes, Block &block)
    {
        void *start = subject::call_malloc(size_bytes);
        if (start == nullptr) [[unlikely]]
            return refused("malloc", size_bytes);
        if (size_bytes != 0) [[likely]]
            *static_cast<volatile unsigned char *>(start) = 1;
        if (size_bytes > kTouchBytes) [[unlikely]]
            touch(start, 0, size_bytes);
        block.start = start;
        block.size_bytes = size_bytes;
        count_allocated(size_bytes);
        return true;
    }

    // Touches the pages of the block from this offset on, up to the end or to what a Touches op has said.
    void touch(void *start, std::size_t from_bytes, std::size_t size_bytes)
    {
        if (!touches_pages) return;
        if (touch_next_bytes_ < size_bytes) size_bytes = touch_next_bytes_;
        touch_next_bytes_ = SIZE_MAX;
        for (std::size_t at = from_bytes + kTouchBytes; at < size_bytes; at += kTouchBytes)
            static_cast<volatile unsigned char *>(start)[at] = 1;
    }

    bool release_plain(Block &block)
    {
        subject::call_free(block.start);
        block.start = nullptr;
        count_freed(block.size_bytes);
        return true;
    }

    bool apply_plain_other(const Op &op, Block &block);
    bool apply_checked(const Op &op);
    bool allocate(const Op &op, Block &block);
    bool release(const Op &op, Block &block);
    bool reallocate(const Op &op, Block &block);
    bool usable(Block &block);
    bool still_holds(const Block &block);
    bool refused(const char *call, std::size_t size_bytes, std::size_t align_bytes = 0);
    bool fresh_is_sound(const Block &fresh, bool from_calloc);
    std::size_t usable_bytes(void *start) const;
    void note(std::uint8_t result, int error, const Block *block = nullptr)
    {
        if (trace != nullptr) [[unlikely]]
            trace->add(result, error, block);
    }
    std::uint64_t generation() const { return generation_make(seat_, read(counters_.ops)); }

    void count_allocated(std::size_t size_bytes)
    {
        bump(counters_.blocks_allocated, 1);
        bump(counters_.bytes_allocated, size_bytes);
    }

    void count_freed(std::size_t size_bytes)
    {
        bump(counters_.blocks_freed, 1);
        bump(counters_.bytes_freed, size_bytes);
    }

    void count_judged(OpKind kind) { bump(counters_.judged[static_cast<std::size_t>(kind)], 1); }

    void count_moved(Block &block, const Block &fresh);

    // Checked runs: each sets the block and the counters that belong to it.
    void op_begins(const Block &block);
    void count_given(Block &block, const Block &fresh, OpKind kind);
    void count_moved(Block &block, const Block &fresh, OpKind kind);
    void count_freed(std::size_t size_bytes, OpKind kind);
    void count_look(OpKind kind);

    InterpShared &shared_;
    Counters &counters_;
    Support support_;
    std::uint32_t seat_;
    bool check_;
    Block in_hand_{}; // as the op in hand found it; unchecked runs never set it
    std::size_t touch_next_bytes_ = SIZE_MAX; // by a Touches op
    std::uint32_t scarce_mark_ = 0; // set when the op began; unchecked runs never set it
    std::atomic<std::uint64_t> waits_for_{0};
};

} // namespace stress

// The line map: for each 64-byte cache line of the address space, which seat has live blocks in it, and how many.
// Only false-sharing pays for it: see Plan::judge_lines.
//
// Law: while a line holds live blocks, the seat in its word is the one that allocated all of them, or kShared when
// two seats did. Lines that a block covers in full cannot be shared, so only the first and the last count.
//
// Blocks of a lap before, and of a seat that has done its part of this one, belong to nobody: their threads have
// ended, and whoever adopts the heap may go on in it.
//
// Words are relaxed, for the reason that stands in claim_map.h. Claim after malloc, release before free. Any
// thread may call claim and release.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stress {

class LineMap {
  public:
    static constexpr std::size_t kLineBytes = 64;

    LineMap();
    ~LineMap();
    LineMap(const LineMap &) = delete;
    LineMap &operator=(const LineMap &) = delete;

    // A line that a block came to share.
    struct Shared {
        std::uintptr_t line = 0;  // its address; 0: none
        std::uint32_t seat = 0;   // the other seat
    };

    // A fresh block of the seat. Returns a line that it is the first to share with another seat.
    Shared claim(const void *start, std::size_t size_bytes, std::uint32_t seat);
    void release(const void *start, std::size_t size_bytes);

    // The seat's thread is about to end, and none follows it in this lap: its live blocks belong to nobody.
    void leave(std::uint32_t seat) { gone_[seat % kSeats].store(true, std::memory_order_relaxed); }

    // No thread is in the subject, and those that allocated have ended: live blocks belong to nobody.
    void disown();

    // How often a line came to be shared.
    std::uint64_t shared_count() const { return shared_count_.load(std::memory_order_relaxed); }

  private:
    struct Leaf;

    std::atomic<std::uint16_t> &word(std::uintptr_t line);
    Shared claim_line(std::uintptr_t line, std::uint32_t seat);

    std::atomic<Leaf *> *root_;
    std::atomic<Leaf *> leaves_{nullptr};
    static constexpr std::size_t kSeats = 2048;  // more than a word can name
    std::atomic<bool> gone_[kSeats] = {};
    std::atomic<std::uint64_t> shared_count_{0};  // changed only where a line is found shared, so seldom
};

}  // namespace stress

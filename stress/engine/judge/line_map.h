// The line map: for each 64-byte cache line of the address space, which seat has live blocks in it, and how many. Only
// the scenario false-sharing uses it: see Plan::judge_lines.
//
// Law: while a line holds live blocks, the seat in its word is the one that allocated all of them, or kShared when two
// seats did. Lines that a block covers in full cannot be shared, so only the first and the last count.
//
// Blocks from an earlier lap, or from a seat that has finished this lap, belong to nobody: their threads have ended,
// and another thread may adopt the heap and allocate beside them.
//
// Words are relaxed, for the reason given in claim_map.h. Claim after malloc, release before free. Any thread may call
// claim and release.
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

    // A line that a block has begun to share.
    struct Shared {
        std::uintptr_t line = 0;  // its address; 0: none
        std::uint32_t seat = 0;   // the other seat
    };

    // Adds a fresh block of the seat. Returns a line that this block is the first to share with another seat.
    Shared claim(const void *start, std::size_t size_bytes, std::uint32_t seat);
    void release(const void *start, std::size_t size_bytes);

    // The seat's thread is about to end and has no successor in this lap: its live blocks belong to nobody.
    void leave(std::uint32_t seat) { gone_[seat % kSeats].store(true, std::memory_order_relaxed); }

    // Live blocks now belong to nobody. Call it when no thread is in the subject and those that allocated have ended.
    void disown();

    // How many times a line became shared.
    std::uint64_t shared_count() const { return shared_count_.load(std::memory_order_relaxed); }

  private:
    struct Leaf;

    std::atomic<std::uint16_t> &word(std::uintptr_t line);
    Shared claim_line(std::uintptr_t line, std::uint32_t seat);

    std::atomic<Leaf *> *root_;
    std::atomic<Leaf *> leaves_{nullptr};
    static constexpr std::size_t kSeats = 2048; // more seats than a word can name
    std::atomic<bool> gone_[kSeats] = {};
    std::atomic<std::uint64_t> shared_count_{0}; // written only when a line is found shared, which is rare
};

} // namespace stress

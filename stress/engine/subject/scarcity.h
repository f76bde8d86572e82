// Whether the system may refuse memory. NULL with ENOMEM is then a right answer.
#pragma once

#include <atomic>
#include <cstdint>

namespace stress {

// Low half: the number of ops or limits in force. High half: the number that have ended, so that a call that met one
// differs from a call that came later. Any thread may call, also in a signal handler. Relaxed: it orders nothing.
class Scarcity {
  public:
    void begin() { word_.fetch_add(1, std::memory_order_relaxed); }
    void end() { word_.fetch_add(0x10000 - 1, std::memory_order_relaxed); }
    std::uint32_t mark() const { return word_.load(std::memory_order_relaxed); }
    bool since(std::uint32_t mark_before) const
    {
        const std::uint32_t now = mark();
        return (now & 0xffff) != 0 || now != mark_before;
    }

  private:
    std::atomic<std::uint32_t> word_{0};
};

} // namespace stress

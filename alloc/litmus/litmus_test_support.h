/* litmus_test_support.h: directed tests of one atomic pair each, for ThreadSanitizer.
 *
 * Each step runs once, in a thread of its own. All threads begin before the first step, and a step is told that the one
 * before it is done by a relaxed counter: so nothing orders the steps but the pair that is tested, and where its
 * release or its acquire is missing ThreadSanitizer reports a race in every run. (A join, a lock or an acquire in the
 * test itself would order them, and hide the bug.) Without the sanitizer the steps are checked for what they
 * return. What this cannot show: orders between two words (seq_cst), and what several pairs order at once. */
#pragma once

#include "base/test_support.h"

#include <sched.h>

namespace litmus {

// A value that one step hands to a later one. It orders nothing.
template <class T> class Hand {
  public:
    void give(T value) { value_.store(value, std::memory_order_relaxed); }
    T take() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<T> value_{};
};

// Runs each step in its own thread, one after the other.
inline void in_order(const std::vector<std::function<void()>> &steps)
{
    std::atomic<size_t> turn{0};
    test::in_threads(static_cast<int>(steps.size()), [&](int thread) {
        auto own = static_cast<size_t>(thread);
        while (turn.load(std::memory_order_relaxed) != own) sched_yield();
        steps[own]();
        turn.store(own + 1, std::memory_order_relaxed);
    });
}

// Plain accesses that the sanitizer sees, to all of a block's bytes behind the allocator's links.
constexpr size_t LINKS_BYTES = 16;

inline void write_plainly(void *block, size_t size_bytes, uint64_t stamp)
{
    auto *bytes = static_cast<unsigned char *>(block);
    for (size_t i = LINKS_BYTES; i < size_bytes; i++) bytes[i] = test::pattern_byte(stamp, i);
}

inline bool read_plainly(const void *block, size_t size_bytes, uint64_t stamp)
{
    auto *bytes = static_cast<const unsigned char *>(block);
    for (size_t i = LINKS_BYTES; i < size_bytes; i++)
        if (bytes[i] != test::pattern_byte(stamp, i)) return false;
    return true;
}

} // namespace litmus

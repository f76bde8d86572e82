/* litmus_test_support.h: directed tests of one atomic pair each, for ThreadSanitizer.
 *
 * Each step runs once, in a thread of its own. All threads begin before the first step, and a relaxed counter tells
 * each step that the one before it is done. So only the pair under test orders the steps, and if its release or its
 * acquire is missing, ThreadSanitizer reports a race in every run. (A join, a lock or an acquire in the test itself
 * would order the steps and hide the bug.) Without the sanitizer the tests check only what the steps return. These
 * tests cannot show orders between two words (seq_cst), nor a bug that several pairs cover at once. */
#pragma once

#include "base/test_support.h"

#include <climits>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace litmus {

// A value that one step hands to a later one. It orders nothing.
template <class T> class Hand {
  public:
    void give(T value) { value_.store(value, std::memory_order_relaxed); }
    T take() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<T> value_{};
};

// A number that only rises, and that threads wait for. It orders nothing either. Waiting threads sleep, since one that
// spins would fill the sanitizer's history, and a race with an access that has dropped out of the history is not
// reported.
class Count {
  public:
    void add()
    {
        value_.fetch_add(1, std::memory_order_relaxed);
        syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    }
    void wait_for(uint32_t wanted)
    {
        for (;;) {
            uint32_t seen = value_.load(std::memory_order_relaxed);
            if (seen >= wanted) return;
            syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
        }
    }

  private:
    std::atomic<uint32_t> value_{0};
};

struct Threads {
    std::function<void(uint32_t thread)> prepare; // what each thread does before the first step
    bool end = false; // each thread ends after its own step, not after the last one
};

// Runs each step in its own thread, one after the other. The threads stay until the last step, unless the test is about
// their end: the sanitizer soon forgets the history of a thread that has ended.
inline void in_order(const std::vector<std::function<void()>> &steps, const Threads &threads = {})
{
    Count prepared, done;
    auto count = static_cast<uint32_t>(steps.size());
    test::in_threads(static_cast<int>(count), [&](int thread) {
        auto own = static_cast<uint32_t>(thread);
        if (threads.prepare) threads.prepare(own);
        prepared.add();
        prepared.wait_for(count);
        done.wait_for(own);
        steps[own]();
        done.add();
        if (!threads.end) done.wait_for(count);
    });
}

// Plain accesses, which the sanitizer sees, to all bytes of a block behind the allocator's links.
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

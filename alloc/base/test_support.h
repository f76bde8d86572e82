/* test_support.h: helpers that the allocator's GoogleTest files share. A test must include it first: it lets C++ read
 * the C headers, by C++23's <stdatomic.h> and by macros for words that C++ spells differently. */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/policy.h"

#define _Thread_local __thread

namespace test {

inline constexpr size_t MIB = size_t{1} << 20;

// The sanitizer that this program was built with, or nullptr.
inline const char *sanitizer()
{
    if (HAK_SANITIZE_THREAD) return "ThreadSanitizer";
    if (HAK_SANITIZE_ADDRESS) return "AddressSanitizer";
    return nullptr;
}

inline bool under_thread_sanitizer()
{
    return sanitizer() != nullptr && strcmp(sanitizer(), "ThreadSanitizer") == 0;
}

// Whether a mapping holds the page of `address`. Keeps errno.
inline bool is_mapped(const void *address)
{
    const int saved = errno;
    const uintptr_t page = reinterpret_cast<uintptr_t>(address) & ~((uintptr_t)getpagesize() - 1);
    unsigned char in_core;
    const bool is = mincore(reinterpret_cast<void *>(page), 1, &in_core) == 0;
    errno = saved;
    return is;
}

// Fewer rounds under a sanitizer, which slows every access.
inline int rounds(int plain)
{
    return sanitizer() == nullptr ? plain : (plain + 4) / 5;
}

// The seed of everything random: HAKMEM_TEST_SEED, printed at first use.
inline uint64_t seed()
{
    static const uint64_t value = [] {
        const char *text = getenv("HAKMEM_TEST_SEED");
        uint64_t read = text != nullptr ? strtoull(text, nullptr, 0) : 20240229;
        printf("HAKMEM_TEST_SEED=%llu\n", (unsigned long long)read);
        fflush(stdout);
        return read;
    }();
    return value;
}

// SplitMix64 (Steele, Lea, Flood).
class Rng {
  public:
    explicit Rng(uint64_t stream = 0) : state_(seed() + stream * 0x632be59bd9b4e019) {}
    uint64_t next()
    {
        uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    size_t below(size_t limit) { return static_cast<size_t>(next() % limit); }
    size_t between(size_t low, size_t high) { return low + below(high - low + 1); }
    template <class T> void shuffle(std::vector<T> &items)
    {
        for (size_t i = items.size(); i > 1; i--) std::swap(items[i - 1], items[below(i)]);
    }

  private:
    uint64_t state_;
};

// Runs body(0) to body(count - 1), each in a thread of its own, and waits for all.
inline void in_threads(int count, const std::function<void(int)> &body)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++) threads.emplace_back([&body, i] { body(i); });
    for (std::thread &thread : threads) thread.join();
}

inline void in_thread(const std::function<void()> &body)
{
    std::thread(body).join();
}

// What holds at the end of each child, as after each test; see entry/laws_test_support.cc.
inline void (*at_child_end)() = nullptr;

// Runs body in a child process. True when it reached its end without a failed check. A child that hangs is killed after
// limit_s: far longer than any takes on a busy machine.
inline bool in_child(const std::function<void()> &body, unsigned limit_s = 240)
{
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    if (child == 0) {
        alarm(limit_s);
        body();
        if (at_child_end != nullptr) at_child_end();
        fflush(stdout);
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    if (child < 0) return false;
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (WIFSIGNALED(status)) printf("child ended by signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// From now on the kernel refuses this call to the process, for good, with this errno. False: it has no such filter.
bool refuse_call(long call, int error);

// A pattern that differs from block to block and from byte to byte. With a step, only every step-th byte is filled or
// checked.
inline unsigned char pattern_byte(uint64_t stamp, size_t at)
{
    return static_cast<unsigned char>((stamp * 0x9e3779b97f4a7c15 + at * 0x85ebca77) >> 24 | 1);
}

void pattern_fill(void *block, size_t size_bytes, uint64_t stamp, size_t step = 1);
bool pattern_holds(const void *block, size_t size_bytes, uint64_t stamp, size_t step = 1);
bool is_zero(const void *block, size_t size_bytes, size_t step = 1);

inline bool is_aligned(const void *block, size_t align_bytes)
{
    return (reinterpret_cast<uintptr_t>(block) & (align_bytes - 1)) == 0;
}

} // namespace test

// Skips the test, with the reason, in a build where it cannot run.
#define SKIP_UNDER_SANITIZER(reason) \
    if (test::sanitizer() != nullptr) GTEST_SKIP() << test::sanitizer() << ": " << reason

#define SKIP_WITHOUT_VALIDATE() \
    if (!VALIDATE) GTEST_SKIP() << "the release build has no failfast checks"

// gcc 12's runtime does not forget the parent's threads: it stops with "dup thread with used id" when libc reuses the
// stack of one.
#define SKIP_WITHOUT_THREADS_IN_A_CHILD() \
    if (TSAN_BY_GCC) GTEST_SKIP() << "gcc's ThreadSanitizer stops a forked child that starts threads"

// Building blocks of the checks: threads, children, figures about the process, and a round through all sizes.
//
// None of it allocates from the malloc under test, unless it says so.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "conform/calls.h"
#include "conform/check.h"
#include "conform/child.h"
#include "engine/base/clock.h"

namespace stress::conform {

inline constexpr std::size_t kMib = 1 << 20;

// Hides a value from the compiler.
template <typename T> inline T launder(T value)
{
    asm volatile("" : "+r"(value) : : "memory");
    return value;
}

inline bool is_aligned(const void *block, std::size_t align)
{
    return reinterpret_cast<std::uintptr_t>(block) % align == 0;
}

inline unsigned char *bytes_of(void *block)
{
    return static_cast<unsigned char *>(block);
}

// A thread that runs `body`, which must outlive it. The C library takes the thread's descriptor from calloc.
template <typename Body> class Thread {
  public:
    explicit Thread(Body &body, const pthread_attr_t *attributes = nullptr)
        : started_(pthread_create(&thread_, attributes, &Thread::enter, &body) == 0)
    {}
    Thread(const Thread &) = delete;
    Thread &operator=(const Thread &) = delete;
    ~Thread() { join(); }
    bool started() const { return started_; }
    void join()
    {
        if (started_ && !joined_) pthread_join(thread_, nullptr);
        joined_ = true;
    }

  private:
    static void *enter(void *body)
    {
        (*static_cast<Body *>(body))();
        return nullptr;
    }
    pthread_t thread_{};
    bool started_;
    bool joined_ = false;
};

// Runs `body` in a thread and waits for its end. False if no thread can be started.
template <typename Body> bool in_thread(Body &&body)
{
    Thread<std::remove_reference_t<Body>> thread(body);
    thread.join();
    return thread.started();
}

// Waits until the value is at least `wanted`. There is no limit: if it never comes, the check hangs, which the runner
// finds, with the stack of every thread.
void wait_until(const std::atomic<int> &value, int wanted);

// The same for at most `seconds`, where going on without it is fine too.
bool wait_at_most(const std::atomic<int> &value, int wanted, double seconds);
void sleep_ms(long milliseconds);

// Waits a little before looking again, and longer each time up to 5 ms: a thread that only waits must not look busy.
class Pause {
  public:
    void operator()();

  private:
    int looks_ = 0;
};

// Forks; the child runs `body`, which returns null or what was wrong (static text), and ends. Returns null if all went
// well, otherwise what went wrong, such as "ended by SIGSEGV".
template <typename Body> const char *in_fork(Body &&body);
// fork for a check: the child dies with the thread that forked it, so a runner that is killed leaves none behind.
pid_t fork_of_check();
const char *judge_fork(pid_t child);
[[noreturn]] void end_fork(const char *wrong);

// While it lives, limits the process to what it has now plus `more_bytes`.
class Limit {
  public:
    Limit(int resource, std::size_t used_bytes, std::size_t more_bytes);
    Limit(const Limit &) = delete;
    Limit &operator=(const Limit &) = delete;
    ~Limit();
    bool set() const { return set_; }

  private:
    int resource_;
    unsigned long before_ = 0;
    bool set_ = false;
};

// Sizes that most mallocs treat as small, middle, large and huge, some of them odd.
std::span<const std::size_t> all_sizes();

// Writes a pattern over the first and last 64 bytes, or over the whole block.
void mark(void *block, std::size_t size, unsigned char seed);
bool marked(const void *block, std::size_t size, unsigned char seed);
void fill(void *block, std::size_t size, unsigned char seed);
bool filled(const void *block, std::size_t size, unsigned char seed);
bool all_zero(const void *block, std::size_t size);

// Allocates, checks and frees each size by each of malloc, calloc, realloc and the aligned forms.
// Null, or what was wrong: the call, its sizes, what it gave, and errno. Any thread.
const char *exercise(const Subject &subject);

// A text in static memory, for what was wrong; later ones take its place after a while. Any thread.
[[gnu::format(printf, 1, 2)]] const char *wrong_text(const char *format, ...);

// "ENOMEM"; "0" for none; the number for an error without a name.
const char *errno_text(int error);

// The first byte that is not as fill() or mark() left it; SIZE_MAX if none.
std::size_t filled_until(const void *block, std::size_t size, unsigned char seed);

template <typename Body> const char *in_fork(Body &&body)
{
    const pid_t child = fork_of_check();
    if (child < 0) return "fork failed";
    if (child == 0) end_fork(body());
    return judge_fork(child);
}

}  // namespace stress::conform

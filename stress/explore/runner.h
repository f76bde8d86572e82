// Runner: one run of a program of a few threads, each a coroutine. At every atomic access, a Chooser says which thread
// continues. The run leaves a trace.
//
// Interleavings are sequentially consistent: an access takes effect at once, for all threads. So memory orders that are
// too weak do not show as wrong values here. ThreadSanitizer sees the coroutines as threads that only the program's own
// atomics order, and reports a race in the schedules in which it happens.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "explore/chooser.h"
#include "explore/fibers/fiber.h"
#include "explore/schedule.h"
#include "explore/shares.h"

namespace stress {

// What to run. Every run calls all of them.
struct Program {
    unsigned threads = 2;
    // Also offer a choice before words of one thread's own, if what threads leave behind matters.
    bool every_point = false;
    std::function<void()> reset; // called first: restores the initial state
    std::function<void(unsigned thread)> body; // the body of each thread, run as a coroutine
    std::function<void()> judge; // called after all threads have ended; may call fibers, and fail()
};

// One access.
struct TracePoint {
    std::uint8_t thread = 0;
    const char *what = ""; // "lock_wait": no access, the thread waits
    const volatile void *address = nullptr;
    const char *step = ""; // the step that the thread named last (base/sync_point.h)
};

struct Outcome {
    const char *rule = nullptr; // the first broken rule; nullptr: none
    char detail[400] = "";
    std::uint64_t points = 0;
    std::uint64_t hash = 0; // over the trace, in order: equal for equal runs
    unsigned preemptions = 0;
    Schedule schedule;
};

// One at a time. A signal that would end the process (SIGABRT, SIGSEGV, SIGBUS) ends the current run instead, as a
// failure.
class Runner {
  public:
    static constexpr unsigned kThreadsMax = Fibers::kMax - 1; // the last fiber is for the judge

    Runner();
    ~Runner();
    Runner(const Runner &) = delete;
    Runner &operator=(const Runner &) = delete;

    const Outcome &run(const Program &program, Chooser &chooser, Shares &shares);
    const std::vector<TracePoint> &trace() const { return trace_; }

    Fibers &fibers() { return fibers_; }

    // Call it before setup, outside of a run: clears the failure.
    void begin_setup();
    const Outcome &outcome() const { return outcome_; }

    // For a body or judge: records the first broken rule. The body stops there.
    void fail(const char *rule, const char *format, ...) __attribute__((format(printf, 3, 4)));
    bool failed() const { return outcome_.rule != nullptr; }
    // For a body: no other thread continues from now on, as in the child of a fork.
    void alone();
    // Calls the function on a fiber without interruption, for setup and judge. The fiber after those of the program's
    // threads is free for it. False: it did not end, which is a failure.
    bool call(unsigned fiber, const std::function<void()> &function);

    // A run with more accesses counts as one that never ends.
    std::uint64_t points_max = 100000;

  private:
    struct Thread {
        Runner *runner = nullptr;
        TracePoint access; // the access that it is about to make, or made last
        const volatile void *waits_for = nullptr;
        bool began = false, ended = false, has_choice = false;
        bool is_before = false; // whether it stopped before `access`
    };

    static bool on_point_alone(void *context, stress_site &site, const volatile void *address);
    static bool on_point(void *context, stress_site &site, const volatile void *address);
    static void body_in_fiber(void *thread);
    static void on_signal(int signal);
    bool point(stress_site &site, const volatile void *address);
    void access(Thread &thread);
    unsigned candidates() const;
    void stretch_ends(bool whole);
    void go(unsigned thread);
    void rest();
    void note(const char *rule, const char *detail);

    Fibers fibers_;
    Thread threads_[kThreadsMax];
    const Program *program_ = nullptr;
    Chooser *chooser_ = nullptr;
    Shares *shares_ = nullptr;
    unsigned running_ = 0;
    unsigned next_ = kNobody;
    std::uint32_t stretch_points_ = 0;
    bool alone_ = false;
    std::uint64_t alone_points_ = 0;
    Outcome outcome_;
    std::vector<TracePoint> trace_;

    static constexpr unsigned kNobody = ~0u;
};

} // namespace stress

// Runner: one run of a program of a few threads, each a coroutine, where a Chooser says at every atomic access who goes
// on. What happened is kept as a trace.
//
// Interleavings are sequentially consistent: an access takes effect at once, for all. Orders that are too weak do not
// show as wrong values here; under ThreadSanitizer, to which the coroutines are threads that only the program's own
// atomics order, a race that they leave is reported in the schedules where it happens.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "explore/chooser.h"
#include "explore/fiber.h"
#include "explore/schedule.h"
#include "explore/shares.h"

namespace stress {

// What is run. All are called in every run.
struct Program {
    unsigned threads = 2;
    bool every_point = false; // a choice before words of one thread's own as well: what threads leave behind matters
    std::function<void()> reset; // before: the state as it is to be at the beginning
    std::function<void(unsigned thread)> body; // of each thread, as a coroutine
    std::function<void()> judge; // after all have ended; may call fibers, and fail()
};

// One access.
struct TracePoint {
    std::uint8_t thread = 0;
    const char *what = ""; // "lock_wait": none, the thread waits
    const volatile void *address = nullptr;
    const char *step = ""; // that the thread named last (base/sync_point.h)
};

struct Outcome {
    const char *rule = nullptr; // that was broken first; nullptr: none
    char detail[400] = "";
    std::uint64_t points = 0;
    std::uint64_t hash = 0; // over the trace, in order: equal where two runs are
    unsigned preemptions = 0;
    Schedule schedule;
};

// One at a time. Signals that end a process (SIGABRT, SIGSEGV, SIGBUS) end the run in which they come, as a failure.
class Runner {
  public:
    static constexpr unsigned kThreadsMax = Fibers::kMax - 1; // one more is for the judge

    Runner();
    ~Runner();
    Runner(const Runner &) = delete;
    Runner &operator=(const Runner &) = delete;

    const Outcome &run(const Program &program, Chooser &chooser, Shares &shares);
    const std::vector<TracePoint> &trace() const { return trace_; }

    Fibers &fibers() { return fibers_; }

    // Before setup, outside of a run: nothing has failed.
    void begin_setup();
    const Outcome &outcome() const { return outcome_; }

    // In a body or judge: the first rule that is broken. The body goes no further.
    void fail(const char *rule, const char *format, ...) __attribute__((format(printf, 3, 4)));
    bool failed() const { return outcome_.rule != nullptr; }
    // In a body: no other thread goes on from now, as in the child of a fork.
    void alone();
    // Calls the function on a fiber, which nobody interrupts: for setup and judge. The fiber after those of the
    // program's threads is free for it. False: it did not end, and that is a failure.
    bool call(unsigned fiber, const std::function<void()> &function);

    // Accesses of one run, beyond which it is taken for one that never ends.
    std::uint64_t points_max = 100000;

  private:
    struct Thread {
        Runner *runner = nullptr;
        TracePoint access; // that it stands before, or did last
        const volatile void *waits_for = nullptr;
        bool began = false, ended = false, has_choice = false;
        bool is_before = false; // it stopped before `access`
    };

    static bool on_point_alone(void *context, const char *what, const volatile void *address);
    static bool on_point(void *context, const char *what, const volatile void *address);
    static void body_in_fiber(void *thread);
    static void on_signal(int signal);
    bool point(const char *what, const volatile void *address);
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

// The seeded scheduler: one thread runs at a time, and at every sync point the seed decides which one runs next.
//
// Sync points are the engine's (before each op) and, on the debug-validation build, the allocator's own. The order of
// everything that threads do is then a function of the seed, and two runs are equal when their logical clock (sync
// points passed) and schedule hash (over step names and choices) are equal.
//
// The seed draws one of two policies. PCT (Burckhardt et al., ASPLOS 2010) gives threads random priorities, runs the
// highest, and at random points drops the running thread to the lowest. Random walk switches to any thread at random
// points.
//
// Law: only the thread that holds the baton runs the subject's code or touches the state below. The baton passes
// through a futex word of the next thread, which also orders the two threads.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/base/mapped.h"
#include "engine/base/rng.h"

namespace stress {

class Sched {
  public:
    // At most one scheduler exists at a time. It sets `stop` when every thread waits for another.
    Sched(std::uint64_t seed, std::atomic<bool> &stop);
    ~Sched();
    Sched(const Sched &) = delete;
    Sched &operator=(const Sched &) = delete;

    // The creator holds the baton and takes a ticket for a new thread with admit, calls pthread_create, and on success
    // calls admitted; from then on the thread may be chosen. ~0: no ticket is left.
    std::size_t admit();
    void admitted(std::size_t ticket, pthread_t thread);

    // The first call of an admitted thread; returns when it is its turn.
    void enter(std::size_t ticket);
    // The last call of its body. The thread keeps the baton while its destructors run, until the system has ended it.
    void leave();

    // Called by the main thread: runs all admitted threads to their end, then joins them with `join`.
    void run(void (*join)(pthread_t thread));

    void point(const char *step);
    void blocked(const char *step);
    // Lets another thread run, if one can, without waiting for anything.
    void give_way(const char *step);
    // Records the step of the subject's code that the current thread is at; nullptr: outside. For others_inside.
    void at_subject_step(const char *step)
    {
        if (current_ != kNobody) threads_[current_].subject_step = step;
    }
    // The number of other threads that are stopped inside the subject.
    std::size_t others_inside() const;
    void progress();
    // A lock that the scheduler knows about, for code that takes locks of libc while it calls the subject. A thread
    // that waited inside libc would keep the baton for ever. Nests.
    void hold();
    void unhold();
    // Called in the child of fork, which has no other thread.
    void forked();

    // For reports: the thread that holds the baton, and the last sync point that a thread passed.
    std::size_t current() const { return current_; }
    const char *last_step(std::size_t ticket) const { return threads_[ticket].last_step; }

    std::uint64_t clock() const { return clock_; }
    std::uint64_t hash() const { return hash_; }
    // Addresses of both, to be read when the process has crashed.
    const std::uint64_t *clock_word() const { return &clock_; }
    const std::uint64_t *hash_word() const { return &hash_; }
    // The time that the allocator under test is given, so that its decay does not depend on the real clock.
    std::uint64_t now_ms() const { return 1000 + clock_ / 64; }

  private:
    struct Thread {
        std::atomic<std::uint32_t> go{0};
        pthread_t handle{};
        pid_t id = 0;
        bool alive = false; // from admitted() until the system has ended it
        bool leaving = false;
        bool ended = false;
        std::uint32_t priority = 0;
        const char *last_step = "none";
        const char *subject_step = nullptr;
        std::uint64_t blocked_at = 0; // value of moves_ when it last could not continue; 0: it can
    };
    static constexpr std::size_t kThreadsMax = 8192;
    static constexpr std::size_t kNobody = ~std::size_t{0};

    void step(const char *name);
    std::size_t choose(bool but_me);
    void pass_to(std::size_t next);
    void wait_for_turn(std::size_t ticket);
    void publish_leaver(std::size_t ticket);
    void republish();
    bool dead(const Thread &thread) const;

    Rng rng_;
    std::atomic<bool> &stop_;
    Mapped<Thread> threads_;
    std::size_t count_ = 0; // tickets given out
    std::size_t alive_count_ = 0;
    std::size_t first_alive_ = 0;
    std::size_t current_ = kNobody;
    std::atomic<std::size_t> leaver_{kNobody}; // the current thread, if it is leaving
    std::uint64_t clock_ = 0;
    std::uint64_t hash_ = 0xcbf29ce484222325ULL;
    std::uint64_t moves_ = 1;
    std::size_t holder_ = kNobody;
    std::uint32_t hold_depth_ = 0;
    std::uint32_t lowest_ = 1U << 31;
    bool pct_;
    std::uint64_t change_period_;
};

// The scheduler that exists, or nullptr: threads then run as the system schedules them.
extern Sched *sched_now;

// Whether the seeded scheduler controls this thread.
bool sched_active();

// Called on this thread at each sync point that it passes; nullptr: none. Each thread sets its own, so that signals
// come where the seed says (team/signals.h).
using SchedHook = void();
extern constinit thread_local SchedHook *sched_at_point;

inline void sched_point(const char *step)
{
    if (sched_now != nullptr) [[unlikely]]
        sched_now->point(step);
}
void sched_blocked(const char *step);
inline void sched_progress()
{
    if (sched_now != nullptr) [[unlikely]]
        sched_now->progress();
}

// Called by the subject's hooks (see whitebox.h).
void sched_subject_step(const char *step);
unsigned long long sched_subject_ms();

// While it lives, this thread passes sync points without a switch. Used around fork: some of its handlers pass sync
// points when no other thread can run, and in the child there is no other thread.
struct SchedPause {
    SchedPause();
    ~SchedPause();
    SchedPause(const SchedPause &) = delete;
    SchedPause &operator=(const SchedPause &) = delete;
};

// See Sched::hold. Does nothing without the seeded scheduler.
struct SchedHold {
    SchedHold()
    {
        if (sched_active()) sched_now->hold();
    }
    ~SchedHold()
    {
        if (sched_active()) sched_now->unhold();
    }
    SchedHold(const SchedHold &) = delete;
    SchedHold &operator=(const SchedHold &) = delete;
};

} // namespace stress

// A run of the subject: its threads, who continues, and the memory that they see. The entries (entry/) report to it what
// instrumented code does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "order/model/memory.h"
#include "order/model/races.h"
#include "order/run/search.h"
#include "order/run/sharing.h"
#include "order/run/stacks.h"
#include "order/run/threads.h"

namespace stress::order {

// An event of a run, for reports.
struct Step {
    enum class Kind : std::uint8_t { load, store, update, compare, fence, lock, unlock, wait, note };
    Kind kind;
    unsigned thread;
    Event event;
    std::uintptr_t address = 0;
    unsigned bytes = 0;
    Order order = Order::relaxed;
    Seen seen;
    Value written = 0;
    std::uint32_t stack = 0;
    std::string text; // of a note
};

class Machine {
  public:
    struct Result {
        bool is_pruned = false; // the chooser knew what would follow
        bool is_given_up = false; // too many steps
        bool has_outgrown = false; // more memory is shared than was known: the run is void
        std::optional<Race> race;
        std::string failure; // another one; empty: none
        std::uint64_t points = 0; // places where a thread could be switched
    };

    Machine(Threads &threads, Rules rules) : threads_(&threads), rules_(rules) {}
    virtual ~Machine() = default;

    // Whether steps and call stacks are kept, for a report.
    void keep_steps(bool keeps) { keeps_steps_ = keeps; }
    bool keeps_steps() const { return keeps_steps_; }
    // A run with more points is given up.
    void limit_points(std::uint64_t most) { points_max_ = most; }
    // A thread may be switched before each store, also of private memory: a forked child sees those, and not the next ones.
    void stop_at_stores() { stops_at_stores_ = true; }
    // Only what is shared is seen by the model, and only before it a thread may be switched.
    void reduce_to(Sharing &sharing) { sharing_ = &sharing; }
    // Data races are no failures: to find what lies behind one that is known.
    void ignore_races() { ignores_races_ = true; }
    const std::vector<Step> &steps() const { return steps_; }
    const Stacks &stacks() const { return stacks_; }

    // Runs the body in threads 0 to count - 1. What the caller did before happens before all of it.
    Result run(unsigned count, const std::function<void(unsigned)> &body, Chooser &chooser);

    // The machine whose thread calls; nullptr: no thread of a run does, and the access is none of the subject's.
    static Machine *current() { return now_ != nullptr && now_->is_inside_ ? now_ : nullptr; }

    // What instrumented code does. `place`: its program counter.
    virtual Seen load(const volatile void *address, unsigned bytes, Order order, std::uintptr_t place);
    virtual void store(volatile void *address, unsigned bytes, Value value, Order order, std::uintptr_t place);
    virtual Seen update(volatile void *address, unsigned bytes, Memory::Update kind, Value operand, Order order,
                        std::uintptr_t place);
    virtual Seen compare_exchange(volatile void *address, unsigned bytes, Value expected, Value desired, bool is_weak,
                                  Order success, Order failure, std::uintptr_t place);
    virtual void fence(Order order, std::uintptr_t place);
    virtual void plain(const volatile void *address, std::size_t bytes, bool is_write, std::uintptr_t place);
    // A malloc announces a block that it takes or gives by an access that it does not make.
    virtual void declare(const volatile void *address, std::size_t bytes, bool is_write, std::uintptr_t place)
    {
        plain(address, bytes, is_write, place);
    }
    void enter_function(std::uintptr_t caller)
    {
        if (keeps_steps_) stack_[running_] = stacks_.push(stack_[running_], caller);
    }
    void leave_function()
    {
        if (keeps_steps_) stack_[running_] = stacks_.pop(stack_[running_]);
    }

    // Memory that the system gave, took or zeroed: nobody has touched it.
    virtual void forget(const volatile void *address, std::size_t bytes);
    // Locks, by address. unlock() of one that the thread does not hold is a failure.
    virtual void lock(const void *lock, bool is_recursive);
    virtual bool try_lock(const void *lock, bool is_recursive);
    virtual void unlock(const void *lock);
    // Makes the lock free, as initialising it does. A failure if another thread of this process holds it.
    void make_lock(const void *lock);
    // The child of a fork finds this lock free even if a thread that is gone holds it: that of pthread_once.
    void free_at_fork(const void *lock) { locks_[lock].is_free_at_fork = true; }
    // Blocks until another thread calls wake() with this key. Orders nothing.
    virtual void wait(const void *key);
    virtual void wake(const void *key, unsigned count);
    // Another thread continues, if one can.
    virtual void yield();
    // Before a call that other threads can notice.
    virtual void turn(const void *key) { point(key, true); }
    // The thread has learnt this from such a call, and may do other things for it.
    virtual void learn(std::uint64_t what) { memory_->learn(running_, what); }
    // What happened in the last run, as a number: the same for runs that differ only in the order of independent steps.
    std::uint64_t digest() const;
    // Order by other means than memory, as a program orders its threads: what was before release(key) happens before what
    // comes behind acquire(key).
    void release(const void *key);
    void acquire(const void *key);
    // While only one thread has anything to do, and all that others did before or will do later is ordered by other means: what
    // it does is no choice, and is not recorded.
    void be_sole(bool is_sole) { is_sole_ = is_sole; }
    // Waits until the thread has ended.
    void join(unsigned thread);
    bool has_ended(unsigned thread) const { return has_ended_[thread]; }
    // The running thread continues as the child of a fork, and runs the handlers before any other thread does. Threads that
    // have made a step are gone, wherever they are. The child starts the others.
    void fork(const std::function<void()> &handlers);

    // The thread has ended a call, so it does not spin.
    void advance() { sole_ = 0; }

    // The process dies: nothing that happens from now on is the subject's.
    void abandon() { now_ = nullptr; }
    static bool is_in_run() { return now_ != nullptr; }
    unsigned running() const { return running_; }
    void note(std::string text);
    [[noreturn]] virtual void fail(std::string text);

  protected:
    static Machine *now_;
    Threads *threads_;
    unsigned running_ = 0;
    bool is_inside_ = false; // a thread of the run runs, and not this code

  private:
    static void enter(unsigned thread);
    static void end(unsigned thread);
    // Before each step that other threads can notice: here another one may continue. `key`: the memory, or the like, that the
    // step is about.
    void point(const volatile void *key, bool is_write);
    void stop(const volatile void *address);
    void pause();
    bool can_another_run() const;
    // Whether no other thread can notice an access. It counts as a plain access then.
    bool is_private(const volatile void *address, unsigned bytes, bool is_write);
    bool is_shared(const volatile void *address, std::size_t bytes, bool is_write);
    void choose_next(bool can_continue);
    void judge(const volatile void *address, std::size_t bytes, PlainOrAtomic kind, Event event, std::uintptr_t place);
    void keep(Step::Kind kind, const volatile void *address, unsigned bytes, Order order, const Seen &seen,
              Value written, std::uintptr_t place);
    [[noreturn]] void leave();
    void hand_over(unsigned to);

    struct Lock {
        unsigned owner = kMain, depth = 0;
        bool is_free_at_fork = false;
        Clock clock;
    };

    Rules rules_;
    std::optional<Memory> memory_;
    Races races_;
    Stacks stacks_;
    Sharing *sharing_ = nullptr; // nullptr: all memory is shared
    std::vector<Step> steps_;
    Chooser *chooser_ = nullptr;
    const std::function<void(unsigned)> *body_ = nullptr;
    Result result_;
    unsigned count_ = 0;
    bool keeps_steps_ = false, ignores_races_ = false, stops_at_stores_ = false;
    bool is_sole_ = false;
    bool is_alone_ = false; // in a child that has just been forked
    bool has_forked_ = false;
    std::uint64_t points_max_ = ~std::uint64_t{0};
    std::uint64_t stops_ = 0; // of the points, those before stores to private memory
    unsigned alone_ = 0; // points since the last switch
    unsigned quiet_ = 0; // private accesses since the last point
    unsigned sole_ = 0; // in a child of fork, points since another thread could run, or the thread has ended a call
    bool is_fresh_[kThreadsMax] = {}; // has made no step
    bool has_ended_[kThreadsMax] = {};
    const void *waits_for_[kThreadsMax] = {};
    std::uint32_t stack_[kThreadsMax] = {};
    std::unordered_map<const void *, Lock> locks_;
    std::unordered_map<const void *, Clock> clocks_;
};

} // namespace stress::order

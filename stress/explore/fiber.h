// Fibers: the threads of a run as coroutines of one kernel thread, so that who goes on is decided here, at every atomic
// access of the allocator (points.h), and is the same in every run. Each has a stack and the allocator's thread-local
// variables (HAK_TLS) of its own. AddressSanitizer and ThreadSanitizer are told of each change; ThreadSanitizer sees
// the fibers as threads that nothing orders but what the allocator does, and begin() and end() of a run.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stress {

// What the caller is asked at each point of a running fiber: true stops it there.
// `what` is the kind of access; "lock_wait" where the fiber cannot go on until another has.
using FiberPoint = bool(void *context, const char *what, const volatile void *address);

class Fibers {
  public:
    static constexpr unsigned kMax = 8;
    static constexpr std::size_t kStackBytes = 256 << 10;

    Fibers();
    ~Fibers();
    Fibers(const Fibers &) = delete;
    Fibers &operator=(const Fibers &) = delete;

    // Asked at each point, until the next call. nullptr: fibers do not stop.
    void on_point(FiberPoint *function, void *context);

    // Or: asked at the fiber's n-th access from now, but at no other (0: at none), and where it waits for a lock. Until
    // the fiber's thread begins anew.
    void ask_at(unsigned fiber, unsigned access);
    // What such fibers have done, in all: how many accesses, and a hash of which fiber did what kind, in their order.
    struct Passed {
        std::uint64_t accesses = 0;
        std::uint64_t hash = 0;
    };
    const Passed &passed() const { return passed_; }
    void forget_passed() { passed_ = {}; }

    // Around a run: every fiber is a new thread, and whatever was done before is ordered before all that they do.
    void begin(unsigned count);
    void end();

    // Gives the fiber something to do and starts it. Returns when it has stopped at a point or has done it.
    void call(unsigned fiber, void (*function)(void *), void *argument);
    // Goes on with one that has stopped.
    void resume(unsigned fiber);
    // Whether it has stopped at a point.
    bool is_stopped(unsigned fiber) const { return fibers_[fiber].busy; }
    // The step that a fiber last named (base/sync_point.h), for reports.
    const char *step(unsigned fiber) const { return fibers_[fiber].step; }

    // The fiber's thread-local variables as a new thread has them. Not while it is stopped.
    void renew(unsigned fiber);

    // What begin() gives every fiber's variables from now on: what they hold now, or (forget) what a new thread has.
    // Not while one is stopped.
    void keep();
    void forget();

    // Whether a switch orders, to ThreadSanitizer, what was done before it and after it: where none run side by side.
    void order_switches(bool order) { unordered_ = order ? 0 : 1; }
    // What all fibers have done is ordered before what the running one does next, as in the child of a fork.
    void order_others();

    // Leaves the running fiber where it stands, as at a point. From a signal handler too.
    void stop();
    // A fiber that has stopped never goes on; it can be called anew.
    void abandon(unsigned fiber);

    // Whose thread-local variable stands at the address: the fiber, and the variable as the linker knows it. -1: none.
    int whose(const volatile void *address, std::uintptr_t &variable) const;

    // Of the running fiber; kMax: none runs.
    unsigned current() const { return current_; }

    // What the allocator calls; see points.h. First passes(): true where nobody is to be asked.
    bool passes(const char *what)
    {
        if (current_ == kMax) return true;
        Fiber &fiber = fibers_[current_];
        if (fiber.asks_always) return false;
        passed_.accesses++;
        passed_.hash = (passed_.hash ^ (current_ + 1) ^ static_cast<unsigned char>(what[0])) * kHashPrime;
        return --fiber.until_asked != 0;
    }
    void point(const char *what, const volatile void *address);
    void named(const char *step);
    // The running fiber's errno (own_libc.h); nullptr: none runs.
    int *own_errno() { return current_ == kMax ? nullptr : &fibers_[current_].error; }

  private:
    static constexpr std::uint64_t kHashPrime = 0x100000001b3ULL; // FNV-1a

    struct Fiber {
        void *stack_pointer = nullptr;
        unsigned char *stack = nullptr;
        unsigned char *variables = nullptr;
        unsigned char *kept = nullptr; // what begin() copies there
        void *thread = nullptr; // ThreadSanitizer's
        void *shadow = nullptr; // AddressSanitizer's
        void (*function)(void *) = nullptr;
        void *argument = nullptr;
        const char *step = "";
        int error = 0;
        unsigned until_asked = 0; // accesses; 0: so many that it never is
        bool asks_always = true;
        bool busy = false;
    };

    static void entry();
    [[noreturn]] void work();
    void enter(unsigned fiber);
    void leave();
    void make(Fiber &fiber);

    Fiber fibers_[kMax];
    void *main_stack_pointer_ = nullptr;
    void *main_thread_ = nullptr;
    void *main_shadow_ = nullptr;
    const void *main_stack_ = nullptr;
    std::size_t main_stack_bytes_ = 0;
    unsigned current_ = kMax;
    unsigned count_ = 0;
    unsigned unordered_ = 1; // __tsan_switch_to_fiber: the switch itself orders nothing
    Passed passed_;
    FiberPoint *on_point_ = nullptr;
    void *context_ = nullptr;
    unsigned char *pristine_ = nullptr;
};

} // namespace stress

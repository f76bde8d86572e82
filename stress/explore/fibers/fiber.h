// Fibers: the threads of a run as coroutines of one kernel thread. So this code decides which one continues, at every
// atomic access of the allocator (points.h), and the decision is the same in every run. Each fiber has its own stack
// and its own copy of the allocator's thread-local variables (HAK_TLS). AddressSanitizer and ThreadSanitizer are
// informed of each switch. ThreadSanitizer sees the fibers as threads that only the allocator orders, plus begin() and
// end() of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "explore/inside/site.h"

namespace stress {

// Called at each point of a running fiber; true stops the fiber there.
// site: where it is; kLockWait: no access, the fiber cannot continue until another one has.
using FiberPoint = bool(void *context, stress_site &site, const volatile void *address);

class Fibers {
  public:
    static constexpr unsigned kMax = 8;
    static constexpr std::size_t kStackBytes = 256 << 10;
    static stress_site kLockWait;

    Fibers();
    ~Fibers();
    Fibers(const Fibers &) = delete;
    Fibers &operator=(const Fibers &) = delete;

    // Calls this function at each point, until it is replaced. nullptr: fibers do not stop.
    void on_point(FiberPoint *function, void *context);

    // Alternatively: calls it at the fiber's n-th access from now and at no other (0: at none), and whenever it waits
    // for a lock. Lasts until the fiber gets a new thread.
    void ask_at(unsigned fiber, unsigned access);
    // What such fibers have done in total: the number of accesses, and a hash of which fiber did which kind, in order.
    struct Passed {
        std::uint64_t accesses = 0;
        std::uint64_t hash = 0;
    };
    const Passed &passed() const { return passed_; }
    void forget_passed() { passed_ = {}; }

    // Begins and ends a run: every fiber is a new thread, and everything done before is ordered before what they do.
    void begin(unsigned count);
    void end();

    // Gives the fiber a function and starts it. Returns when it has stopped at a point or has finished.
    void call(unsigned fiber, void (*function)(void *), void *argument);
    // Continues a fiber that has stopped.
    void resume(unsigned fiber);
    // Whether the fiber has stopped at a point.
    bool is_stopped(unsigned fiber) const { return fibers_[fiber].busy; }
    // The step that a fiber named last (base/sync_point.h); for reports.
    const char *step(unsigned fiber) const { return fibers_[fiber].step; }

    // Gives the fiber the thread-local variables of a new thread. Not while it is stopped.
    void renew(unsigned fiber);

    // Sets what begin() gives to every fiber's variables from now on: keep() their present content, forget() the
    // content of a new thread. Not while a fiber is stopped.
    void keep();
    void forget();

    // From now until forget(): what fibers write to standard error is counted instead. A report is a write that begins so.
    void count_reports(std::string_view begin = "")
    {
        counts_reports_ = true;
        report_begin_ = begin;
    }
    // Since begin().
    std::uint32_t reports() const { return reports_; }
    bool takes_report(std::string_view text)
    {
        reports_ += counts_reports_ && text.starts_with(report_begin_);
        return counts_reports_;
    }

    // Whether, for ThreadSanitizer, a switch orders what comes before it and after it. For times when no two fibers run
    // side by side.
    void order_switches(bool order) { unordered_ = order ? 0 : 1; }
    // Orders what all fibers have done before what the running one does next, as in the child of a fork.
    void order_others();

    // Stops the running fiber where it is, as at a point. Also from a signal handler.
    void stop();
    // Gives up a fiber that has stopped; it can be called again for something else.
    void abandon(unsigned fiber);

    // The fiber whose thread-local variable is at this address, and the variable's address as the linker knows it. -1:
    // none.
    int whose(const volatile void *address, std::uintptr_t &variable) const;

    // The running fiber; kMax: none runs.
    unsigned current() const { return current_; }

    // Called by the allocator; see points.h. First passes(): true if nothing needs to be asked.
    bool passes(const stress_site &site)
    {
        if (current_ == kMax) return true;
        Fiber &fiber = fibers_[current_];
        if (fiber.asks_always) return false;
        passed_.accesses++;
        passed_.hash = (passed_.hash ^ (current_ + 1) ^ static_cast<unsigned char>(site.what[0])) * kHashPrime;
        return --fiber.until_asked != 0;
    }
    void point(stress_site &site, const volatile void *address);
    void named(const char *step);
    // The running fiber's errno (own_libc.h); nullptr: no fiber runs.
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
        unsigned until_asked = 0; // accesses; 0: practically never
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
    unsigned unordered_ = 1; // for __tsan_switch_to_fiber: the switch itself orders nothing
    Passed passed_;
    bool counts_reports_ = false;
    std::uint32_t reports_ = 0;
    std::string_view report_begin_;
    FiberPoint *on_point_ = nullptr;
    void *context_ = nullptr;
    unsigned char *pristine_ = nullptr;
};

} // namespace stress

#include "explore/runner.h"

#include <bit>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "explore/inside/inside_watch.h"

// ThreadSanitizer calls this with each report.
extern "C" void __tsan_on_report(void *report);

namespace stress {
namespace {

constexpr std::uint64_t kHashPrime = 0x100000001b3ULL;
constexpr int kSignals[] = {SIGABRT, SIGSEGV, SIGBUS};

Runner *runner_now = nullptr;
bool race_reported = false;

// Whether the access may change the word to what a waiter waits for. A compare-and-swap by which another thread tries
// the lock does not count.
bool is_store(const char *what)
{
    return what[0] != 'l' && what[0] != 'c';
}

}  // namespace

Runner::Runner()
{
    runner_now = this;
    trace_.reserve(1 << 16);
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_NODEFER;  // the handler does not return
    for (int signal : kSignals) sigaction(signal, &action, nullptr);
}

Runner::~Runner()
{
    for (int signal : kSignals) std::signal(signal, SIG_DFL);
    runner_now = nullptr;
}

void Runner::note(const char *rule, const char *detail)
{
    if (failed()) return;
    outcome_.rule = rule;
    std::snprintf(outcome_.detail, sizeof outcome_.detail, "%s", detail);
}

// --- inside a fiber -------------------------------------------------------------------------------------------------

void Runner::fail(const char *rule, const char *format, ...)
{
    char detail[sizeof outcome_.detail];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    note(rule, detail);
    if (fibers_.current() != Fibers::kMax) fibers_.stop();
}

// A fault of the process (an abort() of the allocator's checks, a wild access) counts as the run's: the fiber never
// continues.
void Runner::on_signal(int signal)
{
    if (signal == SIGABRT) inside_survive_abort();
    if (runner_now == nullptr || runner_now->fibers_.current() == Fibers::kMax) {
        std::signal(signal, SIG_DFL);
        std::raise(signal);
        return;
    }
    runner_now->fail("crash", "%s in thread %u, near %s",
                     signal == SIGABRT ? "the allocator's checks ended the process" : "a wild access",
                     runner_now->fibers_.current(), runner_now->fibers_.step(runner_now->fibers_.current()));
}

void Runner::body_in_fiber(void *argument)
{
    auto &thread = *static_cast<Thread *>(argument);
    thread.runner->program_->body(thread.runner->running_);
}

bool Runner::on_point(void *context, stress_site &site, const volatile void *address)
{
    return static_cast<Runner *>(context)->point(site, address);
}

// Makes the access that the thread is about to make. No other thread runs until its next point. A thread that waits for
// a lock continues when another one has stored there.
void Runner::access(Thread &thread)
{
    const TracePoint &now = thread.access;
    trace_.push_back(now);
    outcome_.hash = (outcome_.hash ^ reinterpret_cast<std::uintptr_t>(now.address) ^ (now.thread + 1u)) * kHashPrime;
    if (!is_store(now.what)) return;
    for (Thread &other : threads_)
        if (other.waits_for == now.address) other.waits_for = nullptr;
}

bool Runner::point(stress_site &site, const volatile void *address)
{
    Thread &thread = threads_[running_];
    if (&site == &Fibers::kLockWait) {
        // The previous access tried the lock.
        thread.waits_for = thread.access.address;
        trace_.push_back({static_cast<std::uint8_t>(running_), site.what, thread.waits_for, fibers_.step(running_)});
        return true;
    }
    const bool is_shared = shares_->note(running_, site.what, address);
    site.threads |= static_cast<std::uint8_t>(1u << running_);
    if (is_shared) site.threads_shared |= static_cast<std::uint8_t>(1u << running_);
    // Before a thread's first such access, it has done nothing yet that others could see.
    const bool is_choice = (is_shared || program_->every_point) && thread.has_choice;
    thread.has_choice = thread.has_choice || is_shared || program_->every_point;
    thread.access = {static_cast<std::uint8_t>(running_), site.what, address, fibers_.step(running_)};
    ++stretch_points_;
    if (++outcome_.points > points_max) {
        note("progress", "the run does not end: too many accesses");
        return true;
    }
    const unsigned next = chooser_->at_point(running_, candidates() & ~(1u << running_), is_choice);
    if (next == running_) {
        access(thread);
        return false;
    }
    ++outcome_.preemptions;
    stretch_ends(false);
    next_ = next;
    thread.is_before = true;
    return true;
}

void Runner::alone()
{
    alone_ = true;
    fibers_.order_others();
}

// --- a run ----------------------------------------------------------------------------------------------------------

unsigned Runner::candidates() const
{
    if (alone_) return threads_[running_].ended || threads_[running_].waits_for != nullptr ? 0 : 1u << running_;
    unsigned mask = 0;
    for (unsigned i = 0; i < program_->threads; ++i)
        if (!threads_[i].ended && threads_[i].waits_for == nullptr) mask |= 1u << i;
    return mask;
}

void Runner::stretch_ends(bool whole)
{
    outcome_.schedule.push_back({running_, whole ? Stretch::kToItsEnd : stretch_points_});
    stretch_points_ = 0;
}

void Runner::go(unsigned index)
{
    Thread &thread = threads_[index];
    running_ = index;
    next_ = kNobody;
    if (thread.is_before) access(thread);
    thread.is_before = false;
    if (thread.began) {
        fibers_.resume(index);
    } else {
        thread.began = true;
        fibers_.call(index, body_in_fiber, &thread);
    }
    thread.ended = !fibers_.is_stopped(index);
    if (next_ == kNobody) stretch_ends(true);
    if (race_reported) note("race", "see ThreadSanitizer's report above");
}

void Runner::begin_setup()
{
    outcome_ = Outcome{};
    race_reported = false;
}

// Nobody runs.
void Runner::rest()
{
    const unsigned mask = candidates();
    if (mask != 0) {
        next_ = chooser_->at_rest(mask);
        return;
    }
    next_ = kNobody;
    for (unsigned i = 0; i < program_->threads; ++i)
        if (threads_[i].waits_for != nullptr && (!alone_ || i == running_))
            note("deadlock", "every thread that has not ended waits for a lock");
}

const Outcome &Runner::run(const Program &program, Chooser &chooser, Shares &shares)
{
    program_ = &program;
    chooser_ = &chooser;
    shares_ = &shares;
    outcome_ = Outcome{};
    trace_.clear();
    alone_ = false;
    race_reported = false;
    stretch_points_ = 0;
    for (Thread &thread : threads_) {
        thread = Thread{};
        thread.runner = this;
    }
    program.reset();
    fibers_.begin(program.threads + 1); // also orders, for ThreadSanitizer, what reset() did before the fibers' work
    fibers_.on_point(on_point, this);
    rest();
    while (next_ != kNobody) {
        go(next_);
        if (failed()) break;
        if (next_ == kNobody) rest();
    }
    fibers_.on_point(nullptr, nullptr);
    for (unsigned i = 0; i < program.threads; ++i)
        if (fibers_.is_stopped(i)) fibers_.abandon(i);
    fibers_.end();
    if (!failed() && program.judge) program.judge();
    return outcome_;
}

// A lock that is held now stays held for ever.
bool Runner::on_point_alone(void *context, stress_site &site, const volatile void *)
{
    auto &self = *static_cast<Runner *>(context);
    if (&site == &Fibers::kLockWait)
        self.note("deadlock", "a lock is still held when all threads have ended or stopped");
    if (++self.alone_points_ > self.points_max) self.note("progress", "after the run: too many accesses");
    return self.failed();
}

bool Runner::call(unsigned fiber, const std::function<void()> &function)
{
    alone_points_ = 0;
    fibers_.on_point(on_point_alone, this);
    fibers_.order_switches(true);
    fibers_.call(
        fiber, [](void *argument) { (*static_cast<const std::function<void()> *>(argument))(); },
        const_cast<std::function<void()> *>(&function));
    fibers_.order_switches(false);
    fibers_.on_point(nullptr, nullptr);
    if (race_reported) note("race", "see ThreadSanitizer's report above");
    if (!fibers_.is_stopped(fiber)) return !failed();
    fibers_.abandon(fiber);
    return false;
}

} // namespace stress

void __tsan_on_report(void *)
{
    stress::race_reported = true;
}

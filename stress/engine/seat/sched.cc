#include "engine/seat/sched.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace stress {

Sched *sched_now = nullptr;
constinit thread_local SchedHook *sched_at_point = nullptr;

namespace {

// This thread's ticket plus one; 0: the scheduler does not control this thread.
thread_local std::size_t my_ticket = 0;
thread_local bool paused = false;

void futex_wait(std::atomic<std::uint32_t> &word, std::uint32_t value)
{
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t> &word)
{
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// Restores errno: a hook must not change it, since the allocator under test may be about to read it.
struct KeepErrno {
    int value = errno;
    ~KeepErrno() { errno = value; }
};

}  // namespace

Sched::Sched(std::uint64_t seed, std::atomic<bool> &stop)
    : rng_(seed, 0x5c4ed), stop_(stop), threads_(kThreadsMax), pct_(rng_.one_in(2)),
      change_period_(std::uint64_t{8} << rng_.below(6))
{
    sched_now = this;
}

Sched::~Sched()
{
    sched_now = nullptr;
}

std::size_t Sched::admit()
{
    if (count_ == kThreadsMax) return kNobody;
    // Higher than every priority that was lowered, so that a fresh thread does not start as the last.
    threads_[count_].priority = (1U << 31) + static_cast<std::uint32_t>(rng_.below(1U << 30)) + 1;
    return count_++;
}

void Sched::admitted(std::size_t ticket, pthread_t thread)
{
    threads_[ticket].handle = thread;
    threads_[ticket].alive = true;
    ++alive_count_;
}

void Sched::wait_for_turn(std::size_t ticket)
{
    std::atomic<std::uint32_t> &go = threads_[ticket].go;
    // acquire: everything that the earlier threads did is visible. Pairs with the release in pass_to.
    while (go.load(std::memory_order_acquire) == 0) futex_wait(go, 0);
    go.store(0, std::memory_order_relaxed);
}

void Sched::publish_leaver(std::size_t ticket)
{
    // release: publishes everything written with the baton. Pairs with the acquire in run. A leaving thread publishes
    // again after each thing that it does, since it may end at any time.
    leaver_.store(threads_[ticket].leaving ? ticket : kNobody, std::memory_order_release);
}

void Sched::republish()
{
    if (my_ticket != 0 && threads_[my_ticket - 1].leaving) publish_leaver(my_ticket - 1);
}

void Sched::progress()
{
    ++moves_;
    republish();
}

void Sched::pass_to(std::size_t next)
{
    current_ = next;
    publish_leaver(next);
    threads_[next].go.store(1, std::memory_order_release);
    futex_wake(threads_[next].go);
}

void Sched::enter(std::size_t ticket)
{
    threads_[ticket].id = static_cast<pid_t>(syscall(SYS_gettid));
    my_ticket = ticket + 1;
    wait_for_turn(ticket);
}

void Sched::leave()
{
    step("leave");
    Thread &me = threads_[my_ticket - 1];
    me.leaving = true;
    publish_leaver(my_ticket - 1);
}

void Sched::step(const char *name)
{
    ++clock_;
    if (current_ != kNobody) threads_[current_].last_step = name;
    for (; *name != '\0'; ++name) hash_ = (hash_ ^ static_cast<unsigned char>(*name)) * 0x100000001b3ULL;
    hash_ = (hash_ ^ current_) * 0x100000001b3ULL;
}

// The thread that runs next. With but_me the current thread is left out, because it cannot continue. kNobody: no thread
// can run.
std::size_t Sched::choose(bool but_me)
{
    while (first_alive_ < count_ && threads_[first_alive_].ended) ++first_alive_;
    const auto can_run = [this, but_me](std::size_t ticket) {
        const Thread &thread = threads_[ticket];
        return thread.alive && !(but_me && ticket == current_) && thread.blocked_at != moves_;
    };
    const std::uint64_t wanted = pct_ ? 0 : rng_.next();
    std::size_t best = kNobody, eligible = 0;
    for (std::size_t i = first_alive_; i < count_; ++i) {
        if (!can_run(i)) continue;
        ++eligible;
        if (best == kNobody || threads_[i].priority > threads_[best].priority) best = i;
    }
    if (pct_ || best == kNobody) return best;
    std::size_t left = wanted % eligible, i = first_alive_;
    while (!can_run(i) || left-- != 0) ++i;
    return i;
}

void Sched::point(const char *name)
{
    if (my_ticket == 0) return;
    const KeepErrno keep;
    step(name);
    Thread &me = threads_[my_ticket - 1];
    me.blocked_at = 0;
    if (sched_at_point != nullptr) [[unlikely]]
        sched_at_point();
    if (alive_count_ > 1 && rng_.one_in(change_period_)) {
        if (pct_) me.priority = --lowest_;
        const std::size_t next = choose(false);
        if (next != current_ && next != kNobody) {
            pass_to(next);
            wait_for_turn(my_ticket - 1);
        }
    }
    republish();
}

void Sched::blocked(const char *name)
{
    if (my_ticket == 0) return;
    const KeepErrno keep;
    step(name);
    threads_[my_ticket - 1].blocked_at = moves_;
    const std::size_t next = choose(true);
    if (next == kNobody) {
        // Every thread waits for another, so the sequence is stuck. Set stop and let all of them look again.
        stop_.store(true, std::memory_order_relaxed);
        progress();
        return;
    }
    pass_to(next);
    wait_for_turn(my_ticket - 1);
    republish();
}

void Sched::give_way(const char *name)
{
    if (my_ticket == 0) return;
    const KeepErrno keep;
    step(name);
    if (pct_) threads_[my_ticket - 1].priority = --lowest_;
    const std::size_t next = choose(true);
    if (next == kNobody) return;
    pass_to(next);
    wait_for_turn(my_ticket - 1);
    republish();
}

std::size_t Sched::others_inside() const
{
    std::size_t inside = 0;
    for (std::size_t i = first_alive_; i < count_; ++i)
        inside += i != current_ && threads_[i].alive && threads_[i].subject_step != nullptr;
    return inside;
}

void Sched::hold()
{
    const std::size_t me = my_ticket - 1;
    while (holder_ != kNobody && holder_ != me) blocked("hold");
    holder_ = me;
    ++hold_depth_;
}

void Sched::unhold()
{
    if (--hold_depth_ > 0) return;
    holder_ = kNobody;
    progress();
}

void Sched::forked()
{
    my_ticket = 0;
    sched_now = nullptr;
}

// Whether the thread's kernel thread is gone, so that it can run no more code of anybody. Joining it earlier, from
// here, would run the subject's free in this thread while others hold its locks.
bool Sched::dead(const Thread &thread) const
{
    return syscall(SYS_tgkill, getpid(), thread.id, 0) != 0 && errno == ESRCH;
}

void Sched::run(void (*join)(pthread_t thread))
{
    std::size_t next = choose(false);
    if (next == kNobody) return; // no thread could be started
    pass_to(next);
    for (;;) {
        const std::size_t ticket = leaver_.load(std::memory_order_acquire);
        if (ticket == kNobody || !dead(threads_[ticket])) {
            const timespec pause{0, 20'000};
            nanosleep(&pause, nullptr);
            continue;
        }
        leaver_.load(std::memory_order_acquire); // again, for what it did between the first look and its end
        threads_[ticket].alive = false;
        threads_[ticket].ended = true;
        --alive_count_;
        ++moves_;
        step("dead");
        leaver_.store(kNobody, std::memory_order_relaxed);
        if (alive_count_ == 0) break;
        next = choose(false);
        pass_to(next);
    }
    for (std::size_t i = 0; i < count_; ++i) {
        if (threads_[i].handle != pthread_t{}) join(threads_[i].handle);
        threads_[i].~Thread();
        new (&threads_[i]) Thread();
    }
    count_ = first_alive_ = 0;
    current_ = kNobody;
}

SchedPause::SchedPause()
{
    paused = true;
}

SchedPause::~SchedPause()
{
    paused = false;
}

bool sched_active()
{
    return sched_now != nullptr && my_ticket != 0;
}

void sched_blocked(const char *step)
{
    sched_now->blocked(step);
}

void sched_subject_step(const char *step)
{
    if (!sched_active() || paused) return;
    sched_now->at_subject_step(step);
    if (std::strcmp(step, "lock_wait") == 0) {
        sched_now->blocked(step);
    } else {
        if (std::strcmp(step, "lock_release") == 0) sched_now->progress();
        sched_now->point(step);
    }
    sched_now->at_subject_step(nullptr);
}

unsigned long long sched_subject_ms()
{
    return sched_now != nullptr ? sched_now->now_ms() : 0;
}

} // namespace stress

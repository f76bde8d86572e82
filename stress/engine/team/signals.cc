#include "engine/team/signals.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "engine/base/libc.h"
#include "engine/op/counters.h"
#include "engine/seat/interp.h"
#include "engine/seat/sched.h"

namespace stress {

namespace {

constexpr std::size_t kAltStackBytes = std::size_t{64} << 10;
constexpr std::uint64_t kToProcessPeriod = 16;

struct State {
    ProcessCounts *counts;  // nullptr: this thread has not asked for signals
    void *alt_stack;
    int timer;
    bool has_timer;
    std::uint64_t point_period, points_left;  // under the seeded scheduler, counted in sync points
};
constinit thread_local State state{};

FailureLog *handler_failures = nullptr;
sigset_t mask_before;

// One handler runs on the thread's stack, the other on an alternate stack.
std::atomic<bool> ever_started{false};

int signal_plain()
{
    return SIGRTMIN + 5;
}
int signal_alt()
{
    return SIGRTMIN + 6;
}

sigset_t both()
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal_plain());
    sigaddset(&set, signal_alt());
    return set;
}

using Vector = double __attribute__((vector_size(16)));

// Code that saves too little around a handler, or keeps data below the stack pointer, loses it here.
void clobber(int seed)
{
    volatile char scratch[4096];
    for (std::size_t i = 0; i < sizeof scratch; i += 64) scratch[i] = static_cast<char>(seed);
    volatile Vector registers[16];
    for (int i = 0; i < 16; ++i) registers[i] = Vector{static_cast<double>(seed + i), static_cast<double>(scratch[64])};
    Vector sum{};
    for (const volatile Vector &value : registers) sum += value;
    volatile double out = sum[0] + sum[1];
    (void)out;
}

void on_stranger()
{
    char name[17] = "?";
    prctl(PR_GET_NAME, name);
    if (handler_failures != nullptr)
        handler_failures->add(rule::kSignal, {0, 0},
                              "a signal to the process ran its handler on thread '%s', which is no thread of the "
                              "program: a malloc's own threads must block all signals",
                              name);
}

void on_signal(int number)
{
    const int before = errno;
    errno = 9999;
    clobber(number);
    ProcessCounts *counts = state.counts;
    if (counts == nullptr) {
        on_stranger();
    } else {
        bump(counts->signals, 1);
        if (Interp::inside()) bump(counts->signals_inside, 1);
        if (state.has_timer && read(counts->signals) % kToProcessPeriod == 0)
            syscall(SYS_kill, getpid(), number == signal_plain() ? signal_alt() : signal_plain());
    }
    errno = before;
}

void on_signal_bare(int)
{
    ProcessCounts *counts = state.counts;
    if (counts == nullptr) return on_stranger();
    bump(counts->signals, 1);
    if (Interp::inside()) bump(counts->signals_inside, 1);
}

void install(int number, int flags, bool bare)
{
    struct sigaction action{};
    action.sa_handler = bare ? on_signal_bare : on_signal;
    action.sa_flags = flags;
    action.sa_mask = both();
    sigaction(number, &action, nullptr);
}

void alt_stack_set(bool on)
{
    if (on && state.alt_stack == nullptr) {
        void *start =
            mmap(nullptr, kAltStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (start == MAP_FAILED) return;  // the handler will run on the thread's stack
        const stack_t stack{start, 0, kAltStackBytes};
        stack_t old{};
        // Keeps an alternate stack that is already there: a small stack's, or a sanitizer's.
        if (sigaltstack(nullptr, &old) == 0 && (old.ss_flags & SS_DISABLE) == 0) {
            munmap(start, kAltStackBytes);
            return;
        }
        sigaltstack(&stack, nullptr);
        state.alt_stack = start;
    } else if (!on && state.alt_stack != nullptr) {
        const stack_t none{nullptr, SS_DISABLE, 0};
        sigaltstack(&none, nullptr);
        munmap(state.alt_stack, kAltStackBytes);
        state.alt_stack = nullptr;
    }
}

// Uses the kernel's call directly, since libc's may allocate.
int timer_start(int number, std::uint64_t period_us)
{
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = number;
    signal_thread_set(event, static_cast<pid_t>(syscall(SYS_gettid)));
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &state.timer) != 0) return errno;
    const auto seconds = static_cast<time_t>(period_us / 1'000'000);
    const auto nanoseconds = static_cast<long>(period_us % 1'000'000 * 1000);
    const itimerspec period{{seconds, nanoseconds}, {seconds, nanoseconds}};
    if (syscall(SYS_timer_settime, state.timer, 0, &period, nullptr) != 0) return errno;
    state.has_timer = true;
    return 0;
}

void raise_at_point()
{
    if (--state.points_left > 0) return;
    state.points_left = state.point_period;
    // Signals itself: delivered before the call returns.
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid),
            read(state.counts->signals) % 2 == 0 ? signal_plain() : signal_alt());
}

}  // namespace

void signals_begin(FailureLog &failures, bool restart, bool bare)
{
    handler_failures = &failures;
    const sigset_t set = both();
    pthread_sigmask(SIG_BLOCK, &set, &mask_before);
    const int flags = restart ? SA_RESTART : 0;
    install(signal_plain(), flags, bare);
    install(signal_alt(), flags | SA_ONSTACK, bare);
}

void signals_probe_strangers()
{
    if (!ever_started.load(std::memory_order_relaxed)) return;
    for (int number : {signal_plain(), signal_alt()}) syscall(SYS_kill, getpid(), number);
    const timespec pause{0, 2'000'000};  // time for the stranger's handler to run; otherwise the signals stay pending
    nanosleep(&pause, nullptr);
}

void signals_end()
{
    // Signals still pending for the process must not meet the default action, which ends it.
    signal(signal_plain(), SIG_IGN);
    signal(signal_alt(), SIG_IGN);
    pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
    handler_failures = nullptr;
}

sigset_t signals_blocked_mask()
{
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, nullptr, &set);
    sigaddset(&set, signal_plain());
    sigaddset(&set, signal_alt());
    return set;
}

int signals_start(ProcessCounts &counts, std::uint64_t period_us)
{
    signals_stop();
    ever_started.store(true, std::memory_order_relaxed);
    state.counts = &counts;
    alt_stack_set(true);
    const sigset_t set = both();
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    if (sched_active()) {
        // A microsecond of work passes about eight sync points. Under the scheduler that many points cost too many
        // thread switches, so a signal comes after fewer points.
        state.points_left = state.point_period = 1 + period_us / 8;
        sched_at_point = raise_at_point;
        return 0;
    }
    const int error = timer_start(period_us % 2 == 0 ? signal_plain() : signal_alt(), period_us);
    if (error != 0) signals_stop();
    return error;
}

void signals_stop()
{
    if (state.counts == nullptr) return;
    if (state.has_timer) syscall(SYS_timer_delete, state.timer);
    state.has_timer = false;
    sched_at_point = nullptr;
    const sigset_t set = both();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    alt_stack_set(false);
    state.counts = nullptr;
}

} // namespace stress

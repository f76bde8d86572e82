// Signals and cancellation: threads of the library's own take no signals, and no call is a cancellation point.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "conform/check.h"
#include "conform/support.h"

namespace stress::conform {
namespace {

std::atomic<int> signals_taken;

// All threads of the program block the signal. If it is delivered, a thread that the library started has accepted it.
Verdict helpers_mask_signals(const Subject &s)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return skip("signals cannot be blocked");
    struct sigaction action{};
    action.sa_handler = [](int) { ++signals_taken; };
    sigaction(SIGUSR1, &action, nullptr);
    for (int round = 0; round < 20; ++round) {
        const char *wrong = exercise(s);
        if (wrong == nullptr && !in_thread([&] { wrong = exercise(s); })) return fail("no thread");
        if (wrong != nullptr) return fail("%s", wrong);
        kill(getpid(), SIGUSR1);
        sleep_ms(5);
        if (signals_taken.load() != 0)
            return fail("a thread of the library took a signal that all threads of the program block");
    }
    return pass();
}

Verdict mask_and_state_are_kept(const Subject &s)
{
    sigset_t set{}, before{}, after{};  // zeros: libc and the kernel fill only a part of a set
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &set, nullptr);
    const char *wrong = nullptr;
    bool mask_changed = false, state_changed = false;
    if (!in_thread([&] {
            int state = 0, type = 0;
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
            pthread_sigmask(SIG_BLOCK, nullptr, &before);
            wrong = exercise(s);
            if (s.stats != nullptr) s.stats();
            if (s.info != nullptr) s.info(0, stderr);
            if (s.trim != nullptr) s.trim(0);
            pthread_sigmask(SIG_BLOCK, nullptr, &after);
            pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
            pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
            mask_changed = memcmp(&before, &after, sizeof(sigset_t)) != 0;
            state_changed = state != PTHREAD_CANCEL_DISABLE || type != PTHREAD_CANCEL_DEFERRED;
        }))
        return fail("no thread");
    if (wrong != nullptr) return fail("%s", wrong);
    if (mask_changed)
        return fail("malloc or a relative (of malloc_stats, malloc_info, malloc_trim) changed the "
                    "thread's signal mask: SIGUSR2 alone was blocked");
    return state_changed ? fail("malloc or a relative changed the thread's cancellation state: it was disabled and "
                                "deferred")
                         : pass();
}

Verdict no_cancellation_point(const Subject &s)
{
    std::atomic<int> passed{0};
    std::atomic<const char *> wrong{nullptr}, call{nullptr};
    auto body = [&] {
        pthread_cancel(pthread_self());  // stays pending until a cancellation point
        call = "malloc, free, calloc, realloc or memalign";
        if (const char *text = exercise(s)) wrong = text;
        call = "malloc_trim";
        if (s.trim != nullptr) s.trim(0);
        call = "malloc_stats";
        if (s.stats != nullptr) s.stats();
        passed = 1;
        pthread_testcancel();
    };
    for (int i = 0; i < 5; ++i) {
        passed = 0;
        if (!in_thread(body)) return fail("no thread");
        if (passed.load() == 0) return fail("a pending cancellation ended the thread inside of %s", call.load());
    }
    return wrong.load() == nullptr ? pass() : fail("while a cancellation was pending, %s", wrong.load());
}

// A signal between any two instructions of malloc; the handler itself does not allocate.
Verdict signals_all_the_time(const Subject &s)
{
    struct sigaction action{};
    action.sa_handler = [](int) { ++signals_taken; };
    sigaction(SIGPROF, &action, nullptr);  // without SA_RESTART
    timer_t timer;
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGPROF;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return skip("no timer");
    const itimerspec often{{0, 200'000}, {0, 200'000}};
    timer_settime(timer, 0, &often, nullptr);
    for (int i = 0; i < 10; ++i) {
        const char *wrong = exercise(s);
        if (wrong == nullptr && !in_thread([&] { wrong = exercise(s); })) return fail("no thread");
        if (wrong != nullptr) return fail("under signals, %s", wrong);
    }
    timer_delete(timer);
    return signals_taken.load() > 0 ? pass() : skip("the timer sent no signal");
}

constexpr Check kSignalChecks[] = {
    {"helpers-mask-signals",
     "threads that the library starts block all signals",
     "quality: a handler must not run on a thread that the program did not start",
     "jemalloc 5.0.1",
     {39},
     helpers_mask_signals},
    {"mask-and-state-are-kept",
     "no call changes the signal mask or the cancellation state",
     "POSIX.1-2024 pthread_sigmask, pthread_setcancelstate: no other call changes the mask or the state",
     "BZ#22830",
     {39},
     mask_and_state_are_kept},
    {"no-cancellation-point",
     "no call of malloc is a cancellation point",
     "POSIX.1-2024 2.9.5.2: malloc, free and their like are no cancellation points",
     "BZ#22830",
     {39},
     no_cancellation_point},
    {"signals-all-the-time",
     "calls that signals interrupt continue",
     "POSIX.1-2024 2.4.3: a signal interrupts a call, which then continues",
     "jemalloc#2951",
     {39},
     signals_all_the_time},
};

}  // namespace

std::span<const Check> signal_checks()
{
    return kSignalChecks;
}

}  // namespace stress::conform

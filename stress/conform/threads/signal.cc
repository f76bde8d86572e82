// Signals and cancellation: threads of the library's own take no signals, no call is a cancellation point, and threads are stopped at
// any instruction.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "conform/check.h"
#include "conform/deny.h"
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
    sigset_t set{}, before{}, after{}; // zeros: libc and the kernel fill only a part of a set
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
        pthread_cancel(pthread_self()); // stays pending until a cancellation point
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
    sigaction(SIGPROF, &action, nullptr); // without SA_RESTART
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

// A thread waits for memory from the system, with what it has locked. Others need none: they free and allocate blocks of the
// same size, of which they have had some before. Only a few blocks exist, so the same one comes back soon. The others are
// stopped at any instruction: a malloc that takes blocks off a list by a compare-exchange then meets the same block first in
// another list.
struct Waiting {
    const Subject *subject;
    std::atomic<int> descriptor{0}, standing{0}, ready{0}, done{0}, over{0}, stops{0};
    std::atomic<unsigned long> steps{0};
    std::atomic<const char *> wrong{nullptr}, lacking{nullptr}; // lacking: what the system refuses to this check

    // Lets every thread of the check end.
    void give_up(const char *what)
    {
        lacking = what;
        standing = over = 1;
    }
    bool is_over() const
    {
        return wrong.load(std::memory_order_relaxed) != nullptr || lacking.load(std::memory_order_relaxed) != nullptr;
    }
};
constexpr int kWalkers = 3, kStops = 60'000;
constexpr unsigned kWalkSlots = 8, kWalkLive = 5;
constexpr std::size_t kWalkSize = 16'000;
Waiting waiting;
thread_local timer_t stopper;
thread_local unsigned draws;

unsigned draw()
{
    draws = draws * 1664525u + 1013904223u;
    return draws >> 16;
}

void stop_later()
{
    itimerspec soon{};
    soon.it_value.tv_nsec = 2'000 + draw() % 16'000;
    timer_settime(stopper, 0, &soon, nullptr);
}

void stopped(int)
{
    const int error = errno;
    const timespec pause{0, 1'000};
    nanosleep(&pause, nullptr);
    if (++waiting.stops < kStops) stop_later();
    errno = error;
}

void *takes_memory(void *)
{
    launder(waiting.subject->malloc(kWalkSize)); // the first memory may be for the thread itself
    wait_until(waiting.ready, kWalkers);
    waiting.descriptor = gate_memory_calls();
    if (waiting.descriptor.load() < 0) waiting.give_up("the kernel has no seccomp notifications");
    for (std::size_t used = 0; used < 100 * kMib && waiting.over.load() == 0; used += kWalkSize)
        launder(waiting.subject->malloc(kWalkSize));
    waiting.standing = 1; // the library may ask for none
    return nullptr;
}

// Holds a call until the others are done, or do not get on.
void *keeps_waiting(void *)
{
    for (Pause pause; waiting.descriptor.load() == 0;) pause();
    for (Gate gate(waiting.descriptor.load()); waiting.descriptor.load() > 0;) {
        if (!gate.arrived(1000)) continue;
        waiting.standing = 1;
        for (unsigned long before = ~0ul; waiting.done.load() < kWalkers && waiting.steps.load() != before;) {
            before = waiting.steps.load();
            sleep_ms(100);
        }
        gate.pass();
    }
    return nullptr;
}

struct Held {
    std::uint64_t *block = nullptr, stamp = 0;
};

// Allocates or frees the slot's block. What was wrong, or null.
const char *step(const Subject &s, Held &slot, unsigned &live, std::uint64_t stamp)
{
    constexpr std::size_t last = kWalkSize / sizeof stamp - 1;
    if (slot.block != nullptr) {
        if (slot.block[0] != slot.stamp || slot.block[last] != slot.stamp)
            return wrong_text("the live block %p of %zu bytes changed, while a thread waits for memory from the system",
                              static_cast<void *>(slot.block), kWalkSize);
        s.free(slot.block);
        --live;
        slot = {};
    } else if (live < kWalkLive || waiting.standing.load(std::memory_order_relaxed) == 0) {
        slot = {static_cast<std::uint64_t *>(launder(s.malloc(kWalkSize))), stamp};
        if (slot.block == nullptr) return wrong_text("malloc(%zu) gave NULL, errno %s", kWalkSize, errno_text(errno));
        slot.block[0] = slot.block[last] = stamp;
        ++live;
    }
    return nullptr;
}

const char *walk(unsigned thread)
{
    Held slots[kWalkSlots];
    unsigned live = 0;
    const std::uint64_t first_stamp = std::uint64_t{thread + 1} << 48;
    const char *wrong = nullptr;
    for (Held &slot : slots)
        if (wrong == nullptr) wrong = step(*waiting.subject, slot, live, first_stamp);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR1;
    event._sigev_un._tid = gettid();
    draws = thread;
    const bool has_timer = timer_create(CLOCK_MONOTONIC, &event, &stopper) == 0;
    if (!has_timer) waiting.give_up("no timer");
    ++waiting.ready;
    for (Pause pause; waiting.standing.load() == 0;) pause();
    if (wrong != nullptr || !has_timer) return wrong;
    stop_later();
    for (std::uint64_t i = 1; wrong == nullptr && !waiting.is_over(); ++i) {
        if (i % 64 == 0 && waiting.stops.load(std::memory_order_relaxed) >= kStops) break;
        wrong = step(*waiting.subject, slots[draw() % kWalkSlots], live, first_stamp + i);
        if (i % 64 == 0) waiting.steps.fetch_add(1, std::memory_order_relaxed);
    }
    timer_delete(stopper);
    return wrong;
}

Verdict beside_a_wait(const Subject &s)
{
    waiting.subject = &s;
    std::atomic<unsigned> threads{0};
    auto body = [&] {
        if (const char *wrong = walk(threads.fetch_add(1))) waiting.wrong = wrong;
        ++waiting.done;
        wait_until(waiting.over, 1); // a thread's end may need what the one that waits has locked
    };
    struct sigaction action{};
    action.sa_handler = stopped;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    pthread_t taker, keeper; // never joined: the taker's end would wait as well
    if (pthread_create(&taker, nullptr, takes_memory, nullptr) != 0 ||
        pthread_create(&keeper, nullptr, keeps_waiting, nullptr) != 0)
        return skip("no thread");
    Thread<decltype(body)> first(body), second(body), third(body);
    if (!first.started() || !second.started() || !third.started()) waiting.give_up("no thread");
    else wait_until(waiting.done, kWalkers);
    waiting.over = 1;
    if (waiting.wrong.load() != nullptr) return fail("%s", waiting.wrong.load());
    return waiting.lacking.load() == nullptr ? pass() : skip("%s", waiting.lacking.load());
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
    {"beside-a-wait-for-memory",
     "while a thread waits for memory from the system, others free and allocate blocks of their own",
     "C23 7.24.3: blocks are disjoint; calls of several threads appear to be made one after another",
     "rpmalloc#281",
     {33},
     beside_a_wait},
};

} // namespace

std::span<const Check> signal_checks()
{
    return kSignalChecks;
}

} // namespace stress::conform

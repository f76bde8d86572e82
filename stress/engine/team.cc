#include "engine/team.h"

#include <time.h>

#include "engine/build.h"

namespace stress {
namespace {

constexpr std::size_t kStackBytes = std::size_t{512} << 10;

void sleep_a_little()
{
    const timespec pause{0, 500'000};
    nanosleep(&pause, nullptr);
}

void retire(Seat &seat, pthread_t thread)
{
    while (!seat.retired.push(thread)) sleep_a_little();
}

void *seat_thread(void *argument)
{
    Seat &seat = *static_cast<Seat *>(argument);
    if (seat.has_predecessor) retire(seat, seat.predecessor);
    bump(seat.counters.threads_started, 1);
    while (seat.body(seat, seat.argument) == Outcome::Successor) {
        seat.predecessor = pthread_self();
        seat.has_predecessor = true;
        pthread_t successor;
        if (thread_create(successor, seat_thread, &seat) == 0) return nullptr;
        seat.has_predecessor = false;  // the system has no thread left: this one goes on
    }
    retire(seat, pthread_self());
    // release: all that the seat did. Pairs with the acquire in team_wait.
    seat.finished.store(true, std::memory_order_release);
    return nullptr;
}

// True when the seat is finished and its threads are joined.
bool join_retired(Seat &seat)
{
    // Before the queue: a finished seat has pushed its last thread.
    const bool finished = seat.finished.load(std::memory_order_acquire);
    for (pthread_t thread; seat.retired.pop(thread);) pthread_join(thread, nullptr);
    return finished;
}

}  // namespace

std::uint64_t clock_ns()
{
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

int thread_create(pthread_t &thread, void *(*entry)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if constexpr (!kSanitized) pthread_attr_setstacksize(&attributes, kStackBytes);
    const int error = pthread_create(&thread, &attributes, entry, argument);
    pthread_attr_destroy(&attributes);
    return error;
}

void team_start(Seat &seat, Seat::Body body, void *argument, FailureLog &failures)
{
    seat.body = body;
    seat.argument = argument;
    seat.has_predecessor = false;
    seat.finished.store(false, std::memory_order_relaxed);
    pthread_t thread;
    const int error = thread_create(thread, seat_thread, &seat);
    if (error == 0) return;
    seat.finished.store(true, std::memory_order_relaxed);
    failures.add(rule::kThread, seat.interp.witness(), "pthread_create failed with errno %d; ask for fewer threads",
                 error);
}

void team_wait(Mapped<Seat *> &seats, std::uint64_t deadline_ns, std::atomic<bool> &stop)
{
    for (;;) {
        bool all_finished = true;
        for (Seat *seat : seats) all_finished &= join_retired(*seat);
        if (all_finished) return;
        if (clock_ns() >= deadline_ns) stop.store(true, std::memory_order_relaxed);
        sleep_a_little();
    }
}

}  // namespace stress

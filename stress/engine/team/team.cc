#include "engine/team/team.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/subject/fault_os.h"
#include "engine/team/process_ops.h"
#include "engine/team/signals.h"
#include "engine/team/thread_life.h"
#include "engine/team/thread_start.h"
#include "engine/watch/work_clock.h"
#include "engine/team/worker.h"

namespace stress {
namespace {

void sleep_a_little()
{
    const timespec pause{0, 500'000};
    nanosleep(&pause, nullptr);
}

void retire(Seat &seat, pthread_t thread)
{
    while (!seat.thread.retired.push(thread)) sleep_a_little();
}

void *seat_thread(void *argument);

// Creates a thread for the seat, and admits it to the scheduler if there is one. 0 or an errno value.
int seat_thread_create(Seat &seat, pthread_t &thread, std::size_t stack_bytes = 0)
{
    const CancelOff cancel_off;
    const SchedHold hold;
    if (sched_now == nullptr) return thread_create(thread, seat_thread, &seat, stack_bytes);
    const std::size_t ticket = sched_now->admit();
    if (ticket == ~std::size_t{0}) return EAGAIN;
    seat.thread.ticket = ticket;
    const int error = thread_create(thread, seat_thread, &seat, stack_bytes);
    if (error == 0) sched_now->admitted(ticket, thread);
    return error;
}

// Marks the seat as finished: no more ops will be applied to it in this lap.
void finish(Seat &seat, bool seeded)
{
    const CancelOff cancel_off;  // what follows belongs to the harness, which waits and reads files
    process_ops_leave(seat, *worker_shared.interp);
    worker_shared.interp->oracle.leave(seat.index);
    if (!seeded) retire(seat, pthread_self());
    seat.thread.tid.store(0, std::memory_order_relaxed);
    // release: publishes everything that the seat did. Pairs with the acquire in team_wait.
    seat.thread.finished.store(true, std::memory_order_release);
}

// Gives the seat to a fresh thread. False: none could be started, and nothing has changed.
bool succeed(Seat &seat, RenewHow how)
{
    const CancelOff cancel_off;
    process_ops_leave(seat, *worker_shared.interp);
    seat.thread.predecessor = pthread_self();
    const bool small = how == RenewHow::SmallStack || worker_shared.cancel_ops != 0;
    if (small) bump(seat.process.counts.small_stacks, 1);
    if (how == RenewHow::Cancel) bump(seat.process.counts.cancellations, 1);
    pthread_t successor;
    if (seat_thread_create(seat, successor, small ? small_stack_bytes() : 0) == 0) return true;
    seat.thread.predecessor.reset();
    if (how == RenewHow::Cancel) seat.thread.cancel_after = 100;  // still pending: try again later
    return false;
}

// Interrupts the seat on the thread's stack and on an alternate one, in turns.
void interrupt(Seat &seat)
{
    const int error = signals_start(seat.process.counts, worker_shared.signal_us + seat.index % 2);
    if (error == 0) return;
    worker_shared.failures->add(rule::kSignal, seat.interp.witness(), "a timer could not be made, errno %d", error);
}

struct ThreadEnd {
    Seat &seat;
    bool seeded;
};

// The last call of a thread's body, whether it returns, calls pthread_exit or is cancelled. It is a clean-up handler,
// because not every libc unwinds: with musl no destructor runs for a thread that does not return.
void thread_ended(void *argument)
{
    const auto [seat, seeded] = *static_cast<const ThreadEnd *>(argument);
    if (!thread_end_is_meant()) {
        worker_shared.failures->add(
            rule::kCancellation, seat.interp.witness(),
            "a pending cancellation ended the thread %s: malloc and its relatives must not be cancellation points",
            Interp::inside() ? "inside the subject" : "at a place that is not meant for it");
        inside_subject = false;
        finish(seat, seeded);
    }
    small_stack_leave();
    if (seeded) sched_now->leave();
    // Only the subject's own end of the thread is left; its calls for memory must be able to fail too.
    if (fault_os_process_is_armed()) inside_subject = true;
}

void seat_run(Seat &seat, bool seeded)
{
    seat.thread.cancel_after = 0;
    if (seat.thread.renew == RenewHow::SmallStack || worker_shared.cancel_ops != 0) small_stack_enter();
    thread_cancel_draw(seat, worker_shared.cancel_ops, worker_shared.seed);
    seat.thread.renew = RenewHow::Return;
    if (worker_shared.signal_us != 0) interrupt(seat);
    while (worker_run(seat) == Outcome::Successor) {
        const RenewHow how = seat.thread.renew;
        if (!succeed(seat, how)) continue; // the system has no thread left: this one continues
        thread_end(how);
        return;
    }
    const RenewHow how = seat.thread.cancel_after != 0 ? RenewHow::Cancel : RenewHow::Return;
    finish(seat, seeded);
    thread_end(how);
}

void *seat_thread(void *argument)
{
    Seat &seat = *static_cast<Seat *>(argument);
    const bool seeded = sched_now != nullptr;
    seat.thread.tid.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
    if (seeded) sched_now->enter(seat.thread.ticket);
    if (seat.thread.predecessor.has_value() && !seeded) retire(seat, *seat.thread.predecessor);
    bump(seat.counters.threads_started, 1);
    ThreadEnd end{seat, seeded};
    pthread_cleanup_push(thread_ended, &end);
    seat_run(seat, seeded);
    pthread_cleanup_pop(1);
    return nullptr;
}

// True if the seat is finished and its threads are joined.
bool join_retired(Seat &seat)
{
    // Read before the queue: a finished seat has already pushed its last thread.
    const bool finished = seat.thread.finished.load(std::memory_order_acquire);
    for (pthread_t thread; seat.thread.retired.pop(thread);) thread_join(thread);
    return finished;
}

// Whether every unfinished seat waits for an op that does not have its turn. `ops` is the sum of their ops.
bool all_wait(const Mapped<Seat *> &seats, const Slots &slots, std::uint64_t &ops)
{
    bool any = false;
    ops = 0;
    for (const Seat *seat : seats) {
        ops += read(seat->counters.ops);
        if (seat->thread.finished.load(std::memory_order_acquire)) continue;
        any = true;
        const std::uint64_t waits = seat->interp.waits_for();
        if (waits == 0 ||
            Interp::in_turn(slots, static_cast<std::uint32_t>(waits >> 16), static_cast<std::uint16_t>(waits)))
            return false;
    }
    return any;
}

// No seat can continue. Seen twice with nothing done in between, so it was true all the time between.
bool stalled(const Mapped<Seat *> &seats, const Slots &slots)
{
    std::uint64_t before = 0, after = 0;
    if (!all_wait(seats, slots, before) || !all_wait(seats, slots, after) || before != after) return false;
    // A second look: the sum is taken before the seats are looked at.
    all_wait(seats, slots, after);
    return before == after;
}

} // namespace

void team_start(Seat &seat, FailureLog &failures)
{
    seat.thread.predecessor.reset();
    seat.thread.finished.store(false, std::memory_order_relaxed);
    pthread_t thread;
    const int error = seat_thread_create(seat, thread, worker_shared.cancel_ops != 0 ? small_stack_bytes() : 0);
    if (error == 0) return;
    seat.thread.finished.store(true, std::memory_order_relaxed);
    failures.add(rule::kThread, seat.interp.witness(), "pthread_create failed with errno %d; ask for fewer threads",
                 error);
}

void team_wait(Mapped<Seat *> &seats, const Slots &slots, TimeLimit limit, std::atomic<bool> &stop)
{
    if (sched_now != nullptr) {
        sched_now->run(thread_join);
        return;
    }
    constexpr std::uint32_t pauses_a_look = 16;
    const std::uint64_t start_ns = clock_ns();
    WorkClock work;
    for (std::uint32_t pause = 0;; ++pause) {
        bool all_finished = true;
        for (Seat *seat : seats) all_finished &= join_retired(*seat);
        if (all_finished) return;
        if (limit.of_work && pause % pauses_a_look == 0) work.look();
        const std::uint64_t passed_ns = limit.of_work ? work.worked_ns() : clock_ns() - start_ns;
        if (passed_ns >= limit.ns || stalled(seats, slots)) stop.store(true, std::memory_order_relaxed);
        sleep_a_little();
    }
}

} // namespace stress

#include "engine/team/process_ops.h"

#include <pthread.h>
#include <time.h>

#include "engine/subject/extras.h"
#include "engine/subject/fault_os.h"
#include "engine/subject/whitebox.h"
#include "engine/team/dlopen_op.h"
#include "engine/team/fork_child.h"
#include "engine/team/fork_op.h"
#include "engine/team/fork_park.h"
#include "engine/team/heap_op.h"
#include "engine/team/idle_op.h"
#include "engine/team/destructors.h"
#include "engine/team/signals.h"
#include "engine/team/stream_op.h"
#include "engine/team/thread_life.h"

namespace stress {
namespace {

// A lower count may be zero by chance.
constexpr std::uint64_t kForksToJudge = 8, kSignalsToJudge = 500, kOsCallsToJudge = 50;

std::atomic<std::uint32_t> limits_held{0};
constexpr std::uint64_t kTightBytesMax = std::uint64_t{8} << 20; // of a limit that may refuse an ordinary request
std::uint64_t rounds_before = 0;

void sleep_ms(std::size_t ms)
{
    const timespec pause{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000) * 1'000'000};
    nanosleep(&pause, nullptr);
}

SeatNext renew(const Op &op, Seat &seat, FailureLog &failures, InterpShared &shared)
{
    const auto how = static_cast<RenewHow>(op.arg % kRenewHowCount);
    if (how == RenewHow::Cancel) {
        thread_cancel_after(seat, op_size(op));
        return SeatNext::GoOn;
    }
    if (seat.thread.cancel_after != 0) return SeatNext::GoOn;  // the thread ends by that cancellation
    if (how == RenewHow::Destructors) destructors_arm(seat, shared, failures, op_size(op));
    seat.thread.renew = how;
    return SeatNext::Renew;
}

void fail_os(const Op &op, Seat &seat, InterpShared &shared)
{
    if (!fault_os_installed() && op_size(op) != 0 && !fault_os_install()) return;  // the plan has already said so
    if (op_size(op) == 0) {
        fault_os_disarm();
        if (seat.process.holds_failure) shared.scarce_end();
        seat.process.holds_failure = false;
        return;
    }
    if (!seat.process.holds_failure) shared.scarce_begin();
    seat.process.holds_failure = true;
    fault_os_arm(seat.process.counts, op_size(op), op.arg != 0);
    bump(seat.process.counts.fail_os, 1);
}

// The process has one limit: the last one set counts, and it goes when the last seat lets go of it.
void limit_memory(std::uint64_t bytes, Seat &seat, InterpShared &shared)
{
    if (bytes != 0) {
        if (!seat.process.holds_limit) {
            shared.scarce_begin();
            limits_held.fetch_add(1, std::memory_order_relaxed);
        }
        seat.process.holds_limit = true;
        if (memory_limit_set(bytes) == 0) bump(seat.process.counts.limits, 1);
    } else if (seat.process.holds_limit) {
        seat.process.holds_limit = false;
        if (limits_held.fetch_sub(1, std::memory_order_relaxed) == 1) memory_limit_set(0);
        shared.scarce_end();
    }
}

// The subject's own limit: the last one set counts, and none once a seat lets go of its own. While none is tight, nothing
// may be refused.
void limit_subject(std::uint64_t bytes, Seat &seat, InterpShared &shared)
{
    SeatProcess &process = seat.process;
    const bool was_tight = process.own_limit_is_tight;
    process.own_limit_is_tight = bytes != 0 && bytes <= kTightBytesMax;
    if (process.own_limit_is_tight && !was_tight) shared.scarce_begin();
    if (process.own_limit_is_tight) subject_limit_tighten(bytes);
    else if (bytes != 0 || process.holds_own_limit) subject_limit_set(bytes);
    process.holds_own_limit = bytes != 0;
    if (bytes != 0) bump(process.counts.limits, 1);
    if (was_tight && !process.own_limit_is_tight) shared.scarce_end();
}

// Of a malloc without a limit the address space is limited instead, but only where that may refuse something.
void limit(std::uint64_t bytes, Seat &seat, InterpShared &shared)
{
    if (subject_has_limit()) limit_subject(bytes, seat, shared);
    else limit_memory(bytes <= kTightBytesMax ? bytes : 0, seat, shared);
}

SeatNext signals(std::uint64_t period_us, Seat &seat, FailureLog &failures)
{
    if (period_us == 0) {
        signals_stop();
        return SeatNext::GoOn;
    }
    const int error = signals_start(seat.process.counts, period_us);
    if (error == 0) return SeatNext::GoOn;
    failures.add(rule::kSignal, seat.interp.witness(), "a timer could not be made, errno %d", error);
    return SeatNext::Failed;
}

void purge()
{
    const InsideSubject inside;
    subject::call_purge();
}

} // namespace

SeatNext process_op_apply(const Op &op, Seat &seat, FailureLog &failures, InterpShared &shared)
{
    bump(seat.counters.ops, 1);
    bump(seat.counters.judged[static_cast<std::size_t>(op.kind)], 1);
    // Before anything else: calls the subject with a cancellation pending, which it must not act on.
    if (op.kind == OpKind::Purge) {
        purge();
        return SeatNext::GoOn;
    }
    const CancelOff cancel_off;
    const auto next = [](bool sound) { return sound ? SeatNext::GoOn : SeatNext::Failed; };
    switch (op.kind) {
    case OpKind::Renew: return renew(op, seat, failures, shared);
    case OpKind::Fork: return next(fork_apply(op, seat, failures, shared));
    case OpKind::Signals: return signals(op_size(op), seat, failures);
    case OpKind::Dlopen: return next(dlopen_apply(op_size(op), seat, failures, shared));
    case OpKind::FailOs: fail_os(op, seat, shared); break;
    case OpKind::LimitMemory: limit_memory(op_size(op), seat, shared); break;
    case OpKind::GetLine: return next(getline_apply(op_size(op), seat, failures, shared));
    case OpKind::FlushAll: flush_all_apply(); break;
    case OpKind::Sleep: sleep_ms(op_size(op)); break;
    case OpKind::Heap: return next(heap_apply(op_size(op), seat, failures, shared));
    case OpKind::Limit: limit(op_size(op), seat, shared); break;
    case OpKind::Idle: return next(idle_apply(op_size(op), seat, failures, shared.stop));
    case OpKind::Touches: seat.interp.touch_next(op_size(op)); break;
    default: break;
    }
    return SeatNext::GoOn;
}

void process_ops_begin(const ProcessNeeds &needs, FailureLog &failures)
{
    thread_life_warm_up();
    fork_child_deadline_set(needs.watchdog_seconds / 3);
    signals_begin(failures, needs.signals_restart, needs.signals_bare);
    if (needs.directs_forks) fork_park_begin();
    if (needs.traps_os) fault_os_install();
    heap_op_begin(needs.seats);
    idle_op_begin(needs.seats, needs.meter);
    rounds_before = destructors_rounds();
}

void process_ops_end(const Mapped<Seat *> &seats)
{
    for (Seat *seat : seats) stream_close(*seat);
    heap_op_end();
    fork_park_end();
    signals_end();
}

void process_ops_leave(Seat &seat, InterpShared &shared)
{
    signals_stop();
    fail_os(op_make(OpKind::FailOs, 0, 0), seat, shared);
    limit_memory(0, seat, shared);
    limit_subject(0, seat, shared);
}

void process_ops_rest(Seat &seat, FailureLog &failures, InterpShared &shared)
{
    destructors_sweep(seat, shared, failures);
    heap_op_rest(seat, failures, shared);
    signals_probe_strangers();
    const std::uint64_t rounds = destructors_rounds();
    bump(seat.process.counts.destructor_rounds, rounds - rounds_before);
    rounds_before = rounds;
}

void process_ops_judge(const ProcessFigures &figures, const ProcessNeeds &needs, Witness witness, FailureLog &failures)
{
    if (needs.directs_forks && whitebox_has_sync_points() && figures.forks >= kForksToJudge &&
        figures.forks_directed == 0)
        failures.add(rule::kProvesNothing, witness,
                     "of %llu forks none was made while another thread was inside the allocator",
                     static_cast<unsigned long long>(figures.forks));
    if (figures.signals >= kSignalsToJudge && figures.signals_inside == 0)
        failures.add(rule::kProvesNothing, witness, "of %llu signals none came while a thread was inside the allocator",
                     static_cast<unsigned long long>(figures.signals));
    if (figures.os_calls >= kOsCallsToJudge && figures.os_failures == 0)
        failures.add(rule::kProvesNothing, witness, "of %llu trapped system calls for memory none was made to fail",
                     static_cast<unsigned long long>(figures.os_calls));
}

} // namespace stress

#include "engine/team/fork_op.h"

#include <unistd.h>

#include <cerrno>

#include "engine/subject/whitebox.h"
#include "engine/team/fork_child.h"
#include "engine/team/fork_park.h"

namespace stress {
namespace {

constexpr int kGiveWayMax = 16;

// Under the seeded scheduler: lets the others run until one is stopped inside the subject.
void give_way_until_inside()
{
    for (int i = 0; i < kGiveWayMax && sched_now->others_inside() == 0; ++i) sched_now->give_way("fork");
}

pid_t fork_now()
{
    const SchedPause pause;
    return fork();
}

// Forks, directed if possible. The child does not return.
struct Forked {
    pid_t child;
    int error;
    const char *step;  // where another thread was stopped; nullptr: the fork was not directed
};

Forked fork_directed(const ForkTask &task, std::size_t which, std::uint32_t skip)
{
    if (sched_active()) {
        const pid_t child = fork_now();
        if (child == 0) fork_child_run(task);
        return {child, errno, sched_now->others_inside() > 0 ? "a sync point" : nullptr};
    }
    const ParkedThread parked(which, skip);
    const pid_t child = fork_now();
    if (child == 0) fork_child_run(task);
    return {child, errno, parked.stands() ? parked.step() : nullptr};
}

// The parent's part. True: the child was sound.
bool judge_child(const Forked &forked, std::uint32_t mark, Seat &seat, FailureLog &failures, InterpShared &shared,
                 ForkReport &report)
{
    if (forked.child < 0) {
        const bool refused = forked.error == ENOMEM || forked.error == EAGAIN;
        if (refused && shared.scarce_since(mark)) return true;
        failures.add(rule::kFork, seat.interp.witness(), "fork failed with errno %d", forked.error);
        return false;
    }
    char why[640];
    if (fork_child_wait(forked.child, report, why)) return true;
    failures.add(rule::kFork, seat.interp.witness(), "the child %s; another thread was stopped at %s", why,
                 forked.step != nullptr ? forked.step : "no known step");
    return false;
}

}  // namespace

bool fork_apply(const Op &op, Seat &seat, FailureLog &failures, InterpShared &shared)
{
    if (sched_active()) give_way_until_inside();
    const SchedHold hold;
    const std::uint32_t mark = shared.scarce_mark();
    const std::uint64_t number = read(seat.process.counts.forks);
    ForkReport *report = fork_report_make();
    if (report == nullptr) return true;  // memory is scarce
    const ForkTask task{seat,           shared, failures, *report, op_size(op), number * kOpThreadsMax + seat.index,
                        number % 4 == 3};
    const Forked forked = fork_directed(task, op.arg, static_cast<std::uint32_t>(number % 3));
    bump(seat.process.counts.forks, 1);
    if (forked.step != nullptr) bump(seat.process.counts.forks_directed, 1);
    const bool sound = judge_child(forked, mark, seat, failures, shared, *report);
    fork_report_free(report);
    return sound;
}

}  // namespace stress
